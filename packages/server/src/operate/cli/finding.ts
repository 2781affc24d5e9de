/** What `eaas doctor` reports: a line for each thing that it examined. */

const NAMED_AT_MOST = 5

export interface Finding {
  check: string
  ok: boolean
  warning?: true // does not prevent a start, but should be checked
  detail: string // what was found, and what to do if it is not ok
}

/** The result of one examination; an error that it throws becomes a finding that is not ok. */
export interface Result<T = never> extends Partial<Omit<Finding, 'check'>> {
  detail: string
  found?: T
}

/** The result of an examination that is not reported, because another one continues with what it found. */
export interface Found<T> {
  found: T
  ok?: true
  detail?: undefined
}

/** A result that fails the run. */
export function wrong(detail: string): Result {
  return { ok: false, detail }
}

/** A result that does not prevent a start, but should be checked. */
export function warn(detail: string): Result {
  return { warning: true, detail }
}

/** Names the first of several things, and says how many more there are. */
export function someOf(parts: readonly string[]): string {
  const more = parts.length > NAMED_AT_MOST ? [`and ${parts.length - NAMED_AT_MOST} more`] : []
  return [...parts.slice(0, NAMED_AT_MOST), ...more].join('; ')
}

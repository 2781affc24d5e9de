/** What `eaas doctor` reports: a line for each thing that it examined. */

const NAMED_AT_MOST = 5

export interface Finding {
  check: string
  ok: boolean
  warning?: true // does not prevent a start, but should be checked
  detail: string // what was found, and what to do if it is not ok
}

/** An error that an examination throws becomes a finding that is not ok. */
export interface Result<T = never> extends Partial<Omit<Finding, 'check'>> {
  detail: string
  found?: T
}

/** Not reported, because another examination continues with what it found. */
export interface Found<T> {
  found: T
  ok?: true
  detail?: undefined
}

export function wrong(detail: string): Result {
  return { ok: false, detail }
}

export function warn(detail: string): Result {
  return { warning: true, detail }
}

export function someOf(parts: readonly string[]): string {
  const more = parts.length > NAMED_AT_MOST ? [`and ${parts.length - NAMED_AT_MOST} more`] : []
  return [...parts.slice(0, NAMED_AT_MOST), ...more].join('; ')
}

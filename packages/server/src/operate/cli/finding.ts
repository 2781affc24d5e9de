/** What `eaas doctor` reports: a line for each thing that it examined. */

/** The most things that one finding names. */
const NAMED_AT_MOST = 5

export interface Finding {
  check: string
  ok: boolean
  /** does not prevent a start, but should be checked */
  warning?: true
  /** what was found, and what to do if it is not ok */
  detail: string
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

/** Names the first of several things, and says how many more there are. */
export function someOf(parts: readonly string[]): string {
  const more = parts.length > NAMED_AT_MOST ? [`and ${parts.length - NAMED_AT_MOST} more`] : []
  return [...parts.slice(0, NAMED_AT_MOST), ...more].join('; ')
}

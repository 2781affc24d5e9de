/** Times as people read them. Pure. */

const UNITS: readonly [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [31_536_000, 'year'],
  [2_592_000, 'month'],
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
]
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'long' })

/** How long ago, or in how long: `3 hours ago`, `in 2 days`. */
export function describeAge(time: string, now: number): string {
  const seconds = (Date.parse(time) - now) / 1_000
  const found = UNITS.find(([length]) => Math.abs(seconds) >= length)
  if (!found) return seconds > 0 ? 'in a moment' : 'just now'
  return relative.format(Math.round(seconds / found[0]), found[1])
}

/** `2026-05-03 14:07:09.120 UTC`, or the same in the reader's zone. */
export function writeExact(time: string, isUtc: boolean): string {
  if (isUtc) return `${time.slice(0, 10)} ${time.slice(11, 23)} UTC`
  const date = new Date(time)
  const two = (value: number) => String(value).padStart(2, '0')
  const offset = -date.getTimezoneOffset()
  const zone = `${offset < 0 ? '-' : '+'}${two(Math.trunc(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())} ${zone}`
}

/** Reads a day, or a day and time, in UTC; returns RFC 3339 or undefined. A day alone means its beginning or end. */
export function readTime(text: string, edge: 'begin' | 'end'): string | undefined {
  const [, day, time] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?$/.exec(text.trim()) ?? []
  if (day === undefined) return undefined
  const clock = time ?? (edge === 'begin' ? '00:00:00.000' : '23:59:59.999')
  const date = new Date(`${day}T${clock}Z`)
  return Number.isNaN(date.getTime()) || date.toISOString().slice(0, 10) !== day ? undefined : date.toISOString()
}

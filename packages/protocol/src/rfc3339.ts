/** Times of RFC 3339 section 5.6. Strict: refuses a time without an offset, and a date such as 30 February. */

const PATTERN =
  /^(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i
const MS_PER_MINUTE = 60_000

// The range of PostgreSQL and the log. A bound beyond it selects the same entries.
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z')
const LATEST = Date.parse('9999-12-31T23:59:59.999Z')

/** In UTC with milliseconds; `round` applies to finer fractions. A leap second, at a month's end, becomes the next second. */
export function parseRfc3339(text: string, round: 'up' | 'down'): string | undefined {
  const match = PATTERN.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHours = '0', offsetMinutes = '0'] = match
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day)) // Date.UTC would take year 0026 as 1926
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined
  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHours) * 60 + Number(offsetMinutes))
  const digits = fraction.padEnd(9, '0')
  const finer = Number(digits.slice(3)) > 0 && round === 'up' ? 1 : 0
  const wholeSecond = date.setUTCHours(Number(hour), Number(minute), Number(second)) - offset * MS_PER_MINUTE
  if (second === '60' && !beginsMonth(new Date(wholeSecond))) return undefined
  const time = wholeSecond + Number(digits.slice(0, 3)) + finer
  return new Date(Math.min(Math.max(time, EARLIEST), LATEST)).toISOString()
}

function beginsMonth(date: Date): boolean {
  return date.toISOString().endsWith('-01T00:00:00.000Z')
}

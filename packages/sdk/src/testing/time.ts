/** Times as callers may write them: RFC 3339 with an offset. */

const PATTERN =
  /^(\d{4}-\d\d-(\d\d))T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d+))?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i
// A bound beyond these selects the same entries.
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z')
const LATEST = Date.parse('9999-12-31T23:59:59.999Z')

/** Reads a time; returns it in UTC with milliseconds, finer fractions rounded as told, or undefined where it is none. */
export function readTime(text: string, round: 'up' | 'down'): string | undefined {
  const [, date = '', day, fraction = ''] = PATTERN.exec(text) ?? []
  // Of 30 February the platform makes 2 March.
  if (date === '' || new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined
  const finer = round === 'up' && Number(fraction.slice(3)) > 0 ? 1 : 0
  const time = Date.parse(text.toUpperCase().replace(/\.\d+/, `.${fraction.padEnd(3, '0').slice(0, 3)}`))
  return new Date(Math.min(Math.max(time + finer, EARLIEST), LATEST)).toISOString()
}

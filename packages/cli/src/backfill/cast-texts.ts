/** How to convert texts that a cast to text left in a column, and that a field does not read. */
import { fieldText } from './postgres-values.js'

interface CastText {
  /** What the field expects, as its error says. */
  expected: string
  /** Matches the texts, in JavaScript and in PostgreSQL. */
  text: RegExp
  what: string
  /** SQL for the value that the field reads. */
  convert(column: string): string
}

const CAST_TEXTS: readonly CastText[] = [
  {
    expected: 'a day, or a time',
    text: /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,3}0*)?$/,
    what: 'a time without a zone. If it is UTC',
    convert: (column) => `${column} || 'Z'`,
  },
  {
    expected: 'a day, or a time',
    text: /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+$/,
    what: 'a time without a zone, to the microsecond. If it is UTC',
    convert: (column) => `left(${column}, 23) || 'Z'`,
  },
  {
    expected: 'a day, or a time',
    text: /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d(:?\d\d){0,2}$/,
    what: 'a time to the microsecond, or with an offset to the second',
    convert: (column) => fieldText(`${column}::timestamptz`, 'timestamp with time zone'),
  },
  {
    expected: 'a day, or a time',
    text: /^\d\d[./-]\d\d[./-]\d{4}$/,
    what: 'a day in the order of a country. If the day comes first',
    convert: (column) => fieldText(`to_date(${column}, 'DD MM YYYY')`, 'date'),
  },
  {
    expected: 'true or false',
    text: /^\s*([tTfFyYnN01]|TRUE|FALSE|[Yy]es|YES|[Nn]o|NO|on|off)\s*$/,
    what: 'a boolean in another spelling',
    convert: (column) => `${column}::boolean::text`,
  },
  {
    expected: 'a number',
    text: /^(?=.*\d)\s*[+-]?0*(\d{0,15}|\d{0,8}\.\d{0,7}0*)\s*$/,
    what: 'a number in another spelling',
    convert: (column) => `${column}::numeric::text`,
  },
  {
    expected: 'a number',
    text: /^\s*[+-]?\d*\.?\d+\s*$/,
    what: 'a number of more digits than JavaScript holds: text() keeps them. To round it',
    convert: (column) => fieldText(`${column}::double precision`, 'double precision'),
  },
  {
    expected: 'base64',
    text: /^\\x([0-9a-f]{2})*$/,
    what: 'what bytea prints',
    convert: (column) => `encode(${column}::bytea, 'base64')`,
  },
]

/** Says how to convert a text that a field refused, and all similar ones; undefined if unknown. Quotes no value. */
export function conversionOf(
  message: string,
  stored: unknown,
  names: { table: string; column: string } | undefined,
): string | undefined {
  if (names === undefined || typeof stored !== 'string') return undefined
  const { table, column } = names
  const found = CAST_TEXTS.find(({ expected, text }) => message.includes(`text of ${expected}`) && text.test(stored))
  if (!found) return undefined
  const like = found.text.source.replaceAll('\\/', '/')
  return `It is ${found.what}: update ${table} set ${column} = ${found.convert(column)} where ${column} ~ '${like}'`
}

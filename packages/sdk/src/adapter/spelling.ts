/** How a database spells the values that find a row: a value bound to another spelling would never open again. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import type { SealedTable } from './sealed-table.js'

/** Returns a UUID as PostgreSQL does: in lower case, with hyphens. Other text is returned unchanged. */
export function spellUuid<T>(value: T): T | string {
  if (typeof value !== 'string') return value
  const digits = value
    .trim()
    .toLowerCase()
    .replace(/^urn:uuid:/, '')
    .replace(/^\{(.*)\}$/, '$1')
    .replaceAll('-', '')
  if (!/^[0-9a-f]{32}$/.test(digits)) return value
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const WHOLE = /^(0|-?[1-9]\d*)$/

/** Tells whether a UUID is spelled as databases return it. */
export function isSpelledUuid(value: unknown): boolean {
  return UUID.test(String(value))
}

/** Tells whether a whole number is spelled as databases return it. */
export function isSpelledWhole(value: unknown): boolean {
  return WHOLE.test(String(value))
}

/** Returns a whole number as databases do: without leading zeros, a plus sign or spaces. Other text is returned unchanged. */
export function spellWhole<T>(value: T): T | string {
  return typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? BigInt(value).toString() : value
}

/** Whether columns of every type, except those that ignore case, return the value so. `upper`: UUIDs are in upper case. */
export function isPlainSpelling(value: unknown, upper = false): boolean {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return true
  if (typeof value !== 'string' || value !== value.trim()) return false
  const spelled = spellUuid(value)
  if (isSpelledUuid(spelled)) return value === (upper ? spelled.toUpperCase() : spelled)
  return value === '' || Number.isNaN(Number(value)) || isSpelledWhole(value)
}

export type Spellable = string | number | bigint

/** Returns a value as a column will, or undefined if unknown. `type` is SQL's, or `bigint` for all whole numbers. */
export function spellAs(type: string, value: Spellable, isText: boolean): Spellable | undefined {
  if (type === 'uuid') return isSpelledUuid(spellUuid(value)) ? spellUuid(value) : undefined
  if (type === 'bigint') return isSpelledWhole(spellWhole(value)) ? spellWhole(value) : undefined
  // The database pads a shorter text with spaces, and cuts off excess spaces.
  if (/^(varchar|character varying)/.test(type)) return String(value).endsWith(' ') ? undefined : value
  const [padded, length = 1] = /^char(?:acter)?(?:\((\d+)\))?$/.exec(type) ?? []
  if (padded !== undefined) return String(value).length === Number(length) ? value : undefined
  return isText ? String(value) : undefined // an SQLite driver would turn 7 into 7.0
}

/** Returns the columns of `bind` as the database will. @throws InvalidInputError where `spell` does not know that */
export function spellRow(
  { name, bind }: SealedTable,
  row: Row,
  spell: (column: string, value: Spellable) => Spellable | undefined,
): Row {
  const spelled = bind.flatMap((column) => {
    const value = row[column]
    const isSpellable = ['string', 'number', 'bigint'].includes(typeof value)
    return isSpellable ? [[column, spell(column, value as Spellable) ?? refuseSpelling(name, column, AS_READ)]] : []
  })
  return spelled.length > 0 ? { ...row, ...Object.fromEntries(spelled) } : row
}

const AS_RETURNED = 'Pass it as the database returns it: a UUID in lower case, a whole number without zeros in front.'
/** Advice for a column whose type is known but has more than one spelling. */
export const AS_READ = 'Pass it as it was read. Bind values to a column of uuid, whole numbers or text.'

/** Refuses a value if the database may return the row that it finds with another spelling. @throws InvalidInputError */
export function refuseSpelling(table: string, column: string, hint = AS_RETURNED): never {
  throw new InvalidInputError(
    `${table}.${column} must have the spelling in which the database returns it: encrypted values are bound to it`,
    hint,
  )
}

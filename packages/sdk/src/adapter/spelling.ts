/** How a database spells the values that find a row: a value bound to another spelling would never open again. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import type { SealedTable } from './sealed-table.js'

/** Returns a UUID as PostgreSQL does: in lower case, with hyphens. Text that is no UUID is returned as it is. */
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

/** Returns a whole number as databases do: without zeros, a sign or spaces. Other text is returned as it is. */
export function spellWhole<T>(value: T): T | string {
  return typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? BigInt(value).toString() : value
}

/** Whether columns of every type, except one that ignores case, return it so. `upper`: UUIDs come in upper case. */
export function isPlainSpelling(value: unknown, upper = false): boolean {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return true
  if (typeof value !== 'string' || value !== value.trim()) return false
  const spelled = spellUuid(value)
  if (isSpelledUuid(spelled)) return value === (upper ? spelled.toUpperCase() : spelled)
  return value === '' || Number.isNaN(Number(value)) || isSpelledWhole(value)
}

export type Spellable = string | number | bigint

/** As a column returns it, undefined if unknown. `type` is SQL's, `bigint` for all whole numbers. */
export function spellAs(type: string, value: Spellable, isText: boolean): Spellable | undefined {
  if (type === 'uuid') return isSpelledUuid(spellUuid(value)) ? spellUuid(value) : undefined
  if (type === 'bigint') return isSpelledWhole(spellWhole(value)) ? spellWhole(value) : undefined
  // The database fills a shorter text with spaces, and cuts off spaces that do not fit.
  if (/^(varchar|character varying)/.test(type)) return String(value).endsWith(' ') ? undefined : value
  const [padded, length = 1] = /^char(?:acter)?(?:\((\d+)\))?$/.exec(type) ?? []
  if (padded !== undefined) return String(value).length === Number(length) ? value : undefined
  return isText ? String(value) : undefined // a driver of SQLite would turn 7 into 7.0
}

/** As the database will return the columns of `bind`. @throws InvalidInputError where `spell` does not know that */
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
/** For a column whose type is known, and has no one spelling. */
export const AS_READ = 'Pass it as it was read. Bind values to a column of uuid, whole numbers or text.'

/** Refuses a value that finds a row in which the database may return another spelling. @throws InvalidInputError */
export function refuseSpelling(table: string, column: string, hint = AS_RETURNED): never {
  throw new InvalidInputError(
    `${table}.${column} must have the spelling in which the database returns it: encrypted values are bound to it`,
    hint,
  )
}

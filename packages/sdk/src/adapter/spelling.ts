/**
 * How a database spells the values by which it finds a row. It finds a UUID in any spelling but returns it in one: a
 * value bound to another spelling would never open again.
 */
import { InvalidInputError } from '../errors.js'

/**
 * Returns a UUID as PostgreSQL does: in lower case, with hyphens. Text that is no UUID is returned as it is.
 */
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

/**
 * Returns a whole number as databases do: without zeros or a sign in front, and without spaces. Other text is
 * returned as it is.
 */
export function spellWhole<T>(value: T): T | string {
  return typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? BigInt(value).toString() : value
}

/**
 * Tells whether columns of every type, except one that ignores case, return a value in this spelling: a whole
 * number, or text that is not a UUID or number in an unusual spelling.
 *
 * @param upper whether the database returns UUIDs in upper case
 */
export function isPlainSpelling(value: unknown, upper = false): boolean {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return true
  if (typeof value !== 'string' || value !== value.trim()) return false
  const spelled = spellUuid(value)
  if (isSpelledUuid(spelled)) return value === (upper ? spelled.toUpperCase() : spelled)
  return value === '' || Number.isNaN(Number(value)) || isSpelledWhole(value)
}

const AS_RETURNED = 'Pass it as the database returns it: a UUID in lower case, a whole number without zeros in front.'

/**
 * Refuses a value that finds a row in which the database may return another spelling of it. @throws
 * InvalidInputError
 */
export function refuseSpelling(table: string, column: string, hint = AS_RETURNED): never {
  throw new InvalidInputError(
    `${table}.${column} must have the spelling in which the database returns it: encrypted values are bound to it`,
    hint,
  )
}

/**
 * How a database spells the values that a row is found by. It finds a UUID in any spelling, and returns it in one: a value that is sealed to
 * another spelling would never open again.
 */
import { InvalidInputError } from '../errors.js'

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

/** Refuses a value by which a row is found, where the database may have stored it otherwise. @throws InvalidInputError */
export function refuseSpelling(table: string, column: string, hint: string): never {
  throw new InvalidInputError(
    `${table}.${column}: the database may find it in another spelling than it is stored in`,
    hint,
  )
}

import { type Row, refuseCall } from '@eaas/sdk/adapter'

/** Tells whether a value is a plain object, not a Date, bytes or an object of Prisma's. */
export function isPlain(value: unknown): value is Row {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Tells whether a value is Prisma's `DbNull`, `JsonNull` or `AnyNull`, or null itself. */
export function isNull(value: unknown): boolean {
  return value === null || typeof (value as { _getName?: unknown } | undefined)?._getName === 'function'
}

/** `Prisma.DbNull`. Its class is part of the application's generated client, but Prisma recognises this symbol. */
export const DB_NULL = { [Symbol.for('prisma.objectEnumValue')]: true, _getName: () => 'DbNull' }

/** Removes members that are `Prisma.skip`, on every level, as Prisma does. */
export function withoutSkips(args: Row): Row {
  const out = { args }
  // A loop, not recursion: JSON may be nested more deeply than calls can be.
  const copies: Row[] = [out]
  for (const copy of copies) {
    for (const [name, value] of Object.entries(copy)) {
      if (isSkip(value) && !Array.isArray(copy)) {
        delete copy[name] // Prisma refuses a skip in a list
      } else if (isPlain(value) || Array.isArray(value)) {
        const inner = (Array.isArray(value) ? [...(value as unknown[])] : { ...value }) as Row
        copy[name] = inner
        copies.push(inner)
      }
    }
  }
  return out.args
}

function isSkip(value: unknown): boolean {
  return typeof (value as { ifUndefined?: unknown } | null | undefined)?.ifUndefined === 'function'
}

/** Maps one value, or each of a list. */
export async function mapOneOrMany(value: unknown, map: (one: unknown) => Promise<unknown>): Promise<unknown> {
  return Array.isArray(value) ? Promise.all(value.map(map)) : map(value)
}

/** Reads a plain object of arguments. @throws InvalidInputError for any other object, whose members would be missed */
export function readObject(value: unknown, what: string): Row | undefined {
  if (value === null || value === undefined) return undefined
  return isPlain(value) ? value : refuseCall(`${what} that is no plain object`, 'Pass a plain object.')
}

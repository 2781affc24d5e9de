/** Copies rows to plain objects, reading each member once. Refuses anything that is not a record. */
import { InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { assertArray, isMissing, isObject, kindOf, type Row, valueIn } from '../input.js'
import type { Path, RecordField } from './paths.js'

export interface CopyOptions {
  index: number
  paths: readonly Path[]
  /** Whether the copy will be stored: it must then contain no function, which could still return plaintext. */
  toStore: boolean
}

export function copyRows(records: unknown, { paths, toStore }: Omit<CopyOptions, 'index'>): Row[] {
  assertArray('records', records)
  return Array.from(records, (record, index) => copyRow(record, { index, paths, toStore }))
}

/**
 * Copies own enumerable members, each read once, since a getter may change. Objects that are on no path are shared.
 * @throws InvalidInputError for what is not a record, for a member of its class on a path, whose value would stay
 * unencrypted, and for a function in a row to store
 */
export function copyRow(row: unknown, options: CopyOptions): Row {
  const { index } = options
  try {
    assertRow(row, index)
    return copyObject(row, [], options)
  } catch (error) {
    if (isEaasError(error)) throw error
    // A getter's error may quote the value.
    throw new InvalidInputError(`record ${index} cannot be read: a getter or a Proxy throws`, 'Pass a plain object.')
  }
}

function copyObject(object: Row, at: Path, { index, paths, toStore }: CopyOptions): Row {
  const copy = { ...object }
  const heads = new Set(paths.map(([head]) => head ?? ''))
  if (toStore) assertNoFunction(copy, heads, at, index)
  for (const head of heads) {
    const value = copy[head]
    if (!Object.hasOwn(copy, head)) {
      assertNotInherited(object, head, at, index)
      continue
    }
    if (!isObject(value)) continue
    const rests = paths.flatMap(([name, ...rest]) => (name === head && rest.length > 0 ? [rest] : []))
    if (rests.length > 0 && kindOfRecord(value) === undefined) {
      copy[head] = copyObject(value as Row, [...at, head], { index, paths: rests, toStore })
    }
  }
  return copy
}

/** Refuses a member that is inherited or not enumerable, except what every object inherits. */
function assertNotInherited(object: Row, name: string, at: Path, index: number): void {
  if (!Object.hasOwn(object, name) && (!(name in object) || name in Object.prototype)) return
  const field = [...at, name].join('.')
  const hint = "Pass a plain object, such as an ORM's row.toObject() or row.toJSON()."
  throw new InvalidInputError(`the row's ${field} is inherited from its class, or hidden`, hint, { index, field })
}

function assertNoFunction(copy: Row, fields: ReadonlySet<string>, at: Path, index: number): void {
  const found = Reflect.ownKeys(copy).find(
    (name) => typeof copy[name as string] === 'function' && !(typeof name === 'string' && fields.has(name)),
  )
  if (found === undefined) return
  const name = JSON.stringify([...at, typeof found === 'symbol' ? (found.description ?? '') : found].join('.'))
  const hint = 'Leave functions out, or make them methods of a class.'
  throw new InvalidInputError(`record ${index}: ${name} is a function, which could still return plaintext`, hint)
}

/** Names an array, a Map, a Date and the like; undefined for a record of any class or realm. */
function kindOfRecord(value: unknown): string | undefined {
  if (!isObject(value) || Array.isArray(value)) return kindOf(value)
  const tag = Object.prototype.toString.call(value).slice(8, -1)
  return tag === 'Object' ? undefined : `a value of type ${tag}`
}

export function isRecord(value: unknown): value is Row {
  return kindOfRecord(value) === undefined
}

function assertRow(record: unknown, index: number): asserts record is Row {
  const kind = kindOfRecord(record)
  if (kind === undefined) return
  const hint = Array.isArray(record)
    ? 'Pass one row in its place, or all rows to the call for many.'
    : 'Pass a plain object.'
  throw new InvalidInputError(`record ${index} must be an object, got ${kind}`, hint)
}

/** Refuses a path through something that is neither an object nor missing. @throws InvalidInputError */
export function assertPath(row: Row, path: Path, index: number): void {
  if (path.length === 1) return
  let value: unknown = row
  for (const name of path.slice(0, -1)) {
    value = valueIn(value as Row, name)
    if (isMissing(value)) return
    const kind = kindOfRecord(value)
    if (kind === undefined) continue
    const place: RecordPlace = { index, field: path.join('.') }
    throw new InvalidInputError(`${name} must be an object, got ${kind}`, undefined, place)
  }
}

/** Refuses a record with null in place of the object that contains a field. @throws InvalidInputError */
export function assertNoNullObject(row: Row, { name, path }: RecordField, index: number): void {
  const { parent, at, name: last } = findEnd(row, path)
  if (at === path.length - 1 || valueIn(parent, last) !== null) return
  const object = JSON.stringify(path.slice(0, at + 1).join('.'))
  const message = `${object} is null, so the record has no ${JSON.stringify(name)}`
  throw new InvalidInputError(message, 'Use an object there, or make the field optional.', { index, field: name })
}

/** Refuses a record with a value in the field and another in a column whose name has the dots. @throws InvalidInputError */
export function assertNoColumn(row: Row, { name, path }: RecordField, index: number): void {
  if (path.length > 1 && !isMissing(row[name])) throw namesBoth(name, index)
}

export function namesBoth(field: string, index: number): InvalidInputError {
  const message = 'it names a column and a field inside an object'
  return new InvalidInputError(message, 'Rename one of them.', { index, field })
}

export function findEnd(row: Row, path: Path): { parent: Row; at: number; name: string } {
  let parent = row
  for (const [at, name] of path.entries()) {
    const value = valueIn(parent, name)
    if (at === path.length - 1 || !isObject(value)) return { parent, at, name }
    parent = value as Row
  }
  return { parent, at: 0, name: '' }
}

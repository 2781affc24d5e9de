/** Rows as calls work on them: plain copies of which each member was read once, and nothing but records. */
import { InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { isMissing, kindOf, type Row, valueIn } from '../input.js'
import type { Path } from './paths.js'

export interface CopyOptions {
  index: number
  /** Where the fields are. */
  paths: readonly Path[]
  /** Whether the copy is to be stored: a function in it could still give the plaintext. */
  toStore: boolean
}

/** Refuses what is no list. @throws InvalidInputError */
export function assertList(records: unknown): asserts records is readonly unknown[] {
  if (!Array.isArray(records)) throw new InvalidInputError(`records must be an array, got ${kindOf(records)}`)
}

/** Copies of all records, of which each member is read once. @throws InvalidInputError */
export function copyRows(records: unknown, { paths, toStore }: Omit<CopyOptions, 'index'>): Row[] {
  assertList(records)
  return Array.from(records, (record, index) => copyRow(record, { index, paths, toStore }))
}

/**
 * A copy of a row: its own enumerable members. Each is read once, since a getter may answer differently the next time, and the
 * row may change meanwhile. What is not on one of the paths is shared.
 *
 * @throws InvalidInputError when it is no record or cannot be read, or when its class has what is on one of the paths: what
 * the class reads it from would be copied beside it, in plain; when it is to be stored, also when it has a function
 */
export function copyRow(row: unknown, options: CopyOptions): Row {
  const { index } = options
  try {
    assertRow(row, index)
    return copyObject(row, [], options)
  } catch (error) {
    if (isEaasError(error)) throw error
    // What a getter throws may quote the value.
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
    const rests = paths.flatMap(([name, ...rest]) => (name === head && rest.length > 0 ? [rest] : []))
    if (rests.length > 0 && kindOfRecord(value) === undefined) {
      copy[head] = copyObject(value as Row, [...at, head], { index, paths: rests, toStore })
    }
  }
  return copy
}

/** Refuses what a copy lacks: a member of the class, or one that is not enumerable; but nothing that all objects have. */
function assertNotInherited(object: Row, name: string, at: Path, index: number): void {
  if (!Object.hasOwn(object, name) && (!(name in object) || name in Object.prototype)) return
  const field = [...at, name].join('.')
  throw new InvalidInputError(
    `the row's ${field} is inherited from its class, or hidden`,
    "Pass a plain object, such as an ORM's row.toObject() or row.toJSON().",
    { index, field },
  )
}

function assertNoFunction(copy: Row, fields: ReadonlySet<string>, at: Path, index: number): void {
  const found = Reflect.ownKeys(copy).find(
    (name) => typeof copy[name as string] === 'function' && !(typeof name === 'string' && fields.has(name)),
  )
  if (found === undefined) return
  const name = JSON.stringify([...at, typeof found === 'symbol' ? (found.description ?? '') : found].join('.'))
  throw new InvalidInputError(
    `record ${index}: ${name} is a function, which could still give what is to be sealed`,
    'Leave functions out of rows, or make them methods of a class.',
  )
}

/** What an object is that is no record: an array, a Map, a Date; undefined for a record, whatever its class or realm. */
function kindOfRecord(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return kindOf(value)
  const tag = Object.prototype.toString.call(value).slice(8, -1)
  return tag === 'Object' ? undefined : `a value of type ${tag}`
}

export function isRecord(value: unknown): value is Row {
  return kindOfRecord(value) === undefined
}

/** Refuses what is no record. @throws InvalidInputError */
export function assertRow(record: unknown, index: number): asserts record is Row {
  const kind = kindOfRecord(record)
  if (kind === undefined) return
  throw new InvalidInputError(`record ${index} must be an object, got ${kind}`, 'Pass a plain object.')
}

/** Refuses a row in which something on the way to a field is neither an object nor missing. @throws InvalidInputError */
export function assertPath(row: Row, path: Path, index: number): void {
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

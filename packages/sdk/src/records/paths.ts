/** Fields by their paths: a dot in a field's name leads into an object. */
import { InvalidInputError } from '../errors.js'
import { isName, isObject, type Row, valueIn } from '../input.js'

export type Path = readonly string[]

/** Its name as the caller wrote it, and its path in the records. */
export type RecordField = { name: string; path: Path }

/** Refuses an empty name, and brackets, which other libraries use for elements of lists. @throws InvalidInputError */
export function assertFieldPath(name: string, path: Path): void {
  if (path.every(isName) && !/[[\]]/.test(name)) return
  const hint = 'Encrypt a list as a whole, as JSON.'
  throw new InvalidInputError(`fields: ${JSON.stringify(name)} is not a valid name of a field`, hint)
}

export function getAt(row: Row, path: Path): unknown {
  let value: unknown = row
  for (const name of path) {
    if (!isObject(value)) return undefined
    value = valueIn(value, name)
  }
  return value
}

/** Changes the row itself, in which the objects of the path exist. */
export function putAt(row: Row, path: Path, value: unknown): void {
  const parent = path.length === 1 ? row : (getAt(row, path.slice(0, -1)) as Row)
  parent[path.at(-1) ?? ''] = value
}

/** Copies the row and the objects on the paths; undefined removes a value. @throws InvalidInputError for a member of the row's class */
export function withValues(row: Row, values: Iterable<readonly [Path, unknown]>): Row {
  const copy = { ...row }
  const own = new Set<unknown>([copy])
  for (const [path, value] of values) {
    let parent = copy
    for (const name of path.slice(0, -1)) {
      let child = parent[name]
      if (!own.has(child)) {
        child = { ...(child as Row) }
        own.add(child)
        parent[name] = child
      }
      parent = child as Row
    }
    const last = path.at(-1) ?? ''
    if (!Object.hasOwn(parent, last))
      throw new InvalidInputError(`the row's ${path.join('.')} is inherited from its class`, 'Pass a plain object.')
    if (value === undefined) delete parent[last]
    else parent[last] = value
  }
  return copy
}

export function assertNoneInside(fields: readonly RecordField[]): void {
  const inside = fieldInside(fields)
  if (inside) throw new InvalidInputError(`fields: ${JSON.stringify(inside.name)} is inside another field`)
}

export function fieldInside<F extends { path: Path }>(fields: readonly F[]): F | undefined {
  const names = new Set(fields.map(({ path }) => JSON.stringify(path)))
  return fields.find(({ path }) => path.some((_, at) => at > 0 && names.has(JSON.stringify(path.slice(0, at)))))
}

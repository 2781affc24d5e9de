/** Checks that records have the fields that a call names: a misspelt name would silently leave a value unencrypted. */
import { InvalidInputError } from '../errors.js'
import { didYouMean, nearestName, type Row } from '../input.js'
import { AS_RECORDS_DO, assertNoLookalike } from './lookalikes.js'
import { assertFieldPath, assertNoneInside, getAt, type Path, type RecordField } from './paths.js'
import { assertNoNullObject, assertPath, findEnd, namesBoth } from './plain-rows.js'

/** A name with dots is a column if a record has one of exactly that name. Otherwise it leads into objects. */
export function placeFields(rows: readonly Row[], names: readonly string[]): RecordField[] {
  const fields = names.map((name): RecordField => {
    const path = name.split('.')
    const isColumn = rows.some((row) => Object.hasOwn(row, name))
    if (!isColumn) assertFieldPath(name, path)
    if (!isColumn || path.length === 1) return { name, path }
    const both = rows.findIndex((row) => getAt(row, path) !== undefined)
    if (both === -1) return { name, path: [name] }
    throw namesBoth(name, both)
  })
  assertNoneInside(fields)
  return fields
}

export interface PresenceOptions {
  fields: readonly RecordField[]
  optional: readonly string[]
  columns: readonly string[]
  /** Whether it is for sealing: then null in a field does not rule out a value under another spelling of its name. */
  toSeal: boolean
}

/** Makes a check over all records. Undefined counts as missing, null does not. */
export function createPresence({ fields, optional, columns, toSeal }: PresenceOptions) {
  const names = new Set([...fields.map(({ name }) => name), ...columns])
  const seen = new Set<RecordField>()
  const missing = new Map<RecordField, { index: number; row: Row }>()
  return {
    read(row: Row, field: RecordField, index: number): unknown {
      assertPath(row, field.path, index)
      const value = getAt(row, field.path)
      if (value !== undefined) seen.add(field)
      else if (!optional.includes(field.name) && !missing.has(field)) missing.set(field, { index, row })
      const mayBeElsewhere = value === null ? toSeal : value === undefined && optional.includes(field.name)
      if (mayBeElsewhere) assertNoLookalike(row, field, names, index)
      return value
    },
    /** Called after the last record. @throws InvalidInputError when one, or all, lack a field that is not optional */
    end(): void {
      for (const [field, { index, row }] of missing) {
        assertNoNullObject(row, field, index)
        if (seen.has(field)) {
          const hint = 'Name the field in `optional` too.'
          throw new InvalidInputError('the field is missing in this record', hint, { index, field: field.name })
        }
        const near = findNear(row, field.path)
        if (near === field.name) {
          const message = `fields names ${JSON.stringify(near)}, which is undefined in every record`
          throw new InvalidInputError(message, 'Use null for no value, or name the field in `optional` too.')
        }
        const message = `fields names ${JSON.stringify(field.name)}, which no record has${didYouMean(near)}`
        throw new InvalidInputError(message, AS_RECORDS_DO)
      }
    },
  }
}

/** Finds the path in the row whose spelling is nearest to one that it lacks. */
function findNear(row: Row, path: Path): string | undefined {
  const { parent, at, name } = findEnd(row, path)
  const near = nearestName(name, Object.keys(parent))
  return near && [...path.slice(0, at), near, ...path.slice(at + 1)].join('.')
}

/** That records have the fields that were named: a misspelt name would leave a value as it is, in plain, without a word. */
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { isName, type Row, valueIn } from '../input.js'
import { nearestName, plainName } from '../nearest-name.js'
import { fieldInside, getAt, type Path } from './paths.js'
import { demandPath } from './plain-rows.js'

/** A field of records: its name as the caller wrote it, and where the records have it. */
export interface RecordField {
  name: string
  path: Path
}

/**
 * Finds where records have the fields of these names. A name with dots is a column of that very name where a record has one,
 * and leads into objects elsewhere, as in models.
 *
 * @throws InvalidInputError when it could be both
 */
export function placeFields(rows: readonly Row[], names: readonly string[]): RecordField[] {
  const fields = names.map((name): RecordField => {
    const path = name.split('.')
    if (path.length === 1) return { name, path }
    if (!rows.some((row) => Object.hasOwn(row, name))) {
      if (!path.every(isName)) throw new InvalidInputError(`fields: ${JSON.stringify(name)} is no name of a field`)
      return { name, path }
    }
    const both = rows.findIndex((row) => getAt(row, path) !== undefined)
    if (both === -1) return { name, path: [name] }
    const message = 'it names a column, and also a field inside an object'
    throw new InvalidInputError(message, 'Rename one of them.', { index: both, field: name })
  })
  const inside = fieldInside(fields)
  if (inside) throw new InvalidInputError(`fields: ${JSON.stringify(inside.name)} lies inside another field`)
  return fields
}

export interface Presence {
  /** Reads a field of a record. @throws InvalidInputError when the record has a field of nearly this name in its place */
  read(row: Row, field: RecordField, index: number): unknown
  /** To be called after the last record. @throws InvalidInputError when a field is in no record, or is missing in some */
  end(): void
}

/** Counts in which records the fields are; those in `optional` may be missing. Undefined counts as missing, null does not. */
export function createPresence(fields: readonly RecordField[], optional: readonly string[]): Presence {
  const names = new Set(fields.map(({ name }) => name))
  const seen = new Set<RecordField>()
  const missing = new Map<RecordField, { index: number; row: Row }>()
  return {
    read(row, field, index) {
      demandPath(row, field.path, index)
      const value = getAt(row, field.path)
      if (value !== undefined) seen.add(field)
      else if (optional.includes(field.name)) demandNoLookalike(row, field, names, index)
      else if (!missing.has(field)) missing.set(field, { index, row })
      return value
    },
    end() {
      for (const [field, { index, row }] of missing) {
        if (seen.has(field)) {
          const hint = 'Name the field in `optional` too, if records may lack it.'
          throw new InvalidInputError('the field is missing in this record', hint, { index, field: field.name })
        }
        const near = findNear(row, field.path)
        const meant = near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`
        throw new InvalidInputError(
          `fields names ${JSON.stringify(field.name)}, which no record has${meant}`,
          'Name fields exactly as the records do; what is not named stays as it is.',
        )
      }
    },
  }
}

/**
 * Refuses a record that lacks a field, and has one whose name differs only in case, underscores, dashes or dots.
 *
 * @param taken the names that are known: of fields, and of columns for indexes
 * @throws InvalidInputError
 */
export function demandNoLookalike(
  row: Row,
  { name, path }: RecordField,
  taken: ReadonlySet<string>,
  index: number,
): void {
  const found = findLookalike(row, path, taken)
  if (found === undefined) return
  const place: RecordPlace = { index, field: name }
  throw new InvalidInputError(
    `the record lacks the field and has ${JSON.stringify(found)}`,
    'Name the field as the record does: what is not named stays as it is.',
    place,
  )
}

function findLookalike(row: Row, path: Path, taken: ReadonlySet<string>): string | undefined {
  const { parent, at, name } = findEnd(row, path)
  const wanted = [plainName(name), plainName(path.slice(at).join(''))]
  const isTaken = (key: string) => {
    const full = [...path.slice(0, at), key].join('.')
    return key === name || (taken.has(full) && full !== path.join('.')) // a column of this very name, dots and all, is not the field
  }
  return Object.keys(parent).find((key) => !isTaken(key) && wanted.includes(plainName(key)))
}

/** The path that is spelt most like one that the row lacks. */
function findNear(row: Row, path: Path): string | undefined {
  const { parent, at, name } = findEnd(row, path)
  const near = nearestName(name, Object.keys(parent))
  return near && [...path.slice(0, at), near, ...path.slice(at + 1)].join('.')
}

/** Where a path that the row lacks ends: in which object, and at which of its names. */
function findEnd(row: Row, path: Path): { parent: Row; at: number; name: string } {
  let parent = row
  for (const [at, name] of path.entries()) {
    const value = valueIn(parent, name)
    if (at === path.length - 1 || typeof value !== 'object' || value === null) return { parent, at, name }
    parent = value as Row
  }
  return { parent, at: 0, name: '' }
}

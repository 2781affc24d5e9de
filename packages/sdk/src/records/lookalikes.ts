/** Refuses records with a field under another spelling of its name, which would silently leave a value unencrypted. */
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { isMissing, plainName, type Row, valueIn } from '../input.js'
import type { Path, RecordField } from './paths.js'
import { findEnd, isRecord } from './plain-rows.js'

/** Shorter names with two letters swapped are often two different names. */
const MIN_SWAPPED = 5
const MAX_SPELLINGS = 10_000
/** A longer name is not a misspelling of one that a person wrote. */
const MAX_NAME = 128
const MAX_DEPTH = 5
export const AS_RECORDS_DO = 'Name fields exactly as the records do. Other fields stay unchanged.'

/** Refuses a record that has nothing or null in a field, but a value under another spelling of its name. */
export function assertNoLookalike(
  row: Row,
  { name, path }: RecordField,
  taken: ReadonlySet<string>,
  index: number,
): void {
  const found = findLookalike(row, path, taken)
  if (found === undefined) return
  const place: RecordPlace = { index, field: name }
  const message = `the record has no value in the field, but has ${JSON.stringify(found)}`
  throw new InvalidInputError(message, AS_RECORDS_DO, place)
}

function findLookalike(row: Row, path: Path, taken: ReadonlySet<string>): string | undefined {
  const { parent, at, name } = findEnd(row, path)
  const isNull = valueIn(parent, name) === null
  const near = Object.keys(parent).find(
    (key) =>
      !isTaken([...path.slice(0, at), key], path, taken) &&
      !(isNull && isMissing(parent[key])) &&
      isSameName(name, key),
  )
  return near ?? findElsewhere(row, [], { path, taken, isNull })
}

/** Finds a member whose name, joined with the names of the objects around it, is another spelling of the whole path. */
function findElsewhere(
  object: Row,
  around: Path,
  wanted: { path: Path; taken: ReadonlySet<string>; isNull: boolean },
): string | undefined {
  const { path, taken, isNull } = wanted
  for (const key of Object.keys(object)) {
    const here = [...around, key]
    if (isTaken(here, path, taken)) continue
    const value = object[key]
    if (isSameName(here.join(''), path.join(''))) {
      if (!isNull || !isMissing(value)) return here.join('.')
    } else if (here.length < MAX_DEPTH && leadsTo(here, path) && isRecord(value)) {
      const found = findElsewhere(value, here, wanted)
      if (found !== undefined) return found
    }
  }
  return undefined
}

/** Tells whether it is the path itself, or a known name. A column whose name is the path with its dots is not the field. */
function isTaken(here: Path, path: Path, taken: ReadonlySet<string>): boolean {
  const full = here.join('.')
  return full === path.join('.') ? here.length === path.length : taken.has(full)
}

function leadsTo(here: Path, path: Path): boolean {
  return (
    spellingOf(path.join('')).startsWith(spellingOf(here.join(''))) ||
    isSameName(here.join(''), path.slice(0, here.length).join(''))
  )
}

/** Tells whether names differ only in case, separators, a doubled letter, or two swapped letters; `line12` and `line21` are two. */
function isSameName(one: string, other: string): boolean {
  const [a, b] = [spellingOf(one), spellingOf(other)]
  if (a === b || a.length !== b.length || a.length < MIN_SWAPPED) return a === b
  let at = 0
  while (a[at] === b[at]) at++
  const swapped = a.slice(0, at) + a.charAt(at + 1) + a.charAt(at) + a.slice(at + 2)
  return swapped === b && !/\d/.test(a.slice(at, at + 2))
}

/** Cached, since each record has the same few names. */
const spellings = new Map<string, string>()

function spellingOf(name: string): string {
  if (name.length > MAX_NAME) return name
  const spelling = spellings.get(name) ?? plainName(name.normalize()).replace(/(\p{L})\1+/gu, '$1')
  if (spellings.size > MAX_SPELLINGS) spellings.clear()
  spellings.set(name, spelling)
  return spelling
}

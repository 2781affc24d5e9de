/**
 * Makes what is hashed for an index column from the texts of its fields (index-texts.md 2), of a row or of a query.
 * Not in `field-texts.ts`, so that it is loaded with the first call only.
 */
import { encodeUtf8 } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { assertHashable, isMissing, type Row } from '../input.js'
import { assertHashedAsItIs } from '../records/blind-indexes.js'
import type { Definition, PlacedField } from './definition.js'
import { findPartColumn, makeFieldText, readPart, readRange } from './field-texts.js'
import { getQueryFields, type IndexColumn } from './index-columns.js'
import { makeBucketText, makeBucketTexts } from './ranges.js'

const ALL_FIELDS = 'Give the values of all fields of an index.'

/** What is hashed for a column: one text, or several for an index of the parts of a text. */
export type ColumnTexts = string | readonly string[]

/**
 * Makes what is hashed for a column of a model from the texts of its fields (index-texts.md 2, local-index.md
 * 3).
 *
 * @throws InvalidInputError when that cannot be hashed
 */
export function makeColumnTexts(
  model: string,
  { column, kind, length, shared }: Pick<IndexColumn, 'column' | 'kind' | 'length' | 'shared'>,
  texts: readonly string[],
  place?: RecordPlace,
): ColumnTexts {
  const [text = ''] = texts
  if (kind === 'exact') {
    if (shared && texts.length === 1) {
      assertHashedAsItIs(text, place)
      return text
    }
    const joined = shared ? joinTexts('eaas/compound/v1', texts) : joinTexts('eaas/index/v1', [model, column, ...texts])
    assertHashable(joined, place) // it is longer than its parts, each of which may be hashed
    return joined
  }
  if (kind === 'range') return text
  const characters = [...text]
  return kind === 'prefix' ? characters.slice(0, length).join('') : partsOf(characters, length)
}

/** Makes the text of a field for a column. @throws InvalidInputError when it cannot be indexed */
export function makePartText(
  { kind }: Pick<IndexColumn, 'kind'>,
  field: PlacedField,
  value: unknown,
  index = 0,
): string {
  return kind === 'range' ? makeBucketText(field, value, index) : makeFieldText(field, value, index)
}

/** Returns every `length` consecutive characters, or all of a shorter text. */
function partsOf(characters: readonly string[], length: number): string[] {
  const count = Math.max(1, characters.length - length + 1)
  const parts = Array.from({ length: count }, (_, at) => characters.slice(at, at + length).join(''))
  return [...new Set(parts)]
}

function valueToFind({ name }: PlacedField, query: Row): unknown {
  const value = query[name]
  if (!isMissing(value)) return value
  const hint = 'Search its column for null.'
  throw new InvalidInputError(`the query has no value for ${JSON.stringify(name)}`, hint)
}

/**
 * Makes what is hashed for each index for which a query has all values, by its column.
 *
 * @throws InvalidInputError when there is none, or when one of the query's fields is in none of them and
 * would be ignored
 */
export function readQueryTexts(definition: Definition, query: Row): Map<IndexColumn, ColumnTexts> {
  const found = new Map<IndexColumn, ColumnTexts>()
  const texts = new Map<PlacedField, string>()
  for (const field of getQueryFields(definition, query)) {
    const value = valueToFind(field, query)
    const part = readPart(field, value)
    const range = readRange(field, value)
    const own = definition.columns.filter(({ fields }) => fields[0] === field)
    for (const one of own.filter(({ kind }) => kind === 'range'))
      found.set(one, range ? makeBucketTexts(field, range) : makeBucketText(field, value))
    if (range) continue
    if (!part) texts.set(field, makeFieldText(field, value))
    else {
      const { kind, length } = findPartColumn(definition, field, part)
      for (const one of own.filter((column) => column.kind === kind && column.length === length))
        found.set(one, makeColumnTexts(definition.name, one, [part.text]))
    }
  }
  const whole = definition.columns.filter(({ kind }) => kind === 'exact')
  const complete = whole.filter(({ fields }) => fields.every((field) => texts.has(field)))
  if (complete.length === 0 && found.size === 0) {
    throw new InvalidInputError('the query has all fields of no index', ALL_FIELDS)
  }
  const searched = [...complete, ...found.keys()]
  const unused = [...texts.keys()].find((field) => !searched.some(({ fields }) => fields.includes(field)))
  if (unused) {
    throw new InvalidInputError(
      `${JSON.stringify(unused.name)} has an index only with fields that the query lacks, or of its parts`,
      ALL_FIELDS,
    )
  }
  for (const column of complete) {
    const values = column.fields.map((field) => texts.get(field) ?? '')
    found.set(column, makeColumnTexts(definition.name, column, values))
  }
  return found
}

/** Joins texts, so that no two lists give the same text (index-texts.md 2). */
function joinTexts(label: string, texts: readonly string[]): string {
  return [label, ...texts.map((text) => `${encodeUtf8(text).length}:${text}`)].join(':')
}

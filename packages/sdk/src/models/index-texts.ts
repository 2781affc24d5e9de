/**
 * What is hashed for an index column, made from the texts of its fields (index-texts.md 2), those of a row or of a query. Not in
 * `field-texts.ts`, so that it is loaded with the first call only.
 */
import { encodeUtf8 } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import type { Definition, PlacedField } from './definition.js'
import { findPartColumn, makeFieldText, readPart } from './field-texts.js'
import { getQueryFields, type IndexColumn } from './index-columns.js'

const COMPOUND = 'eaas/compound/v1'
const ALL_FIELDS = 'Give the values of all fields of an index.'

/** What is hashed for a column: one text, or several for an index of the parts of a text. */
export type ColumnTexts = string | readonly string[]

/** Makes what is hashed for a column from the texts of its fields (index-texts.md 2, local-index.md 3). */
export function makeColumnTexts({ kind, length }: IndexColumn, texts: readonly string[]): ColumnTexts {
  const [text = ''] = texts
  if (texts.length > 1) return joinTexts(texts)
  if (kind === 'exact') return text
  const characters = [...text]
  return kind === 'prefix' ? characters.slice(0, length).join('') : partsOf(characters, length)
}

/** Each `length` characters in a row, or all of a shorter text. */
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
 * Makes what is hashed for each index of which a query has all values, by its column.
 *
 * @throws InvalidInputError when there is none, or when one of the query's fields is in none of them and would be ignored
 */
export function readQueryTexts(definition: Definition, query: Row): Map<IndexColumn, ColumnTexts> {
  const found = new Map<IndexColumn, ColumnTexts>()
  const texts = new Map<PlacedField, string>()
  for (const field of getQueryFields(definition, query)) {
    const value = valueToFind(field, query)
    const part = readPart(field, value)
    if (!part) texts.set(field, makeFieldText(field, value))
    else {
      const column = findPartColumn(definition, field, part)
      found.set(column, makeColumnTexts(column, [part.text]))
    }
  }
  const whole = definition.columns.filter(({ kind }) => kind === 'exact')
  const complete = whole.filter(({ fields }) => fields.every((field) => texts.has(field)))
  if (complete.length === 0 && found.size === 0) {
    throw new InvalidInputError('the query has all fields of no index', ALL_FIELDS)
  }
  const unused = [...texts.keys()].find((field) => !complete.some(({ fields }) => fields.includes(field)))
  if (unused) {
    throw new InvalidInputError(
      `${JSON.stringify(unused.name)} has an index only with fields that the query lacks, or of its parts`,
      ALL_FIELDS,
    )
  }
  for (const column of complete) {
    const values = column.fields.map((field) => texts.get(field) ?? '')
    found.set(column, makeColumnTexts(column, values))
  }
  return found
}

/** Joins the texts of several fields, so that no two lists give the same text (index-texts.md 2). */
export function joinTexts(texts: readonly string[]): string {
  return [COMPOUND, ...texts.map((text) => `${encodeUtf8(text).length}:${text}`)].join(':')
}

/**
 * The values of index columns, made from the text of one field or of several (index-texts.md). Not in `blind-index.ts`, so that
 * it is loaded with the first call only.
 */
import { encodeUtf8 } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { HASH_BITS } from '../limits.js'
import { indexText } from './blind-index.js'
import { type Definition, getQueryFields, type IndexColumn, type PlacedField } from './definition.js'

const COMPOUND = 'eaas/compound/v1'
const ALL_FIELDS = 'Give the values of all fields of an index.'

/** Makes the text that is hashed for a column from the texts of its fields. */
export function columnText({ compound }: IndexColumn, texts: readonly string[]): string {
  return compound ? joinTexts(texts) : (texts[0] ?? '')
}

function valueToFind({ name }: PlacedField, query: Row): unknown {
  const value = query[name]
  if (!isMissing(value)) return value
  const hint = 'The index of a missing value is null: search for null.'
  throw new InvalidInputError(`the query has no value for ${JSON.stringify(name)}`, hint)
}

/**
 * Makes the text of each index of which a query has all values, by its column.
 *
 * @throws InvalidInputError when there is none, or when one of the query's fields is in none of them and would be ignored
 */
export function readQueryTexts(definition: Definition, query: Row): Map<IndexColumn, string> {
  const texts = new Map(
    getQueryFields(definition, query).map((field) => [field, indexText(field, valueToFind(field, query))]),
  )
  const complete = definition.columns.filter(({ fields }) => fields.every((field) => texts.has(field)))
  if (complete.length === 0) {
    throw new InvalidInputError('the query has all fields of no index', ALL_FIELDS)
  }
  const unused = [...texts.keys()].find((field) => !complete.some(({ fields }) => fields.includes(field)))
  if (unused) {
    throw new InvalidInputError(
      `${JSON.stringify(unused.name)} has an index only together with fields that the query lacks`,
      ALL_FIELDS,
    )
  }
  return new Map(
    complete.map((column) => [
      column,
      columnText(
        column,
        column.fields.map((field) => texts.get(field) ?? ''),
      ),
    ]),
  )
}

/** Joins the texts of several fields, so that no two lists give the same text. */
function joinTexts(texts: readonly string[]): string {
  return [COMPOUND, ...texts.map((text) => `${encodeUtf8(text).length}:${text}`)].join(':')
}

/** Makes the value that a column stores: the first `bits` of a hash, in as few hexadecimal digits as hold them, the rest zero. */
export function columnValue({ bits = HASH_BITS }: IndexColumn, hash: string): string {
  const digits = Math.ceil(bits / 4)
  const surplus = digits * 4 - bits
  const last = Number.parseInt(hash.charAt(digits - 1), 16)
  return hash.slice(0, digits - 1) + ((last >> surplus) << surplus).toString(16)
}

/** The columns that a model's indexes fill: which they are, and which fields each is made of. */
import { InvalidInputError } from '../errors.js'
import { assertArray, assertFlag, assertOptions, assertWhole, isName, isObject, type Row } from '../input.js'
import type { PlacedField } from './definition.js'
import { assertIndex } from './field-texts.js'
import type { IndexKey, IndexKind } from './index-key.js'
import type { AnyIndex, CompoundIndex, NgramIndex, PrefixIndex } from './model-types.js'

const KINDS = ['prefix', 'ngram'] as const
const OPTIONS_OF = {
  exact: ['fields', 'bits', 'shared'],
  prefix: ['prefix', 'length', 'bits'],
  ngram: ['ngram', 'length', 'bits', 'acceptLeakage'],
} as const
const MAX_PART_CHARACTERS = 64

/** A column of a blind index, and the fields whose values it indexes. */
export interface IndexColumn {
  column: string
  fields: readonly PlacedField[]
  bits: number | undefined
  kind: IndexKind
  /** The length of a prefix, or of each part in an n-gram index, in characters; 0 for other indexes. */
  length: number
  /** Whether the names of the model and the column are left out of what is hashed. */
  shared: boolean
  /** Set if it is made under the former index key: see `formerIndex`. */
  indexKey?: IndexKey | undefined
}

const EXACT = { kind: 'exact', length: 0 } as const

/**
 * Reads the columns that fields name with `index`, and those that `indexes` declares.
 *
 * @throws InvalidInputError naming what is wrong
 */
export function readIndexColumns({
  fields,
  indexes,
}: {
  fields: readonly PlacedField[]
  indexes: Readonly<Record<string, AnyIndex>>
}): IndexColumn[] {
  const byName = new Map(fields.map((field) => [field.name, field]))
  const columns: IndexColumn[] = []
  for (const field of fields) {
    const { index, bits, normalize, shared = false } = field.spec
    const name = JSON.stringify(index ?? field.name)
    assertIndex(index ?? field.name, normalize, bits)
    assertFlag(`${name}: shared`, shared)
    const kind = field.spec.range ? 'range' : 'exact'
    if (index !== undefined) columns.push({ kind, length: 0, column: index, fields: [field], bits, shared })
    else if (bits !== undefined || shared || field.spec.range) {
      throw new InvalidInputError(`${name}: ${shared ? 'shared' : field.spec.range ? 'range' : 'bits'} needs an index`)
    }
  }
  for (const [column, index] of Object.entries(indexes)) columns.push(readIndex(column, index, byName))
  return columns
}

/**
 * Refuses an index that the service must not make, or cannot make for this model alone. @throws
 * InvalidInputError
 */
export function assertByService(columns: readonly IndexColumn[], model: string): void {
  for (const { column, kind, shared } of columns) {
    const name = JSON.stringify(column)
    if (kind !== 'exact') {
      const of = kind === 'range' ? 'of a range' : 'of parts of a text'
      const message = `${name}: an index ${of} needs indexKey`
      throw new InvalidInputError(message, 'Make one with createIndexKey(): the service must not see what is indexed.')
    }
    if (!shared && model === '') throw new InvalidInputError(`${name} needs a model with a name, or \`shared: true\``)
  }
}

/**
 * Returns the fields that a query names. @throws InvalidInputError when it names none, or one that has no
 * index
 */
export function getQueryFields({ columns }: { columns: readonly IndexColumn[] }, query: Row): PlacedField[] {
  const names = isObject(query) ? Object.keys(query) : []
  if (names.length === 0) {
    throw new InvalidInputError('a query must be an object with at least one field', 'Name the field: { name: … }.')
  }
  const indexed = new Map(columns.flatMap(({ fields }) => fields.map((field) => [field.name, field] as const)))
  return names.map((name) => {
    const field = indexed.get(name)
    if (field) return field
    const hint = `Fields with an index: ${[...indexed.keys()].join(', ') || 'none'}.`
    throw new InvalidInputError(`${JSON.stringify(name)} has no index`, hint)
  })
}

/**
 * Reads an index that is declared by its column: over several fields, or of parts of a text. @throws
 * InvalidInputError
 */
function readIndex(column: string, index: AnyIndex, fields: ReadonlyMap<string, PlacedField>): IndexColumn {
  const name = JSON.stringify(column)
  const given: Partial<CompoundIndex<string> & PrefixIndex<string> & Omit<NgramIndex<string>, 'bits'>> = index
  const kind = KINDS.find((one) => given?.[one] !== undefined) ?? 'exact'
  assertOptions(`indexes.${column}`, index, OPTIONS_OF[kind])
  const { bits, length, shared = false, acceptLeakage } = given
  assertFlag(`${name}: shared`, shared)
  assertIndex(column, [], bits)
  if (kind === 'ngram' && (bits === undefined || acceptLeakage !== true)) {
    const hint = 'Read the page on an index of parts, and state both.'
    throw new InvalidInputError(`${name}: an index of parts needs bits and acceptLeakage: it gives texts away`, hint)
  }
  const names = kind === 'exact' ? given.fields : [given[kind] ?? '']
  assertArray(`${name}: fields`, names)
  const parts = (names as readonly string[]).map((part) => {
    const field = fields.get(part)
    if (field && (kind === 'exact' ? field.spec.toIndexText : field.spec.kind === 'text')) return field
    const hint = 'Name fields of the model: of text, number or date, and for parts of text.'
    throw new InvalidInputError(`${name} names ${JSON.stringify(part)}, which cannot be indexed so`, hint)
  })
  if (kind === 'exact') {
    if (parts.length < 2) {
      throw new InvalidInputError(`${name} must name at least two fields`, 'For one, pass `index` of the field.')
    }
    return { ...EXACT, column, fields: parts, bits, shared }
  }
  assertWhole(`${name}: length`, length, 1, MAX_PART_CHARACTERS)
  return { column, fields: parts, bits, kind, length, shared }
}

/**
 * Refuses a column without a name, or one that two things fill; `added` are the other columns that the model adds.
 * @throws InvalidInputError
 */
export function assertColumns(
  columns: readonly IndexColumn[],
  fields: readonly PlacedField[],
  added: readonly string[],
): void {
  const taken = new Set(fields.map(({ path }) => path[0]))
  for (const column of [...columns.map(({ column }) => column), ...added]) {
    if (!isName(column)) throw new InvalidInputError('a column must have a name', "Give its name: index: 'a_index'.")
    if (taken.has(column)) {
      const option = column === added[0] ? 'header: ' : ''
      throw new InvalidInputError(`${option}the column ${JSON.stringify(column)} is already taken`)
    }
    taken.add(column)
  }
}

/** The columns that a model's indexes fill: which they are, and which fields each is made of. */
import { InvalidInputError } from '../errors.js'
import { assertArray, assertFlag, assertOptions, assertWhole, isName, isObject, type Row } from '../input.js'
import type { PlacedField } from './definition.js'
import { assertIndex } from './field-texts.js'
import type { IndexKind } from './index-key.js'
import type { AnyIndex, CompoundIndex, NgramIndex, PrefixIndex } from './model-types.js'

/** The names of fields that have few possible values, of which an index gives all away. */
const LOW_ENTROPY =
  /^(?:birth(?:day|date)?|dateofbirth|dob|born|age|gender|sex|zip(?:code)?|postal(?:code)?|postcode|plz|country|nationality|religion|race|ethnicity|marital|blood|diagnosis|salary|pin)$/

const warned = new Set<string>()

const KINDS = ['prefix', 'ngram'] as const
/**
 * By default many parts of a text share an index, so that nobody can tell which of them a row has: measured
 * in index-of-parts.
 */
const NGRAM_BITS = 8
const MAX_PART_CHARACTERS = 64

/** A column of a blind index, and the fields whose values it indexes. */
export interface IndexColumn {
  column: string
  fields: readonly PlacedField[]
  bits: number | undefined
  kind: IndexKind
  /** Of a prefix, and of each part in an n-gram index: in characters; 0 for an exact index. */
  length: number
  /** Whether the names of the model and the column are left out of what is hashed. */
  shared: boolean
}

const EXACT = { kind: 'exact', length: 0 } as const

/**
 * Reads the columns that fields name with `index`, and those that `indexes` declares. `header` is the column
 * of the compact form.
 *
 * @throws InvalidInputError naming what is wrong
 */
export function readIndexColumns({
  fields,
  indexes,
  header,
}: {
  fields: readonly PlacedField[]
  indexes: Readonly<Record<string, AnyIndex>>
  header: string
}): IndexColumn[] {
  const byName = new Map(fields.map((field) => [field.name, field]))
  const columns: IndexColumn[] = []
  for (const field of fields) {
    const { index, bits, normalize, shared = false } = field.spec
    const name = JSON.stringify(index ?? field.name)
    assertIndex(index ?? field.name, normalize, bits)
    assertFlag(`${name}: shared`, shared)
    if (index !== undefined) columns.push({ ...EXACT, column: index, fields: [field], bits, shared })
    else if (bits !== undefined || shared) {
      throw new InvalidInputError(`${name}: ${shared ? 'shared' : 'bits'} needs an index`)
    }
  }
  for (const [column, index] of Object.entries(indexes)) columns.push(readIndex(column, index, byName))
  assertColumns(columns, fields, header)
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
      const message = `${name}: an index of parts of a text needs indexKey`
      throw new InvalidInputError(message, 'Make one with createIndexKey(): the service must not see each part.')
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
  const given: Partial<CompoundIndex<string> & PrefixIndex<string> & NgramIndex<string>> = index
  const kind = KINDS.find((one) => given?.[one] !== undefined) ?? 'exact'
  assertOptions(`indexes.${column}`, index, kind === 'exact' ? ['fields', 'bits', 'shared'] : [kind, 'length', 'bits'])
  const { bits = kind === 'ngram' ? NGRAM_BITS : undefined, length, shared = false } = given
  assertFlag(`${name}: shared`, shared)
  assertIndex(column, [], bits)
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

function assertColumns(columns: readonly IndexColumn[], fields: readonly PlacedField[], header: string): void {
  const taken = new Set(fields.map(({ path }) => path[0]))
  for (const column of [...columns.map(({ column }) => column), header]) {
    if (!isName(column)) throw new InvalidInputError('a column must have a name', "Give its name: index: 'a_index'.")
    if (taken.has(column)) {
      const option = column === header ? 'header: ' : ''
      throw new InvalidInputError(`${option}the column ${JSON.stringify(column)} is already taken`)
    }
    taken.add(column)
  }
}

/**
 * Warns, once a process for a column and its fields, of an index over data with so few possible values that
 * all can be tried.
 */
export function warnOfFewValues(column: string, fields: readonly string[]): void {
  const index = JSON.stringify([column, fields])
  if (warned.has(index) || !fields.every(hasFewValues)) return
  warned.add(index)
  console.warn(
    `@eaas/sdk: the index ${JSON.stringify(column)} is over ${fields.join(', ')}, which looks like data of few values: ` +
      'who can read the column and call hash can find them all. Omit the index, add a field, or pass `warn: false`.',
  )
}

function hasFewValues(field: string): boolean {
  const words = field.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())
  // Two in a row may be one word: `post_code`.
  return words.some((word, at) => LOW_ENTROPY.test(word) || LOW_ENTROPY.test(word + (words[at + 1] ?? '')))
}

/** The columns of a model's indexes, a field's normalised text (index-texts.md 1), and the parts of a query. */
import { InvalidInputError, type RecordPlace } from '../errors.js'
import {
  assertArray,
  assertFlag,
  assertHashable,
  assertOptions,
  assertWhole,
  HASH_BITS,
  isName,
  isObject,
  type Row,
} from '../input.js'
import type { Definition, PlacedField } from './definition.js'
import type { IndexSource } from './index-source.js'
import type { AnyIndex, CompoundIndex, NgramIndex, PrefixIndex } from './model-types.js'

const KINDS = ['prefix', 'ngram'] as const
const OPTIONS_OF = {
  exact: ['fields', 'bits', 'shared'],
  prefix: ['prefix', 'length', 'bits'],
  ngram: ['ngram', 'length', 'bits', 'acceptLeakage'],
} as const
const MAX_PART_CHARACTERS = 64
/** An index of the whole text, its first characters, every few consecutive characters, or a value's bucket (local-index.md 3). */
type IndexKind = 'exact' | 'prefix' | 'ngram' | 'range'

export interface IndexColumn {
  column: string
  fields: readonly PlacedField[]
  bits: number | undefined
  kind: IndexKind
  /** In characters: the length of a prefix, or of each part in an n-gram index; 0 for other indexes. */
  length: number
  /** Whether the names of the model and the column are left out of what is hashed. */
  shared: boolean
  source: IndexSource
}

type DeclaredColumn = Omit<IndexColumn, 'source'>
const EXACT = { kind: 'exact', length: 0 } as const

export function readIndexColumns({
  fields,
  indexes,
}: {
  fields: readonly PlacedField[]
  indexes: Readonly<Record<string, AnyIndex>>
}): DeclaredColumn[] {
  const byName = new Map(fields.map((field) => [field.name, field]))
  const columns: DeclaredColumn[] = []
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

/** Refuses an index that the service must not make, or cannot make for this model alone. @throws InvalidInputError */
export function assertByService(
  columns: readonly IndexColumn[],
  { model, hasSecret }: { model: string; hasSecret: boolean },
): void {
  for (const { column, kind, shared } of columns.filter(({ source }) => source.secret === undefined)) {
    const name = JSON.stringify(column)
    if (hasSecret) {
      const message = `the service would see the values of the index ${name}, which a client with a secret prevents`
      throw new InvalidInputError(message, "Leave out shared and by: 'service'.")
    }
    if (kind !== 'exact') {
      const of = kind === 'range' ? 'of a range' : 'of parts of a text'
      const message = `${name}: the service makes no index ${of}`
      throw new InvalidInputError(message, "Leave out shared, by: 'service' and envelope: 1.")
    }
    if (!shared && model === '') throw new InvalidInputError(`${name} needs a model with a name, or \`shared: true\``)
  }
}

export function getQueryFields({ columns }: { columns: readonly IndexColumn[] }, query: Row): PlacedField[] {
  const names = isObject(query) ? Object.keys(query) : []
  if (names.length === 0)
    throw new InvalidInputError('a query must be an object with at least one field', 'Name the field: { name: … }.')
  const indexed = new Map(columns.flatMap(({ fields }) => fields.map((field) => [field.name, field] as const)))
  return names.map((name) => {
    const field = indexed.get(name)
    if (field) return field
    const hint = `Fields with an index: ${[...indexed.keys()].join(', ') || 'none'}.`
    throw new InvalidInputError(`${JSON.stringify(name)} has no index`, hint)
  })
}

function readIndex(column: string, index: AnyIndex, fields: ReadonlyMap<string, PlacedField>): DeclaredColumn {
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
    if (parts.length < 2)
      throw new InvalidInputError(`${name} must name at least two fields`, 'For one, pass `index` of the field.')
    return { ...EXACT, column, fields: parts, bits, shared }
  }
  assertWhole(`${name}: length`, length, 1, MAX_PART_CHARACTERS)
  return { column, fields: parts, bits, kind, length, shared }
}

/** Refuses a column without a name, or filled by two things; `added` are further columns. @throws InvalidInputError */
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

/**
 * A step that changes a text before its index is made: `trim`, `lowercase` (Unicode, without a locale), `NFC` and
 * `NFKC` (they refuse more than 100 combining marks in a row), `digits` (keeps 0 to 9, and refuses a text without any),
 * or a function, which must always return the same for the same text.
 */
export type Normalizer = 'trim' | 'lowercase' | 'NFC' | 'NFKC' | 'digits' | ((text: string) => string)

const NORMALIZERS: Readonly<Record<Exclude<Normalizer, (text: string) => string>, (text: string) => string>> = {
  trim: (text) => text.trim(),
  lowercase: (text) => text.toLowerCase(),
  NFC: (text) => text.normalize('NFC'),
  NFKC: (text) => text.normalize('NFKC'),
  digits: (text) => text.replace(/[^0-9]/g, ''),
}

/** Normalising takes time proportional to the square of the marks in a row: 50,000 would block for seconds. */
const MANY_MARKS = /(?:^|\P{M})\p{M}{101}/u

/** Refuses unknown normalisers, and bits outside 4 to 256. @throws InvalidInputError naming the column */
export function assertIndex(column: string, normalize: readonly unknown[], bits: unknown): void {
  if (
    !Array.isArray(normalize) ||
    !normalize.every((one) => typeof one === 'function' || Object.hasOwn(NORMALIZERS, one))
  ) {
    const names = Object.keys(NORMALIZERS).join(', ')
    const hint = "Pass a list of them, such as ['trim', 'lowercase']."
    throw new InvalidInputError(`${JSON.stringify(column)}: normalize must contain ${names}, or functions`, hint)
  }
  if (bits !== undefined) assertWhole(`${JSON.stringify(column)}: bits`, bits, 4, HASH_BITS)
}

export function makeFieldText({ name, spec }: PlacedField, value: unknown, index = 0): string {
  const place = { index, field: name }
  spec.assert(value, place)
  if (!spec.toIndexText) throw new InvalidInputError(`a field of ${spec.kind} cannot have an index`, undefined, place)
  return normalizeText(spec.toIndexText(value), spec.normalize, place)
}

export interface FieldRange {
  lower: Date | number
  upper: Date | number
  openAbove: boolean
  has(value: number): boolean
}

export type TextPart = { kind: 'prefix' | 'ngram'; text: string }

/** Reads `{ startsWith }` or `{ contains }`; undefined for a whole value. @throws InvalidInputError if it is not text */
export function readPart(field: PlacedField, value: unknown): TextPart | undefined {
  if (field.spec.kind !== 'text' || !isObject(value)) return undefined
  const { startsWith, contains, ...rest } = value as { startsWith?: unknown; contains?: unknown }
  const given = [startsWith, contains].filter((one) => one !== undefined)
  if (given.length !== 1 || Object.keys(rest).length > 0) {
    throw new InvalidInputError(
      `${JSON.stringify(field.name)}: search for text, or for { startsWith } or { contains }`,
      'For several values, make the index of each; for parts, declare them in `indexes`.',
    )
  }
  return { kind: contains === undefined ? 'prefix' : 'ngram', text: makeFieldText(field, given[0]) }
}

/** Finds the column for a part, if a prefix then the longest that the text fills. @throws InvalidInputError */
export function findPartColumn(
  { columns }: Pick<Definition, 'columns'>,
  field: PlacedField,
  { kind, text }: TextPart,
): IndexColumn {
  const made = columns.filter((column) => column.kind === kind && column.fields[0] === field)
  made.sort((a, b) => b.length - a.length)
  const { length } = [...text]
  const fitting = made.find((column) => column.length <= length)
  if (fitting) return fitting
  const least = made.at(-1)?.length
  const wrong = least ? `a part needs at least ${least} characters, got ${length}` : `no index of kind ${kind}`
  const hint = least
    ? `Search for at least ${least} characters, or declare an index of shorter parts.`
    : 'Declare it in `indexes`.'
  throw new InvalidInputError(`${JSON.stringify(field.name)}: ${wrong}`, hint)
}

/** Compares after normalisation. @throws InvalidInputError when a value cannot be indexed, or no index finds it */
export function matchesQuery(definition: Definition, field: PlacedField, value: unknown, asked: unknown): boolean {
  const range = field.spec.readRange?.(field, asked)
  const text = makeFieldText(field, value)
  if (range) return range.has(Number(value))
  const part = readPart(field, asked)
  if (!part) return text === makeFieldText(field, asked)
  findPartColumn(definition, field, part)
  return part.kind === 'prefix' ? text.startsWith(part.text) : text.includes(part.text)
}

function normalizeText(text: string, normalize: readonly Normalizer[], place: RecordPlace): string {
  let normalized = text
  for (const one of normalize) {
    const before: unknown = normalized
    if ((one === 'NFC' || one === 'NFKC') && MANY_MARKS.test(normalized))
      throw new InvalidInputError('the text has more than 100 combining marks in a row', undefined, place)
    normalized = (typeof one === 'function' ? one : NORMALIZERS[one])(normalized)
    if (one === 'digits' && before !== '' && normalized === '')
      throw new InvalidInputError('the text has no digit 0 to 9: all such texts would have one index', undefined, place)
    if (typeof normalized !== 'string') throw new InvalidInputError('a normalizer must return text', undefined, place)
  }
  assertHashable(normalized, place)
  return normalized
}

/** Reads and checks what an application declares of a model: its fields, and the columns of its indexes. */
import { assertScope, type DekScope } from '../deks/dek-scope.js'
import { InvalidInputError } from '../errors.js'
import { assertFlag, assertKeyId, assertOptions, assertWhole, isName, kindOf, type Row } from '../input.js'
import { assertFieldPath, fieldInside, type Path } from '../records/paths.js'
import { assertIndex, warnOfFewValues } from './blind-index.js'
import type { FieldSpec } from './fields.js'
import { type IndexKey, type IndexKind, readIndexKey } from './index-key.js'
import type { AnyField, AnyIndex, CompoundIndex, Compounds, Fields, NgramIndex, PrefixIndex } from './model-types.js'

export type RowFormat = 'full' | 'compact' | 'text'

const FORMATS: readonly RowFormat[] = ['full', 'compact', 'text']
const MODEL_OPTIONS =
  'name keyId formerKeyIds fields indexKey indexes bind envelope acceptUnbound acceptPlaintext format header dek warn'.split(
    ' ',
  )
/** The pairs of a context (envelope-v2.md 3) without those of the model and the field. */
const MAX_BIND_COLUMNS = 30
const KINDS = ['prefix', 'ngram'] as const
/** By default many parts of a text share an index, so that nobody can tell which of them a row has: measured in index-of-parts. */
const NGRAM_BITS = 8
const MAX_PART_CHARACTERS = 64

type Options = ModelOptions<Fields, Compounds<Fields>, RowFormat, string, boolean>

/** What a model is made of. Models bind their values, so they have a name, unless they write format v1. */
export type ModelOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean = false,
> = SharedOptions<F, C, T, H, P> & (BoundOptions | UnboundOptions)

/** Of a model whose values are bound to where they belong, in format v2 (bindings.md 1). */
export interface BoundOptions {
  /**
   * The name of the model, such as that of its table. Values are bound to it and to their field: one that was moved to another model or
   * another field does not open. Never change it while rows are stored.
   */
  name: string
  /**
   * Columns that identify a row, such as `['id']`; a dot leads into an object. Values are bound to them too, so that one that was moved to another
   * row does not open. Each row must have them, as text or whole numbers, before it is sealed, and they must never change.
   */
  bind?: readonly string[] | undefined
  /** The format of the envelopes that are written and read: 2 by default. */
  envelope?: 2 | undefined
  /** `true` also opens values of format v1, which are bound to nothing: for a migration. `accepted` of the model counts them. */
  acceptUnbound?: boolean | undefined
}

/** Of a model whose rows clients in other languages read, in format v1: whoever can write to the table can exchange its values. */
export interface UnboundOptions {
  envelope: 1
  name?: string | undefined
  bind?: undefined
  acceptUnbound?: undefined
}

interface SharedOptions<
  F extends Fields,
  C extends Compounds<F>,
  T extends RowFormat,
  H extends string,
  P extends boolean,
> {
  /** The `id` of the key under which all fields are sealed. */
  keyId: string
  /**
   * The ids of keys under which rows were sealed before. The model still opens these rows, and `reseal` seals them under `keyId`.
   * It refuses envelopes of any other key, since whoever can write to the database could have put them there.
   */
  formerKeyIds?: readonly string[] | undefined
  /** The fields to seal, by their names; a dot leads into an object: `'address.street'`. */
  fields: F
  /**
   * The text that `createIndexKey` returned. All indexes of the model are then made in this process: the service sees no value, and a search
   * needs no request. Without it the service makes them, as clients in other languages do.
   */
  indexKey?: string | undefined
  /**
   * Indexes over several fields, by their columns. A search needs the values of all of them. The values are normalised as their
   * fields say and joined with their lengths in front, so that different values never give the same text. With `indexKey` also `{ prefix: field,
   * length }`, to search for the first characters of a text, and `{ ngram: field, length }`, to search for a part of it.
   */
  indexes?: C | undefined
  /**
   * `full`, the default, stores an envelope in each field. `compact` stores what a record's envelopes share once, in the column
   * `header`, and `{ c, i }` (ciphertext and iv) in the fields. `text` stores each envelope as text (`toText`), for text columns. All
   * forms are read, whichever is written.
   */
  format?: T | undefined
  /**
   * `true` also opens rows in which some fields are not sealed yet: for a migration, since whoever can write to the table can then put any value
   * there. A value that looks like an envelope is never taken for one that is not sealed. `accepted` of the model counts them, and the first one
   * writes a warning.
   */
  acceptPlaintext?: P | undefined
  /** The column of the compact form; `envelope` by default. */
  header?: H | undefined
  /** Which DEK seals: the key's (`shared`, the default), one for each `call`, or one for each `record`. */
  dek?: DekScope | undefined
  /** `false` silences the warnings about an index over data of few possible values, and about values that are not sealed. */
  warn?: boolean | undefined
}

/** A field and its path in a row. */
export interface PlacedField {
  name: string
  path: Path
  spec: FieldSpec
}

/** A column of a blind index, and the fields whose values it indexes. */
export interface IndexColumn {
  column: string
  fields: readonly PlacedField[]
  bits: number | undefined
  compound: boolean
  kind: IndexKind
  /** Of a prefix, and of each part in an n-gram index: in characters; 0 for an exact index. */
  length: number
}

/** A column that rows are bound to, and its path in a row. */
export interface BindColumn {
  name: string
  path: Path
}

/** A checked definition. */
export interface Definition {
  /** Empty in a model of format v1 that has none. */
  name: string
  keyId: string
  envelope: 1 | 2
  bind: readonly BindColumn[]
  acceptUnbound: boolean
  acceptPlaintext: boolean
  /** The ids of the keys whose envelopes the model opens. */
  keyIds: ReadonlySet<string>
  /** Without it the service makes the indexes. */
  indexKey: IndexKey | undefined
  fields: readonly PlacedField[]
  columns: readonly IndexColumn[]
  /** The definition of all fields, where these are some of them: see `pickFields`. */
  whole?: Definition
  /** The names of the fields and of all columns that the model adds. */
  names: ReadonlySet<string>
  format: RowFormat
  header: string
  dek: DekScope
  warn: boolean
}

/** Reads a definition, and warns of indexes over data of few possible values. @throws InvalidInputError naming what is wrong */
export function readDefinition(options: Options): Definition {
  assertOptions('model()', options, MODEL_OPTIONS)
  const {
    keyId,
    fields: given,
    indexes = {},
    format = 'full',
    header = 'envelope',
    dek = 'shared',
    warn = true,
    formerKeyIds = [],
    acceptPlaintext = false,
  } = options
  assertKeyId(keyId)
  if (!Array.isArray(formerKeyIds)) throw new InvalidInputError('formerKeyIds must be an array of ids')
  for (const one of formerKeyIds) assertKeyId(one, 'formerKeyIds')
  assertScope(dek)
  assertFlag('acceptPlaintext', acceptPlaintext)
  const binding = readBinding(options)
  assertOptions('fields', given)
  assertNoHiddenField(given)
  assertOptions('indexes', indexes)
  if (!FORMATS.includes(format)) throw new InvalidInputError(`format must be one of ${FORMATS.join(', ')}`)
  const fields = Object.entries(given).map(([name, field]) => {
    const path = name.split('.')
    assertFieldPath(name, path)
    if (!field?.['~spec']) {
      const message = `${JSON.stringify(name)}: expected a field, got ${kindOf(field)}`
      throw new InvalidInputError(message, 'Declare it with text(), json() and the like.')
    }
    return { name, path, spec: field['~spec'] }
  })
  if (fields.length === 0) throw new InvalidInputError('fields must have at least one field')
  const byName = new Map(fields.map((field) => [field.name, field]))
  const inside = fieldInside(fields)
  if (inside) throw new InvalidInputError(`${JSON.stringify(inside.name)} is inside another field`)

  const columns: IndexColumn[] = []
  for (const field of fields) {
    const { index, bits, normalize } = field.spec
    assertIndex(index ?? field.name, normalize, bits)
    if (index !== undefined) columns.push({ ...EXACT, column: index, fields: [field], bits })
    else if (bits !== undefined) throw new InvalidInputError(`${JSON.stringify(field.name)}: bits needs an index`)
  }
  for (const [column, index] of Object.entries(indexes)) columns.push(readIndex(column, index, byName))
  assertColumns(columns, fields, header)
  if (warn)
    for (const { column, fields } of columns)
      warnOfFewValues(
        column,
        fields.map(({ name }) => name),
      )
  const names = new Set([...byName.keys(), ...columns.map(({ column }) => column), header])
  assertBind(binding.bind, fields, names)
  const keyIds = new Set([keyId, ...formerKeyIds])
  const indexKey = readLocal(options, binding.name, keyIds)
  const local = columns.find(({ kind }) => kind !== 'exact')
  if (local && !indexKey) {
    const message = `${JSON.stringify(local.column)}: an index of parts of a text needs indexKey`
    throw new InvalidInputError(message, 'Make one with createIndexKey(): the service must not see each part.')
  }
  return { ...binding, keyId, keyIds, indexKey, acceptPlaintext, fields, columns, names, format, header, dek, warn }
}

const EXACT = { bits: undefined, compound: false, kind: 'exact', length: 0 } as const

/** Reads an index that is declared by its column: over several fields, or of parts of a text. @throws InvalidInputError */
function readIndex(column: string, index: AnyIndex, fields: ReadonlyMap<string, PlacedField>): IndexColumn {
  const name = JSON.stringify(column)
  const given: Partial<CompoundIndex<string> & PrefixIndex<string> & NgramIndex<string>> = index
  const kind = KINDS.find((one) => given?.[one] !== undefined) ?? 'exact'
  assertOptions(`indexes.${column}`, index, kind === 'exact' ? ['fields', 'bits'] : [kind, 'length', 'bits'])
  const { bits = kind === 'ngram' ? NGRAM_BITS : undefined, length } = given
  assertIndex(column, [], bits)
  const names = kind === 'exact' ? given.fields : [given[kind] ?? '']
  if (!Array.isArray(names)) throw new InvalidInputError(`${name}: fields must be an array of names`)
  const parts = (names as readonly string[]).map((part) => {
    const field = fields.get(part)
    if (field && (kind === 'exact' ? field.spec.toIndexText : field.spec.kind === 'text')) return field
    throw new InvalidInputError(`${name} names ${JSON.stringify(part)}, which cannot be indexed so`)
  })
  if (kind === 'exact') {
    if (parts.length < 2) throw new InvalidInputError(`${name} must name at least two fields`)
    return { ...EXACT, column, fields: parts, bits, compound: true }
  }
  assertWhole(`${name}: length`, length, 1, MAX_PART_CHARACTERS)
  return { column, fields: parts, bits, compound: false, kind, length }
}

/** Reads the key of a local index. @throws InvalidInputError when it is garbled, or of another model or key */
function readLocal({ indexKey, envelope }: Options, model: string, keyIds: ReadonlySet<string>): IndexKey | undefined {
  if (indexKey === undefined) return undefined
  if (envelope === 1)
    throw new InvalidInputError(
      'indexKey needs envelope 2',
      'Clients in other languages need the index of the service.',
    )
  const read = readIndexKey(indexKey)
  if (read.model !== '' && read.model !== model) {
    throw new InvalidInputError(
      `indexKey belongs to the model ${JSON.stringify(read.model)}`,
      'Make one for this model.',
    )
  }
  if (keyIds.has(read.wrapped.key_id)) return read
  const message = `indexKey was made under the key ${read.wrapped.key_id}, which is not the model's`
  throw new InvalidInputError(message, 'Make one under `keyId`, or name its key in `formerKeyIds`.')
}

/** Reads the options that say what values are bound to. @throws InvalidInputError naming what is wrong */
function readBinding({ name = '', envelope = 2, bind = [], acceptUnbound = false }: BoundOptions | UnboundOptions) {
  if (envelope !== 1 && envelope !== 2) throw new InvalidInputError('envelope must be 1 or 2')
  assertFlag('acceptUnbound', acceptUnbound)
  const isList = Array.isArray(bind) && bind.length <= MAX_BIND_COLUMNS && new Set(bind).size === bind.length
  if (!isList || !bind.every((column) => isName(column) && column.split('.').every(isName))) {
    throw new InvalidInputError(`bind must list at most ${MAX_BIND_COLUMNS} columns, each once`)
  }
  if (envelope === 1 && (bind.length > 0 || acceptUnbound))
    throw new InvalidInputError('bind and acceptUnbound need envelope 2')
  if (typeof name !== 'string' || (envelope === 2 && name === '')) {
    throw new InvalidInputError('a model must have a name', 'Values are bound to it, except with `envelope: 1`.')
  }
  return { name, envelope, bind: bind.map((column) => ({ name: column, path: column.split('.') })), acceptUnbound }
}

/** Refuses a column whose value sealing changes: values are bound to what is stored in plain. @throws InvalidInputError */
function assertBind(bind: readonly BindColumn[], fields: readonly PlacedField[], names: ReadonlySet<string>): void {
  const wrong = bind.find(
    (column) => names.has(column.name) || names.has(column.path[0] ?? '') || fieldInside([...fields, column]),
  )
  if (wrong) throw new InvalidInputError(`bind: ${JSON.stringify(wrong.name)} is sealed, or made by the model`)
}

/** Returns the fields that a query names. @throws InvalidInputError when it names none, or one that has no index */
export function getQueryFields({ columns }: Definition, query: Row): PlacedField[] {
  const names = typeof query === 'object' && query !== null ? Object.keys(query) : []
  if (names.length === 0) throw new InvalidInputError('a query must be an object with at least one field')
  const indexed = new Map(columns.flatMap(({ fields }) => fields.map((field) => [field.name, field] as const)))
  return names.map((name) => {
    const field = indexed.get(name)
    if (!field) throw new InvalidInputError(`${JSON.stringify(name)} has no index`, 'Give the field an index.')
    return field
  })
}

/** Refuses a field that is inherited, not enumerable or under a symbol, since it would not be sealed. @throws InvalidInputError */
function assertNoHiddenField(fields: Readonly<Record<PropertyKey, AnyField>>): void {
  const seen: PropertyKey[] = Object.keys(fields)
  for (let owner: object = fields; owner; owner = Object.getPrototypeOf(owner)) {
    const hidden = Reflect.ownKeys(owner).find((key) => !seen.includes(key) && fields[key]?.['~spec'])
    if (hidden) throw new InvalidInputError(`fields: ${String(hidden)} must be enumerable, and the object's own`)
  }
}

function assertColumns(columns: readonly IndexColumn[], fields: readonly PlacedField[], header: string): void {
  const taken = new Set(fields.map(({ path }) => path[0]))
  for (const column of [...columns.map(({ column }) => column), header]) {
    if (!isName(column)) throw new InvalidInputError('a column must have a name')
    if (taken.has(column)) {
      const option = column === header ? 'header: ' : ''
      throw new InvalidInputError(`${option}the column ${JSON.stringify(column)} is already taken`)
    }
    taken.add(column)
  }
}

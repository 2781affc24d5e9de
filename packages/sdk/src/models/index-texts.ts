/**
 * Makes what is hashed for an index column from the texts of its fields (index-texts.md 2) or the bucket of a range
 * (local-index.md 3), of a row or of a query, and the column's value (index-texts.md 3). Not in `index-columns.ts`, so
 * that it is loaded with the first call only.
 */
import { encodeUtf8, lengthPrefixed } from '@eaas/protocol'
import { fillRandom } from '../deks/random.js'
import type { Mac } from '../engines/engine.js'
import { InvalidInputError, ProtocolError, type RecordPlace } from '../errors.js'
import { assertHashable, HASH_BITS, isMissing, type Row } from '../input.js'
import { assertHashedAsItIs, hashEach } from '../records/blocks.js'
import { createPace, loadOnce, loadPart, microtasks, onAbort, requestsAreIsolated, together } from '../waiting.js'
import type { Definition, PlacedField } from './definition.js'
import {
  type FieldRange,
  findPartColumn,
  getQueryFields,
  type IndexColumn,
  makeFieldText,
  readPart,
  readRange,
} from './index-columns.js'
import type { IndexSource } from './index-source.js'
import { hashText, mixedIn, openColumns } from './local-index.js'
import type { RowTexts } from './model-rows.js'
import type { ModelDeps, RowsOptions } from './model-types.js'

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

/** Returns what a column stores for its hashed texts: a value, or a sorted list of values. */
export type GetValue = (column: IndexColumn, texts: ColumnTexts) => string | string[]

/** How many MACs are made at once with an asynchronous engine. */
const BLOCK_MACS = 1_000

/** Hashes what many rows need, each distinct text of a column once. The engine must be ready. */
export async function hashColumnTexts(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly RowTexts[],
  options: RowsOptions,
): Promise<GetValue> {
  const byColumn: Hashes = new Map()
  const bySource = new Map<IndexSource, Hashes>()
  for (const [number, column] of definition.columns.entries()) {
    const texts = rows.flatMap((row) => row[number] ?? [])
    if (texts.length === 0) continue
    const hashes = new Map(texts.map((text) => [text, '']))
    byColumn.set(column, hashes)
    const own: Hashes = bySource.get(column.source) ?? new Map()
    bySource.set(column.source, own.set(column, hashes))
  }
  // At once, so that what they ask the service goes out in one request.
  await Promise.all([...bySource].map(([source, hashes]) => hashBy(deps, definition, source, { hashes, ...options })))
  return (column, texts) => {
    const toValue = (text: string) => makeColumnValue(column, byColumn.get(column)?.get(text) ?? '')
    return typeof texts === 'string' ? toValue(texts) : [...new Set(texts.map(toValue))].sort()
  }
}

/** By column, the hash of each text. */
type Hashes = Map<IndexColumn, Map<string, string>>

async function hashBy(
  deps: ModelDeps,
  { keyOf, named, name }: Definition,
  source: IndexSource,
  { hashes, signal }: RowsOptions & { hashes: Hashes },
): Promise<void> {
  const key = source.keyId === undefined ? (source.named ?? named) : undefined
  if (key && key.id === undefined) {
    await key.find(deps.findKey, signal) // a disabled key still derives secrets
    await key.find(deps.ensureKey, signal)
  }
  const keyId = source.keyId ?? key?.id ?? keyOf({}, 0)
  const { secret, oblivious, publicKey } = source
  if (secret === undefined) return hashByService(deps, hashes, { keyId, signal })
  const columns = [...hashes.keys()].map((one) => [one.column, kindName(one)] as const)
  const mixed = mixedIn(source, deps.envelopes.secrets)
  const made = { secret, mixed, keyId, model: name, columns, publicKey, signal }
  const own = [...hashes.values()]
  if (oblivious) return (await loadOblivious()).hashObliviously(TOOLS, deps, made, own)
  return hashLocally(await openColumns(deps, made, signal), own, signal)
}

const loadOblivious = loadOnce(() => loadPart(() => import('./oblivious-index.js')))
const WAITING = { microtasks, onAbort, requestsAreIsolated, together }
const TOOLS = [hashLocally, createPace, fillRandom, encodeUtf8, lengthPrefixed, ProtocolError, WAITING] as const

async function hashByService(
  { batcher }: ModelDeps,
  hashes: Hashes,
  options: { keyId: string; signal: AbortSignal | undefined },
): Promise<void> {
  const texts = new Set([...hashes.values()].flatMap((own) => [...own.keys()]))
  const made = await hashEach(batcher, texts, options) // equal texts have one hash, whatever their column
  for (const own of hashes.values()) for (const text of own.keys()) own.set(text, made.get(text) ?? '')
}

async function hashLocally(
  macs: readonly Mac[],
  columns: readonly Map<string, string>[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const pace = createPace()
  for (const [at, mac] of macs.entries()) {
    const hashes = columns[at] ?? new Map<string, string>()
    const texts = [...hashes.keys()]
    for (let start = 0; start < texts.length; start += BLOCK_MACS) {
      if (pace.due()) await pace.rest(signal)
      const block = texts.slice(start, start + BLOCK_MACS)
      const made = await Promise.all(block.map((text) => hashText(mac, text)))
      for (const [at, text] of block.entries()) hashes.set(text, made[at] ?? '')
    }
  }
}

/** The kind of a column, as local-index.md 2 writes it. */
function kindName({ kind, length, fields }: IndexColumn): string {
  const range = fields[0]?.spec.range
  if (kind === 'range' && range) return rangeKind(range)
  return kind === 'exact' ? kind : `${kind}:${length}`
}

/**
 * Makes the value that a column stores: the first `bits` of a hash, in as few hexadecimal digits as hold
 * them, the rest zero.
 */
export function makeColumnValue({ bits = HASH_BITS }: IndexColumn, hash: string): string {
  const digits = Math.ceil(bits / 4)
  const surplus = digits * 4 - bits
  const last = Number.parseInt(hash.charAt(digits - 1), 16)
  return hash.slice(0, digits - 1) + ((last >> surplus) << surplus).toString(16)
}

/** The most buckets of a query: each is a value that the database compares with. */
const MAX_BUCKETS = 400
const DAY_MS = 86_400_000

/** What buckets of a field are: a unit of dates, or the step of numbers. */
export type Bucketing = 'day' | 'month' | 'year' | { readonly step: number }

/** The kind of a column for the derivation of its key (local-index.md 2). */
export function rangeKind(range: Bucketing): string {
  return `range:${typeof range === 'string' ? range : range.step}`
}

/** Returns the text of a value's bucket. @throws InvalidInputError for a number that is too many steps from zero */
export function makeBucketText(field: PlacedField, value: unknown, index = 0): string {
  makeFieldText(field, value, index) // refuses a value of another kind
  return String(bucketOf(field, value as Date | number, index))
}

/**
 * Returns the text of each bucket that a query covers. For an empty range, that is the bucket of its lower bound, in
 * which no row matches: not every database takes an empty list. @throws InvalidInputError when they are too many
 */
export function makeBucketTexts(field: PlacedField, { lower, upper, openAbove }: FieldRange): string[] {
  // The last value below the bound is known only for dates, which are whole numbers.
  const last = openAbove && typeof upper !== 'number' ? new Date(upper.getTime() - 1) : upper
  const first = bucketOf(field, lower, 0)
  const length = Math.max(1, bucketOf(field, last, 0) - first + 1)
  if (length <= MAX_BUCKETS) return Array.from({ length }, (_, at) => String(first + at))
  const hint = 'Search for less at a time, or declare larger buckets.'
  const message = `the range covers ${length} buckets, and may cover ${MAX_BUCKETS}`
  throw new InvalidInputError(message, hint, { index: 0, field: field.name })
}

function bucketOf({ name, spec: { range } }: PlacedField, value: Date | number, index: number): number {
  const bucket = typeof value === 'number' ? Math.floor(value / Object(range).step) : dateBucket(value, range)
  if (Number.isSafeInteger(bucket)) return bucket + 0 // no negative zero
  throw new InvalidInputError('the number is too many steps from zero', 'Declare a larger step.', {
    index,
    field: name,
  })
}

function dateBucket(date: Date, range: unknown): number {
  if (range === 'day') return Math.floor(date.getTime() / DAY_MS)
  return range === 'month' ? date.getUTCFullYear() * 12 + date.getUTCMonth() : date.getUTCFullYear()
}

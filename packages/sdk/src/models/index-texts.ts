/** What is hashed for a column (index-texts.md 2), and the column's value (index-texts.md 3), for sealing and searching. */
import { encodeUtf8 } from '@eaas/protocol'
import { fillRandom } from '../deks/random.js'
import type { Mac } from '../engines/engine.js'
import type { RecordPlace } from '../errors.js'
import { assertHashable, HASH_BITS } from '../input.js'
import { assertHashedAsItIs, type RecordsDeps, type RowsOptions } from '../records/blocks.js'
import type { Calls } from '../records/seal-blocks.js'
import { createPace } from '../waiting.js'
import { rareOf } from './bindings.js'
import type { Definition } from './definition.js'
import type { IndexColumn } from './index-columns.js'
import type { IndexSource } from './index-source.js'
import { hashText, mixedIn, openColumns } from './local-index.js'
import type { RowTexts } from './seal-rows.js'

/** Several for an index of the parts of a text. */
export type ColumnTexts = string | readonly string[]

/** Makes what is hashed for a column (index-texts.md 2, local-index.md 3). @throws InvalidInputError */
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

function partsOf(characters: readonly string[], length: number): string[] {
  const count = Math.max(1, characters.length - length + 1)
  const parts = Array.from({ length: count }, (_, at) => characters.slice(at, at + length).join(''))
  return [...new Set(parts)]
}

/** Joins texts so that different lists give different texts (index-texts.md 2). */
function joinTexts(label: string, texts: readonly string[]): string {
  return [label, ...texts.map((text) => `${encodeUtf8(text).length}:${text}`)].join(':')
}

/** Returns what a column stores for its hashed texts: a value, or a sorted list of values. */
export type GetValue = (column: IndexColumn, texts: ColumnTexts) => string | string[]
const BLOCK_MACS = 1_000

/** Hashes what many rows need, each distinct text of a column once. The engine must be ready. */
export async function hashColumnTexts(
  deps: RecordsDeps,
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
  // All together, so that they share one request to the service.
  await inParallel(definition, options.signal, (signal) =>
    [...bySource].map(([source, hashes]) => hashBy(deps, definition, source, { hashes, signal })),
  )
  return (column, texts) => {
    const toValue = (text: string) => makeColumnValue(column, byColumn.get(column)?.get(text) ?? '')
    return typeof texts === 'string' ? toValue(texts) : [...new Set(texts.map(toValue))].sort()
  }
}

/** All calls must succeed. The first error aborts the others if there may be many; otherwise that would cost more than it saves. */
export async function inParallel<T extends readonly unknown[]>(
  definition: Definition,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal | undefined) => Calls<T>,
): Promise<T> {
  const { dek, columns } = definition
  const isMany = dek === 'record' || columns.some(({ source }) => source.secret === undefined || source.oblivious)
  if (isMany) return rareOf(definition).together(signal, call)
  return (await Promise.all(call(signal))) as readonly unknown[] as T
}

type Hashes = Map<IndexColumn, Map<string, string>>

async function hashBy(
  deps: RecordsDeps,
  definition: Definition,
  source: IndexSource,
  { hashes, signal }: RowsOptions & { hashes: Hashes },
): Promise<void> {
  const { keyOf, named, name } = definition
  const key = source.keyId === undefined ? (source.named ?? named) : undefined
  if (key && key.id === undefined) {
    await key.find(deps.findKey, signal) // a disabled key still derives secrets
    await key.find(deps.ensureKey, signal)
  }
  const keyId = source.keyId ?? key?.id ?? keyOf({}, 0)
  const { secret, oblivious, publicKey } = source
  const columns = [...hashes.keys()].map((one) => [one.column, kindName(one)] as const)
  const mixed = mixedIn(source, deps.envelopes.secrets)
  const made = { secret: secret ?? '', mixed, keyId, model: name, columns, publicKey, signal }
  const own = [...hashes.values()]
  if (secret !== undefined && !oblivious) return hashLocally(await openColumns(deps, made, signal), own, signal)
  return rareOf(definition).hashWithService({ hashLocally, fillRandom, oblivious }, deps, made, own)
}

export type HashLocally = typeof hashLocally

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

/** Returns a column's kind, from which its key is derived (local-index.md 2). */
function kindName({ kind, length, fields }: IndexColumn): string {
  const range = fields[0]?.spec.range
  if (kind === 'range' && range) return `range:${typeof range === 'string' ? range : range.step}`
  return kind === 'exact' ? kind : `${kind}:${length}`
}

/** Returns the first `bits` of a hash in as few hexadecimal digits as possible; the remaining bits are zero. */
export function makeColumnValue({ bits = HASH_BITS }: IndexColumn, hash: string): string {
  const digits = Math.ceil(bits / 4)
  const surplus = digits * 4 - bits
  const last = Number.parseInt(hash.charAt(digits - 1), 16)
  return hash.slice(0, digits - 1) + ((last >> surplus) << surplus).toString(16)
}

/** The buckets of a field: a unit for dates, a step for numbers. */
export type Bucketing = 'day' | 'month' | 'year' | { readonly step: number }

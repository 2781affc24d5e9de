/**
 * The values of index columns (index-texts.md 3), hashed by the service, or in this process where the model
 * has an index key.
 */

import { HASH_BITS } from '../input.js'
import { createPace } from '../pace.js'
import { hashEach } from '../records/blind-indexes.js'
import type { Definition } from './definition.js'
import type { IndexColumn } from './index-columns.js'
import type { ColumnTexts } from './index-texts.js'
import { hashText, openIndexKey } from './local-index.js'
import type { ModelDeps, RowsOptions } from './model-deps.js'
import { rangeKind } from './ranges.js'
import type { RowTexts } from './seal-rows.js'

/** Returns what a column stores for its hashed texts: a value, or a sorted list of values. */
export type GetValue = (column: IndexColumn, texts: ColumnTexts) => string | string[]

/** How many MACs are made at once with an asynchronous engine. */
const BLOCK_MACS = 1_000

/**
 * Hashes what many rows need, each distinct text of a column once. The engine must be ready where the model
 * has an index key.
 */
export async function hashColumnTexts(
  deps: ModelDeps,
  definition: Definition,
  rows: readonly RowTexts[],
  options: RowsOptions,
): Promise<GetValue> {
  const byColumn = new Map<IndexColumn, Map<string, string>>()
  for (const [number, column] of definition.columns.entries()) {
    const texts = rows.flatMap((row) => row[number] ?? [])
    byColumn.set(column, new Map(texts.map((text) => [text, ''])))
  }
  if (definition.indexKey) await hashLocally(deps, definition, byColumn, options)
  else await hashByService(deps, definition, byColumn, options)
  return (column, texts) => {
    const toValue = (text: string) => makeColumnValue(column, byColumn.get(column)?.get(text) ?? '')
    return typeof texts === 'string' ? toValue(texts) : [...new Set(texts.map(toValue))].sort()
  }
}

type Hashes = Map<IndexColumn, Map<string, string>>

async function hashByService(
  { batcher, ensureKey }: ModelDeps,
  { keyOf, named }: Definition,
  byColumn: Hashes,
  { signal }: RowsOptions,
): Promise<void> {
  const texts = new Set([...byColumn.values()].flatMap((hashes) => [...hashes.keys()]))
  if (texts.size === 0) return
  await named?.find(ensureKey, signal)
  const keyId = keyOf({}, 0) // the model's: with a key for each row, it has an index key instead
  const made = await hashEach(batcher, texts, { keyId, signal })
  for (const column of byColumn.keys()) byColumn.set(column, made) // equal texts have one hash, whatever their column
}

async function hashLocally(
  deps: ModelDeps,
  { indexKey, name }: Definition,
  byColumn: Hashes,
  { signal }: RowsOptions,
): Promise<void> {
  if (!indexKey || [...byColumn.values()].every(({ size }) => size === 0)) return
  const pace = createPace()
  for (const [one, hashes] of byColumn) {
    if (hashes.size === 0) continue
    const macs = await openIndexKey(deps, one.indexKey ?? indexKey, signal)
    const mac = await macs(name, one.column, kindName(one))
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

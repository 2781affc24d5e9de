/**
 * The store keys of this process. It reads them at the start and then once a second, so that all processes have a new
 * one before any seals under it.
 */
import { KEY_BYTES, readU32, writeU32 } from '@eaas/protocol'
import { importKey, randomKey } from '../crypto/aead.js'
import { RefusedPinError, RootKeyError, type RootKeyProvider, type StoreKeys } from '../crypto/key-hierarchy.js'
import type { Queryable } from '../store/db.js'
import { listStoreKeys, type StoreKeyRow } from '../store/store-keys.js'
import { assertWhole } from '../store/tampered-row.js'

/** In milliseconds, how often a process reads the store keys. A new one seals nothing for ten times as long. */
export const STORE_KEYS_MS = 1_000
/** The number of a store key is wrapped with it, so that the key cannot pass for another one. */
const NUMBER_BYTES = 4

export type WrappedStoreKey = Pick<StoreKeyRow, 'number' | 'wrapped'>

/** Writes nothing. @throws RootKeyError */
export async function makeStoreKey(
  provider: RootKeyProvider,
  number: number,
): Promise<{ keys: StoreKeys; row: WrappedStoreKey }> {
  const numbered = new Uint8Array(NUMBER_BYTES + KEY_BYTES)
  const key = randomKey()
  writeU32(numbered, 0, number)
  numbered.set(key, NUMBER_BYTES)
  try {
    const row = { number, wrapped: await provider.wrap(numbered) }
    return { row, keys: { current: number, keys: new Map([[number, importKey(key)]]) } }
  } finally {
    numbered.fill(0)
    key.fill(0)
  }
}

/** @throws RootKeyError if there is none, or the root key does not open one of them */
export async function openStoreKeys(sql: Queryable, provider: RootKeyProvider): Promise<StoreKeys> {
  const storeKeys: StoreKeys = { current: 0, keys: new Map() }
  await refreshStoreKeys(sql, storeKeys, async () => provider)
  return storeKeys
}

/**
 * Opens store keys that are new and not refused, and drops those that are gone. Opens the provider only for new ones.
 * @throws RootKeyError; the open keys stay
 */
export async function refreshStoreKeys(
  sql: Queryable,
  storeKeys: StoreKeys,
  openProvider: () => Promise<RootKeyProvider>,
): Promise<void> {
  const rows = await listStoreKeys(sql)
  const newest = rows.findLast(({ may_seal }) => may_seal)
  if (!newest) {
    await assertWhole(sql)
    throw new RootKeyError('The store keys are missing from the database. Restore a backup.')
  }
  const added = rows.filter(({ number, is_refused }) => !is_refused && !storeKeys.keys.has(number))
  if (added.length > 0) await openAdded(await openProvider(), added, storeKeys)
  storeKeys.current = newest.number
  for (const number of storeKeys.keys.keys()) {
    if (!rows.some((row) => row.number === number)) storeKeys.keys.delete(number)
  }
}

async function openAdded(provider: RootKeyProvider, added: readonly StoreKeyRow[], { keys }: StoreKeys): Promise<void> {
  const unopened: { number: number; error: unknown }[] = []
  for (const row of added) {
    const { number } = row
    try {
      const numbered = await unwrapStoreKey(provider, row)
      keys.set(number, importKey(numbered.subarray(NUMBER_BYTES)))
    } catch (error) {
      if (!(error instanceof RootKeyError) || error instanceof RefusedPinError) throw error
      unopened.push({ number, error })
    }
  }
  const [first] = unopened
  if (!first) return
  if (unopened.length === added.length) throw first.error
  const numbers = unopened.map(({ number }) => number).join(', ')
  throw new RootKeyError(
    `The root key opens other store keys of this database, but not ${numbers}, which was wrapped with another one: no server put that row into store_keys. Delete it there. If the database refuses that, no server wrote what is sealed under it either: verify every log (eaas audit verify --all).`,
  )
}

/** The store key without the number before it. @throws RootKeyError */
export async function unwrapStoreKey(provider: RootKeyProvider, { number, wrapped }: WrappedStoreKey) {
  const numbered = await provider.unwrap(wrapped)
  const found = numbered.length === NUMBER_BYTES + KEY_BYTES ? readU32(numbered, 0) : 0
  if (found === number) return numbered
  numbered.fill(0)
  throw new RootKeyError(
    `Store key ${number} is not what the server wrote: somebody changed it in the database. Restore a backup.`,
  )
}

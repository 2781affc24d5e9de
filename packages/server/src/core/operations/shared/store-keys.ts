/** What the rotations of the root key and of the store key share. */
import { equalBytes } from '../../audit/formats/chain.js'
import { Refusal } from '../../runner/refusal.js'
import type { Transaction } from '../../store/db.js'
import { listStoreKeys, type StoreKeyRow } from '../../store/store-keys.js'

type Wrapped = Pick<StoreKeyRow, 'number' | 'wrapped'>

/**
 * Lists those that were not refused: a refused one seals nothing, and the next rotation of the store key deletes it.
 */
export async function listUsable(sql: Parameters<typeof listStoreKeys>[0]): Promise<Wrapped[]> {
  return (await listStoreKeys(sql)).filter(({ is_refused }) => !is_refused)
}

/**
 * Checks that the store keys are these. Call it under the lock of the installation's head, which a rotation of either
 * key takes: so neither rotation leaves a store key under a root key that the other replaces. @throws Refusal E_STATE
 */
export async function assertStoreKeys(transaction: Transaction, expected: readonly Wrapped[]): Promise<void> {
  const found = await listUsable(transaction)
  const isSame = ({ number, wrapped }: Wrapped, at: number) =>
    expected[at]?.number === number && equalBytes(wrapped, expected[at].wrapped)
  if (found.length === expected.length && found.every(isSame)) return
  throw new Refusal('E_STATE', 'the store keys were changed meanwhile, and nothing was rotated; repeat the command')
}

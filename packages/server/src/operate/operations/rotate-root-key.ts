import { timingSafeEqual } from 'node:crypto'
import { equalBytes } from '../../core/audit/formats/chain.js'
import { RefusedPinError, RootKeyError, type RootKeyProvider } from '../../core/crypto/key-hierarchy.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { unwrapStoreKey, type WrappedStoreKey } from '../../core/runner/store-keys.js'
import type { Queryable, Transaction } from '../../core/store/db.js'
import { listStoreKeys } from '../../core/store/store-keys.js'
import { recordForInstallation } from '../../guard/installation-log.js'
import { rewrapStoreKey } from '../store/sealed-rows.js'

/**
 * Wraps the store keys again, and nothing else: running servers continue, and later starts need the new root key.
 * Returns their number. Calls `beforeCommit` last in the transaction. An error before that means that nothing changed;
 * after it, the rotation may still take effect, unless the error says that it was rolled back. @throws RootKeyError;
 * Refusal E_STATE if that is already the root key, or the store keys changed meanwhile
 */
export async function rotateRootKey(
  services: Services,
  { from, to, beforeCommit }: Record<'from' | 'to', RootKeyProvider> & { beforeCommit?: () => void },
): Promise<number> {
  const rows = await listUsable(services.sql)
  const [newest] = rows.slice(-1)
  if (newest && (await opens(to, newest.wrapped))) {
    throw new Refusal('E_STATE', 'that is the root key of this database already; nothing was changed')
  }
  // Before the transaction, because a provider may be slow.
  const rewrapped = await Promise.all(
    rows.map(async (row) => ({ number: row.number, wrapped: await rewrap(row, { from, to }) })),
  )
  const head = await services.sql.begin(async (sql) => {
    const note: EntryNote = { action: 'installation.root_key_rotate', metadata: { from: from.kind, to: to.kind } }
    const recorded = await recordForInstallation(services, sql, systemCaller(services), [note])
    await assertStoreKeys(sql, rows)
    for (const row of rewrapped) await rewrapStoreKey(sql, row)
    beforeCommit?.()
    return recorded
  })
  services.committer.guard.committed(head)
  return rows.length
}

function opens(provider: RootKeyProvider, wrapped: Uint8Array): Promise<boolean> {
  return provider.unwrap(wrapped).then(
    (key) => {
      key.fill(0)
      return true
    },
    (error) => {
      if (error instanceof RootKeyError && !(error instanceof RefusedPinError)) return false
      throw error
    },
  )
}

/** Checks that the new root key opens what it wrapped, since it may be allowed only to wrap. @throws RootKeyError */
async function rewrap(
  { number, wrapped }: WrappedStoreKey,
  { from, to }: Record<'from' | 'to', RootKeyProvider>,
): Promise<Uint8Array> {
  const numbered = await unwrapStoreKey(from, { number, wrapped })
  try {
    const next = await to.wrap(numbered)
    const opened = await unwrapStoreKey(to, { number, wrapped: next })
    const isSame = timingSafeEqual(opened, numbered)
    opened.fill(0)
    if (!isSame) throw new RootKeyError('The new root key opens something else than what it wrapped.')
    return next
  } finally {
    numbered.fill(0)
  }
}

/** Leaves out refused store keys, which seal nothing, and which the next rotation of the store key deletes. */
export async function listUsable(sql: Queryable): Promise<WrappedStoreKey[]> {
  return (await listStoreKeys(sql)).filter(({ is_refused }) => !is_refused)
}

/**
 * Call it under the lock of the installation's head, which a rotation of either key takes. So no rotation leaves a
 * store key under a root key that the other one replaces. @throws Refusal E_STATE if the store keys are not these
 */
export async function assertStoreKeys(transaction: Transaction, expected: readonly WrappedStoreKey[]): Promise<void> {
  const found = await listUsable(transaction)
  const isSame = ({ number, wrapped }: WrappedStoreKey, at: number) =>
    expected[at]?.number === number && equalBytes(wrapped, expected[at].wrapped)
  if (found.length === expected.length && found.every(isSame)) return
  throw new Refusal('E_STATE', 'the store keys were changed meanwhile, and nothing was rotated; repeat the command')
}

/**
 * Replaces the store key: makes a new one, seals every secret again, and deletes the old one. Called by the
 * operator; has no route. What was ended half-way is finished by the next call.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { INSTALLATION_ID, OpenError } from '@eaas/protocol'
import { resealSecret, type SecretBinding } from '../crypto/key-hierarchy.js'
import { mapInStretches } from '../event-loop.js'
import type { RootKeyProvider } from '../root-key/provider.js'
import { recordForInstallation } from '../runner/installation-log.js'
import type { EntryNote, Services } from '../runner/operation.js'
import { systemCaller } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { makeStoreKey, refreshStoreKeys } from '../runner/store-keys.js'
import type { Transaction } from '../store/db.js'
import { findInstallationKey, findInstance, resealInstance } from '../store/instance.js'
import {
  countSealed,
  deleteStoreKeysBefore,
  insertStoreKey,
  listSealedBefore,
  listStoreKeys,
  type ResealedRow,
  SEALED_TABLES,
  type SealedRow,
  writeResealed,
} from '../store/store-keys.js'

/** Rows of one statement: few enough that other calls hardly wait for it. */
const PAGE_ROWS = 500
/** Between two looks whether the new store key may seal, in milliseconds. */
const LOOK_MS = 500

export interface StoreKeyRotation {
  /** the number of the store key that seals everything now */
  number: number
  /** how many rows were sealed again */
  resealed: number
}

export interface RotateStoreKeyOptions {
  provider: RootKeyProvider
  /** called with the number of rows that were sealed again so far */
  onProgress?: (resealed: number) => void
  /** ends the rotation between two statements; the next call goes on */
  signal?: AbortSignal
}

/**
 * Rotates the store key.
 *
 * @throws RootKeyError; Refusal E_STATE if a secret does not open, which keeps the old store key; the signal's
 * reason
 */
export async function rotateStoreKey(
  services: Services,
  { provider, onProgress, signal }: RotateStoreKeyOptions,
): Promise<StoreKeyRotation> {
  const { sql, storeKeys } = services
  const number = await begin(services, provider)
  for (;;) {
    signal?.throwIfAborted()
    await refreshStoreKeys(sql, storeKeys, async () => provider)
    if (storeKeys.current === number) break
    await sleep(LOOK_MS)
  }
  let resealed = await resealInstallation(services)
  for (const table of SEALED_TABLES) {
    for (let after: SealedRow | undefined; ; ) {
      signal?.throwIfAborted()
      const rows = await listSealedBefore(sql, table, { number, after, limit: PAGE_ROWS })
      if (rows.length === 0) break
      const changed = (await mapInStretches(rows, (row) => reseal(services, table.purpose, row))).filter(
        (row) => row !== undefined,
      )
      resealed += await writeResealed(sql, table, changed)
      onProgress?.(resealed)
      after = rows.at(-1)
    }
  }
  const left = (await countSealed(sql)).reduce((sum, { rows, ...key }) => sum + (key.number < number ? rows : 0), 0)
  if (left > 0) {
    throw new Refusal(
      'E_STATE',
      `${left} rows have a secret that could not be sealed again, so the old store key stays. If it is so again when you repeat the command, somebody changed these rows: verify every log (eaas audit verify --all)`,
    )
  }
  await recordWith(services, { step: 'completed', number, resealed }, (transaction) =>
    deleteStoreKeysBefore(transaction, number),
  )
  await refreshStoreKeys(sql, storeKeys, async () => provider)
  return { number, resealed }
}

// More than one store key: an earlier rotation was not completed.
async function begin(services: Services, provider: RootKeyProvider): Promise<number> {
  const rows = await listStoreKeys(services.sql)
  const newest = rows.at(-1)?.number ?? 0
  if (rows.length > 1) return newest
  const number = newest + 1
  const { row } = await makeStoreKey(provider, number)
  await recordWith(services, { step: 'begun', number }, async (transaction) => {
    if (await insertStoreKey(transaction, row)) return
    throw new Refusal('E_STATE', 'another rotation of the store key has just begun; repeat the command to wait for it')
  })
  return number
}

async function recordWith(
  services: Services,
  metadata: NonNullable<EntryNote['metadata']>,
  change: (transaction: Transaction) => Promise<void>,
): Promise<void> {
  const head = await services.sql.begin(async (transaction) => {
    await change(transaction)
    const note: EntryNote = { action: 'installation.store_key_rotate', metadata }
    return recordForInstallation(services, transaction, systemCaller(services), [note])
  })
  services.committer.watches.get(INSTALLATION_ID).commit(head)
}

// One that does not open is left as it is, and counted at the end.
function reseal(
  { storeKeys }: Services,
  purpose: (typeof SEALED_TABLES)[number]['purpose'],
  row: SealedRow,
): ResealedRow | undefined {
  const { tenant_id, id, version, sealed } = row
  const binding: SecretBinding =
    purpose === 'audit-key' ? { purpose, tenant_id } : { purpose, tenant_id, id, ...(version > 0 && { version }) }
  try {
    return { ...row, resealed: resealSecret(storeKeys, binding, sealed) }
  } catch (error) {
    if (error instanceof OpenError) return undefined
    throw error
  }
}

async function resealInstallation({ sql, storeKeys }: Services): Promise<number> {
  const row = await findInstance(sql)
  const wrapped_audit_key = await findInstallationKey(sql)
  if (!row || !wrapped_audit_key) throw new Error("the installation's row is incomplete")
  const { wrapped_pepper, wrapped_signing_key } = row
  const was = { wrapped_pepper, wrapped_signing_key, wrapped_audit_key }
  const isWritten = await resealInstance(sql, was, {
    wrapped_pepper: resealSecret(storeKeys, { purpose: 'api-key-pepper' }, wrapped_pepper),
    wrapped_signing_key: resealSecret(storeKeys, { purpose: 'signing-key' }, wrapped_signing_key),
    wrapped_audit_key: resealSecret(storeKeys, { purpose: 'audit-key', tenant_id: INSTALLATION_ID }, wrapped_audit_key),
  })
  return isWritten ? 1 : 0
}

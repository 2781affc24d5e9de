// Replaces the store key and the secrets that no other rotation replaces, seals every other secret again, and deletes
// earlier store keys. Each call creates a new one, since an attacker may know that of a call that was interrupted.
import { setTimeout as sleep } from 'node:timers/promises'
import { OpenError } from '@eaas/protocol'
import { rotateKeyUnderEarlier } from '../../core/api/key-rotation.js'
import type { RootKeyProvider } from '../../core/crypto/key-hierarchy.js'
import { resealSecret, type SecretBinding, UnknownStoreKeyError } from '../../core/crypto/key-hierarchy.js'
import { mapInStretches } from '../../core/event-loop.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { performAsSystem, systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { makeStoreKey, openStoreKeys, refreshStoreKeys } from '../../core/runner/store-keys.js'
import type { Transaction } from '../../core/store/db.js'
import { insertStoreKey, isStoreKeyGone, listStoreKeys } from '../../core/store/store-keys.js'
import { recordForInstallation } from '../../guard/installation-log.js'
import {
  countSealedBefore,
  deleteStoreKeysBefore,
  listKeysUnderEarlier,
  listSealedBefore,
  type ResealedRow,
  SEALED_TABLES,
  type SealedRow,
  writeResealed,
} from '../store/sealed-rows.js'
import { renewInstallation } from './renew-installation.js'
import { isOfOneTenant, renewTenants, retryIfChanged } from './renew-tenant.js'
import { assertStoreKeys, listUsable } from './rotate-root-key.js'

const PAGE_ROWS = 100 // in one statement: few enough that other calls hardly wait
/** The share of the time for sealing again; for the rest, the CPUs are left to the calls. */
const WORKING = 1 / 4
const MOST_NUMBER = 2_000_000_000 // more than an installation creates; the column takes a few more
const MOST_NAMED = 10 // in a refusal
const LOOK_MS = 500 // in milliseconds, between two checks whether the new store key may seal

export interface StoreKeyRotation {
  number: number // the number of the store key that now seals everything
  resealed: number
  rotated_keys: number
  unrotated_keys: { tenant_id: string; key_id: string; reason: string }[] // keys without a new version, and the reason
}

interface RotateStoreKeyOptions {
  provider: RootKeyProvider
  /** if nothing leaked: seals the same signing key, pepper and audit keys again instead of creating new ones */
  keepsSecrets?: boolean
  rotatesKeys?: boolean // first gives each active key of each tenant a new version
  onProgress?: (resealed: number) => void // called with the number of rows sealed again so far
  signal?: AbortSignal // ends the rotation between two statements; the next call begins again
}

/** @throws RootKeyError; Refusal E_STATE if a secret does not open, for which the old store key is kept */
export async function rotateStoreKey(
  services: Services,
  { provider, keepsSecrets = false, rotatesKeys = false, onProgress, signal }: RotateStoreKeyOptions,
): Promise<StoreKeyRotation> {
  const { sql, storeKeys } = services
  const number = await begin(services, provider)
  for (;;) {
    signal?.throwIfAborted()
    await refreshStoreKeys(sql, storeKeys, async () => provider)
    if (storeKeys.current >= number) break
    await assertNotRefused(services, number)
    await sleep(LOOK_MS)
  }
  const keys = rotatesKeys ? await rotateKeys(services, number, signal) : { rotated_keys: 0, unrotated_keys: [] }
  let resealed = await retryIfChanged(() => renewInstallation(services, number, keepsSecrets))
  const unrotated = keys.unrotated_keys.map(({ key_id, reason }) => `Key ${key_id}: ${reason}`)
  let before: number
  let left: number
  // Repeats while there is progress: a server that has not yet read the new store key may have sealed under the old one.
  do {
    before = resealed
    const tenants = await renewTenants(services, { number, keepsSecrets, signal, onProgress })
    resealed += tenants.renewed
    resealed += await resealKeys(services, number, { signal, onProgress })
    left = await countSealedBefore(sql, number)
    if (left > 0 && resealed === before)
      throw await unsealed(services, { number, left, reasons: [...unrotated, ...tenants.reasons] })
  } while (left > 0 || !(await isCompleted(services, number, resealed)))
  await refreshStoreKeys(sql, storeKeys, async () => provider)
  return { number, resealed, ...keys }
}

// False if a server sealed something under an earlier store key after the rows were counted.
async function isCompleted(services: Services, number: number, resealed: number): Promise<boolean> {
  try {
    await recordWith(services, { step: 'completed', number, resealed }, (transaction) =>
      deleteStoreKeysBefore(transaction, number),
    )
    return true
  } catch (error) {
    if (!isStoreKeyGone(error)) throw error
    return false
  }
}

// Call it before anything is sealed again, as the seal of a key's current version tells whether it predates the rotation.
async function rotateKeys(
  services: Services,
  number: number,
  signal: AbortSignal | undefined,
): Promise<Pick<StoreKeyRotation, 'rotated_keys' | 'unrotated_keys'>> {
  let rotated_keys = 0
  const unrotated_keys: StoreKeyRotation['unrotated_keys'] = []
  for (let after: { tenant_id: string; key_id: string } | undefined; ; ) {
    const page = await listKeysUnderEarlier(services.sql, { number, after, limit: PAGE_ROWS })
    for (const { tenant_id, key_id } of page) {
      signal?.throwIfAborted()
      try {
        if (await performAsSystem(services, tenant_id, rotateKeyUnderEarlier({ key_id, number }))) rotated_keys += 1
      } catch (error) {
        if (!isOfOneTenant(error)) throw error
        unrotated_keys.push({ tenant_id, key_id, reason: error.message })
      }
    }
    after = page.at(-1)
    if (!after || page.length < PAGE_ROWS) return { rotated_keys, unrotated_keys }
  }
}

async function resealKeys(
  services: Services,
  number: number,
  { signal, onProgress }: { signal: AbortSignal | undefined; onProgress: ((resealed: number) => void) | undefined },
): Promise<number> {
  const { sql } = services
  let resealed = 0
  const [, ...tables] = SEALED_TABLES // the first one, of tenants, is for `renewTenants`
  for (const table of tables) {
    for (let after: SealedRow | undefined; ; ) {
      signal?.throwIfAborted()
      const begun = performance.now()
      const rows = await listSealedBefore(sql, table, { number, after, limit: PAGE_ROWS })
      if (rows.length === 0) break
      const changed = (await mapInStretches(rows, (row) => reseal(services, table.purpose, row))).filter(
        (row) => row !== undefined,
      )
      resealed += await writeResealed(sql, table, changed)
      onProgress?.(resealed)
      after = rows.at(-1)
      await sleep((performance.now() - begun) * (1 / WORKING - 1))
    }
  }
  return resealed
}

async function unsealed(
  { sql }: Services,
  { number, left, reasons }: { number: number; left: number; reasons: readonly string[] },
): Promise<Refusal> {
  const places: string[] = []
  for (const table of SEALED_TABLES) {
    const rows = await listSealedBefore(sql, table, { number, after: undefined, limit: MOST_NAMED })
    for (const { tenant_id, id, version } of rows) {
      const key = id === tenant_id ? '' : `, key ${id}${version > 0 ? `, version ${version}` : ''}`
      places.push(`${table.table}: tenant ${tenant_id}${key}`)
    }
  }
  return new Refusal(
    'E_STATE',
    [
      `${left === 1 ? 'one row has' : `${left} rows have`} a secret that could not be sealed again, so the old store key stays`,
      'If no other reason follows, these rows were changed or added outside the server: verify every log (eaas audit verify --all). Delete a row of a tenant or key that eaas does not list, and repeat the command',
      ...places.slice(0, MOST_NAMED),
      ...reasons,
    ].join('. '),
  )
}

/** @throws Refusal E_STATE if a process could not open the new store key; nothing is sealed under it then */
async function assertNotRefused({ sql }: Services, number: number): Promise<void> {
  const isRefused = (await listStoreKeys(sql)).some((row) => row.number === number && row.is_refused)
  if (!isRefused) return
  throw new Refusal(
    'E_STATE',
    'a server, or a command that runs such as eaas audit follow, could not open the new store key with the root key of its settings, so nothing was sealed under it. Restart each with the root key of now, and see that it can reach it (eaas doctor); then repeat the command',
  )
}

async function begin(services: Services, provider: RootKeyProvider): Promise<number> {
  const number = ((await listStoreKeys(services.sql)).at(-1)?.number ?? 0) + 1 // no process can already hold this one
  if (number > MOST_NUMBER) {
    const message = `the store key ${number - 1} is not one that eaas made: delete its row from store_keys`
    throw new Refusal('E_STATE', message)
  }
  const rows = await listUsable(services.sql)
  await openStoreKeys(services.sql, provider) // otherwise a root key that was replaced meanwhile could wrap the new store key
  const { row } = await makeStoreKey(provider, number)
  await recordWith(services, { step: 'begun', number }, async (transaction) => {
    await assertStoreKeys(transaction, rows)
    if (await insertStoreKey(transaction, row)) return
    throw new Refusal('E_STATE', 'another rotation of the store key has just begun; wait until it has ended')
  })
  return number
}

async function recordWith(
  services: Services,
  metadata: NonNullable<EntryNote['metadata']>,
  change: (transaction: Transaction) => Promise<void>,
): Promise<void> {
  const head = await services.sql.begin(async (transaction) => {
    const note: EntryNote = { action: 'installation.store_key_rotate', metadata }
    const recorded = await recordForInstallation(services, transaction, systemCaller(services), [note])
    await change(transaction)
    return recorded
  })
  services.committer.guard.committed(head)
}

// Leaves a secret that does not open as it is; it is counted at the end.
function reseal(
  { storeKeys }: Services,
  purpose: (typeof SEALED_TABLES)[number]['purpose'],
  row: SealedRow,
): ResealedRow | undefined {
  const { tenant_id, id, version, sealed } = row
  const binding: SecretBinding = { purpose, tenant_id, id, ...(version > 0 && { version }) }
  try {
    return { ...row, resealed: resealSecret(storeKeys, binding, sealed) }
  } catch (error) {
    if (error instanceof OpenError || error instanceof UnknownStoreKeyError) return undefined
    throw error
  }
}

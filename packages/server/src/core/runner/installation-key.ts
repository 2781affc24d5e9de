/**
 * The key that signs for the installation, which a rotation of the store key replaces while processes run, and the keys
 * before it. The statements that lead from one to the next are in the logs (key-change.md of `@eaas/audit`).
 */
import {
  CheckpointError,
  encodePublicKey,
  findKeyChange,
  followKeyChanges,
  listKeys,
  type SigningKey,
} from '@eaas/audit/formats'
import { signingKeyOf } from '@eaas/audit/node'
import { INSTALLATION_ID, readJson } from '@eaas/protocol'
import { followAuditKey } from '../audit/audit-key.js'
import { equalBytes } from '../audit/formats/chain.js'
import { openSecret, type StoreKeys } from '../crypto/key-hierarchy.js'
import { listEntriesOf } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { findInstance, type InstanceRow, listKeyChanges } from '../store/instance.js'
import type { Services } from './operation.js'

interface Opened {
  key: SigningKey
  sealed: Uint8Array
  publicKeys: readonly [string, ...string[]]
  changes: readonly string[]
}

type Sealed = Pick<InstanceRow, 'wrapped_signing_key'>

export class InstallationKey implements SigningKey {
  #opened: Opened

  private constructor(opened: Opened) {
    this.#opened = opened
  }

  static async open(sql: Queryable, storeKeys: StoreKeys, row: Sealed): Promise<InstallationKey> {
    return new InstallationKey(await openKey(sql, storeKeys, row))
  }

  get publicKey(): Uint8Array {
    return this.#opened.key.publicKey
  }

  /** All keys that ever signed for the installation, in written form; the current one is last. */
  get publicKeys(): readonly [string, ...string[]] {
    return this.#opened.publicKeys
  }

  get changes(): readonly string[] {
    return this.#opened.changes
  }

  sign(message: Uint8Array): Uint8Array {
    return this.#opened.key.sign(message)
  }

  /** A copy of the current key that follows no rotation: all signatures of one file must be by one key. */
  current(): InstallationKey {
    return new InstallationKey(this.#opened)
  }

  /** Switches to the key that is now in the database. @throws OpenError, UnknownStoreKeyError; the key then stays */
  async follow(sql: Queryable, storeKeys: StoreKeys): Promise<void> {
    const row = await findInstance(sql)
    if (row && !equalBytes(row.wrapped_signing_key, this.#opened.sealed)) {
      this.#opened = await openKey(sql, storeKeys, row)
    }
  }
}

async function openKey(sql: Queryable, storeKeys: StoreKeys, { wrapped_signing_key: sealed }: Sealed): Promise<Opened> {
  const key = signingKeyOf(openSecret(storeKeys, { purpose: 'signing-key' }, sealed))
  const changes: string[] = []
  let first = encodePublicKey(key)
  const publicKeys: [string, ...string[]] = [first]
  // Newest first. If the row was read before a rotation, the newest statements lead to later keys, and are skipped.
  for (const metadata of (await listKeyChanges(sql)).toReversed()) {
    const note = String(Object(readJson(metadata)).key_change)
    const change = findKeyChange(note)
    if (change?.to !== first) continue // it does not verify, which a verification of the installation's log reports
    changes.unshift(note)
    publicKeys.unshift(change.from)
    first = change.from
  }
  return { key, sealed, publicKeys, changes }
}

/** Switches to the installation's secrets that are now in the database. @throws OpenError, UnknownStoreKeyError */
export async function followInstallation(
  services: Pick<Services, 'sql' | 'storeKeys' | 'signingKey' | 'peppers' | 'installationKey'>,
): Promise<void> {
  const { sql, storeKeys } = services
  await services.signingKey.follow(sql, storeKeys)
  await services.peppers.follow(storeKeys)
  await followAuditKey(sql, services.installationKey)
}

/** More than any tenant has. */
const MOST_ARRIVAL_ENTRIES = 10_000

/**
 * The statements that lead from the first key that signed a tenant's log, which may be that of another installation, to
 * the key that signs it here (key-change.md 4). Only their own signatures authenticate them.
 */
export async function listKeyChangesOf(
  sql: Queryable,
  { signingKey: { changes } }: Pick<Services, 'signingKey'>,
  tenant_id: string,
): Promise<readonly string[]> {
  const actions = ['installation.tenant_arrive'] as const
  const where = { actions, text: `"tenant_id":"${tenant_id}"`, after_id: 0, limit: MOST_ARRIVAL_ENTRIES }
  const entries = await listEntriesOf(sql, INSTALLATION_ID, where)
  const told = entries.map(({ metadata }) => Object(readJson(metadata ?? '')))
  const arrival = told.at(-1)
  if (!arrival) return changes
  const parts = told.filter(({ entry_hash }) => entry_hash === arrival.entry_hash)
  const carried = parts.flatMap(({ key_changes }) => {
    const part: unknown = readJson(String(key_changes))
    return Array.isArray(part) ? part.map(String) : []
  })
  const arrivedUnder = findKeyChange(carried.at(-1) ?? '')?.to
  const since = changes.findIndex((note) => findKeyChange(note)?.from === arrivedUnder)
  return since === -1 ? carried : [...carried, ...changes.slice(since)]
}

/** The keys that may have signed a tenant's log: the installation's, and the earlier ones that it arrived with. */
export async function listSignersOf(
  services: Pick<Services, 'sql' | 'signingKey'>,
  tenant_id: string,
): Promise<readonly string[]> {
  const { publicKeys } = services.signingKey
  try {
    const carried = listKeys(followKeyChanges(await listKeyChangesOf(services.sql, services, tenant_id)))
    // Only a statement that a key of this installation also signed vouches for the keys before it.
    return carried.at(-1) === publicKeys.at(-1) ? [...new Set([...carried, ...publicKeys])] : publicKeys
  } catch (error) {
    if (error instanceof CheckpointError) return publicKeys // somebody edited the entry, which a verification reports
    throw error
  }
}

/**
 * The key that signs for the installation: checkpoints, exports, trees. A rotation of the store key replaces it while
 * processes run, and the installation's log has the statements about it (key-change.md of `@eaas/audit`).
 */
import { encodePublicKey, findKeyChange, type SigningKey } from '@eaas/audit/formats'
import { signingKeyOf } from '@eaas/audit/node'
import { readJson } from '@eaas/protocol'
import { followAuditKey } from '../audit/audit-key.js'
import { equalBytes } from '../audit/formats/chain.js'
import { openSecret, type StoreKeys } from '../crypto/key-hierarchy.js'
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

  /** Opens the key of the installation's row. @throws OpenError, UnknownStoreKeyError */
  static async open(sql: Queryable, storeKeys: StoreKeys, row: Sealed): Promise<InstallationKey> {
    return new InstallationKey(await openKey(sql, storeKeys, row))
  }

  get publicKey(): Uint8Array {
    return this.#opened.key.publicKey
  }

  /** All keys that ever signed for the installation, in order and written form; the last is the current one. */
  get publicKeys(): readonly [string, ...string[]] {
    return this.#opened.publicKeys
  }

  /** The statements that lead from the first of them to the current one. */
  get changes(): readonly string[] {
    return this.#opened.changes
  }

  sign(message: Uint8Array): Uint8Array {
    return this.#opened.key.sign(message)
  }

  /** The key as it is now, which no rotation replaces: all signatures of one file must be by one key. */
  current(): InstallationKey {
    return new InstallationKey(this.#opened)
  }

  /** Switches to the key that the database has now. @throws OpenError, UnknownStoreKeyError; the key stays then */
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
  // Newest first: if the row was read before a rotation, the last statement leads to a later key.
  for (const metadata of (await listKeyChanges(sql)).toReversed()) {
    const found = findChange(metadata, first)
    if (!found) continue
    changes.unshift(found.note)
    publicKeys.unshift(found.from)
    first = found.from
  }
  return { key, sealed, publicKeys, changes }
}

// A statement that does not verify is skipped; verifying the installation's log reports the change.
function findChange(metadata: string, key: string): { note: string; from: string } | undefined {
  const note = String(Object(readJson(metadata)).key_change)
  const change = findKeyChange(note)
  return change?.to === key ? { note, from: change.from } : undefined
}

/** Switches to the installation's secrets that the database has now. @throws OpenError, UnknownStoreKeyError */
export async function followInstallation({
  sql,
  storeKeys,
  signingKey,
  peppers,
  installationKey,
}: Pick<Services, 'sql' | 'storeKeys' | 'signingKey' | 'peppers' | 'installationKey'>): Promise<void> {
  await signingKey.follow(sql, storeKeys)
  await peppers.follow(storeKeys)
  await followAuditKey(sql, installationKey)
}

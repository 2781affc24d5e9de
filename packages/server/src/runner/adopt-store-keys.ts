/**
 * Seals everything under the first store key, in the transaction that migrates a database from before store keys
 * (schema 15 and earlier). There the root key itself sealed each secret, and the MACs of rows covered the sealed bytes.
 * A row that was tampered with is left as it is, so that it stays refused.
 */
import { createSecretKey, type KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { equalBytes } from '../audit/formats/chain.js'
import { type CoverSecret, coverAsHex, keyMac, keyVersionMac, tenantMac } from '../audit/formats/row-mac.js'
import {
  deriveRowKey,
  openSecretOfFormat1,
  type SecretBinding,
  type StoreKeys,
  sealSecret,
} from '../crypto/key-hierarchy.js'
import { mapInStretches } from '../event-loop.js'
import type { Transaction } from '../store/db.js'
import { findInstallationKey, findInstance, type InstanceSecrets, resealInstance } from '../store/instance.js'
import { listKeys, listTenantKeyVersions } from '../store/keys.js'
import { insertStoreKey, type ResealedRow, SEALED_TABLES, writeResealed } from '../store/store-keys.js'
import { listTenants } from '../store/tenants.js'
import type { NewStoreKey } from './store-keys.js'

/** Rows that are written in one statement. */
const WRITTEN_ROWS = 1_000

/** What adopting needs: the root key that sealed everything until now, and the first store key. */
export interface Adoption {
  rootKey: KeyObject
  first: NewStoreKey
}

/** Seals everything under the first store key. */
export async function adoptStoreKeys(sql: Transaction, { rootKey, first: { keys, row } }: Adoption): Promise<void> {
  await insertStoreKey(sql, row)
  const reseal = (binding: SecretBinding, sealed: Uint8Array) => resealFormat1({ rootKey, keys, binding, sealed })
  await adoptInstance(sql, reseal)
  const [tenants, keyTable, versionTable] = SEALED_TABLES
  for (const tenant of await listTenants(sql)) {
    const { tenant_id, wrapped_audit_key } = tenant
    const binding = { purpose: 'audit-key', tenant_id } as const
    const rowKey = openRowKey(rootKey, binding, wrapped_audit_key)
    if (!rowKey) continue // its audit key is not the server's: the tenant is refused, before and after
    const adopt = async <Row extends { tenant_id: string; mac: Uint8Array }>(
      table: (typeof SEALED_TABLES)[number],
      rows: readonly Row[],
      read: (row: Row) => { id: string; version?: number; sealed: Uint8Array | null },
      mac: (rowKey: KeyObject, row: Row, cover?: CoverSecret) => Uint8Array,
    ) => {
      const resealed = await mapInStretches(rows, (row): ResealedRow | undefined => {
        const { id, version, sealed } = read(row)
        if (sealed === null || !equalBytes(row.mac, mac(rowKey, row, coverAsHex))) return undefined
        const own =
          table === tenants
            ? binding
            : { purpose: table.purpose, tenant_id, id, ...(version !== undefined && { version }) }
        return { tenant_id, id, version: version ?? 0, sealed, resealed: reseal(own, sealed), mac: mac(rowKey, row) }
      })
      const changed = resealed.filter((row) => row !== undefined)
      for (let at = 0; at < changed.length; at += WRITTEN_ROWS) {
        await writeResealed(sql, table, changed.slice(at, at + WRITTEN_ROWS))
      }
    }
    await adopt(tenants, [tenant], () => ({ id: tenant_id, sealed: wrapped_audit_key }), tenantMac)
    const keyRows = await listKeys(sql, tenant_id, {})
    await adopt(keyTable, keyRows, ({ key_id: id, wrapped_hash_key: sealed }) => ({ id, sealed }), keyMac)
    const versions = await listTenantKeyVersions(sql, tenant_id)
    await adopt(
      versionTable,
      versions,
      ({ key_id: id, version, wrapped_kek: sealed }) => ({ id, version, sealed }),
      keyVersionMac,
    )
  }
}

type Reseal = (binding: SecretBinding, sealed: Uint8Array) => Uint8Array

function resealFormat1({
  rootKey,
  keys,
  binding,
  sealed,
}: {
  rootKey: KeyObject
  keys: StoreKeys
  binding: SecretBinding
  sealed: Uint8Array
}): Uint8Array {
  const secret = openSecretOfFormat1(rootKey, binding, sealed)
  try {
    return sealSecret(keys, binding, secret)
  } finally {
    secret.fill(0)
  }
}

async function adoptInstance(sql: Transaction, reseal: Reseal): Promise<void> {
  const instance = await findInstance(sql)
  const wrapped_audit_key = await findInstallationKey(sql)
  if (!instance || !wrapped_audit_key) throw new Error("the installation's row is incomplete")
  const { wrapped_pepper, wrapped_signing_key } = instance
  const only = { pepper: 1, wrapped_former_pepper: null }
  const was: InstanceSecrets = { ...only, wrapped_pepper, wrapped_signing_key, wrapped_audit_key }
  const isWritten = await resealInstance(sql, was, {
    ...only,
    wrapped_pepper: reseal({ purpose: 'api-key-pepper' }, wrapped_pepper),
    wrapped_signing_key: reseal({ purpose: 'signing-key' }, wrapped_signing_key),
    wrapped_audit_key: reseal({ purpose: 'audit-key', tenant_id: INSTALLATION_ID }, wrapped_audit_key),
  })
  if (!isWritten) throw new Error("the installation's row changed while it was read")
}

function openRowKey(rootKey: KeyObject, binding: SecretBinding, sealed: Uint8Array): KeyObject | undefined {
  let secret: Uint8Array
  try {
    secret = openSecretOfFormat1(rootKey, binding, sealed)
  } catch {
    return undefined
  }
  const rowKey = deriveRowKey(createSecretKey(secret))
  secret.fill(0)
  return rowKey
}

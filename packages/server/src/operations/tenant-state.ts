/**
 * A tenant as the operations see it: its settings, keys and API keys, opened and verified, cached under one policy
 * version. A state is never updated: when the policy version moves it is dropped, and the next call loads another.
 *
 * The version is read before any row, and it only grows. So when the committer finds it unchanged at the end, every row
 * that was read in between was right.
 */
import type { KeyObject } from 'node:crypto'
import { isUuid } from '@eaas/protocol'
import {
  apiKeyMac,
  authentic,
  findTampering,
  keyMac,
  keyVersionMac,
  TamperedRowError,
  tenantMac,
} from '../audit/row-mac.js'
import { deriveRowKey, openSecret } from '../crypto/key-hierarchy.js'
import { wrappedKeyAad } from '../crypto/wrapped-key.js'
import { type ApiKeyRow, findApiKeyByDigest } from '../store/api-keys.js'
import type { Sql } from '../store/db.js'
import { withDeadline } from '../store/deadline.js'
import { findKey, type KeyRow, type KeyVersionRow, listKeyVersions } from '../store/keys.js'
import { findCurrentTenant, type TenantRow } from '../store/tenants.js'

/** One version of a key; `kek` is undefined once it is destroyed. */
export interface OpenKeyVersion {
  row: KeyVersionRow
  kek: KeyObject | undefined
  /** what a wrapped key of this version is bound to */
  aad: Uint8Array
}

/** A key with its secrets opened. */
export interface OpenKey {
  row: KeyRow
  versions: ReadonlyMap<number, OpenKeyVersion>
  /** undefined once the key is destroyed */
  hashKey: KeyObject | undefined
}

export interface TenantState {
  readonly tenant: TenantRow
  /** set where the tenant's row is not as the server wrote it: nothing is decided on it then */
  readonly fault: TamperedRowError | undefined
  readonly policy_version: number
  /** the last entry that a purge took; 0 where none did */
  readonly purged_through: number
  readonly auditKey: KeyObject
  /** authenticates the tenant's rows */
  readonly rowKey: KeyObject
  /** Finds a key; anything that is no UUID finds nothing. @throws TamperedRowError */
  findKey(key_id: string): Promise<OpenKey | undefined>
  /** Finds the API key with this digest. @throws TamperedRowError */
  findApiKey(digest: string): Promise<ApiKeyRow | undefined>
}

export interface TenantStates {
  /** The state of a tenant, loaded when there is none; undefined where there is no such tenant. */
  find(tenant_id: string): Promise<TenantState | undefined>
  /** Forgets a state that is no longer current. */
  drop(state: TenantState): void
}

/** Tenants whose state is kept at most; the one loaded longest ago goes first. */
const CACHED_TENANTS = 10_000

interface Loaded {
  loading: Promise<TenantState | undefined>
  /** once it is loaded */
  state: TenantState | undefined
}

/** Makes the cache of tenants' states; one a process. */
export function createTenantStates({ sql, rootKey }: { sql: Sql; rootKey: KeyObject }): TenantStates {
  const states = new Map<string, Loaded>()

  function find(tenant_id: string): Promise<TenantState | undefined> {
    const cached = states.get(tenant_id)
    if (cached) return cached.loading
    const loaded: Loaded = { loading: withDeadline(loadState(sql, rootKey, tenant_id)), state: undefined }
    states.set(tenant_id, loaded)
    const forget = () => {
      if (states.get(tenant_id) === loaded) states.delete(tenant_id)
    }
    loaded.loading.then((state) => {
      loaded.state = state
      if (!state) forget()
    }, forget)
    const [oldest] = states.keys()
    if (states.size > CACHED_TENANTS && oldest !== undefined) states.delete(oldest)
    return loaded.loading
  }

  return {
    find,
    drop(state) {
      const { tenant_id } = state.tenant
      if (states.get(tenant_id)?.state === state) states.delete(tenant_id)
    },
  }
}

async function loadState(sql: Sql, rootKey: KeyObject, tenant_id: string): Promise<TenantState | undefined> {
  const found = await findCurrentTenant(sql, tenant_id)
  if (!found) return undefined
  const { policy_version, purged_through, ...row } = found
  const auditKey = openSecret(rootKey, { purpose: 'audit-key', tenant_id }, row.wrapped_audit_key)
  const rowKey = deriveRowKey(auditKey)

  const keys = new Map<string, Promise<OpenKey | undefined>>()
  const apiKeys = new Map<string, Promise<ApiKeyRow | undefined>>()
  return {
    tenant: row,
    fault: findTampering(row, tenantMac, rowKey),
    policy_version,
    purged_through,
    auditKey,
    rowKey,
    findKey(key_id) {
      if (!isUuid(key_id)) return Promise.resolve(undefined)
      return remember(keys, key_id, () => loadKey(sql, { rootKey, rowKey, tenant_id, key_id }))
    },
    findApiKey(digest) {
      return remember(apiKeys, digest, async () => {
        const apiKey = await findApiKeyByDigest(sql, tenant_id, digest)
        return apiKey && authentic(apiKey, apiKeyMac, rowKey)
      })
    },
  }
}

// Calls that ask together share one load; what was not found or failed is not remembered.
function remember<T>(cache: Map<string, Promise<T | undefined>>, id: string, load: () => Promise<T | undefined>) {
  const cached = cache.get(id)
  if (cached) return cached
  const loading = withDeadline(load())
  cache.set(id, loading)
  const forget = () => cache.delete(id)
  loading.then((value) => value ?? forget(), forget)
  return loading
}

async function loadKey(
  sql: Sql,
  { rootKey, rowKey, tenant_id, key_id }: { rootKey: KeyObject; rowKey: KeyObject; tenant_id: string; key_id: string },
): Promise<OpenKey | undefined> {
  const found = await findKey(sql, tenant_id, key_id)
  if (!found) return undefined
  const row = authentic(found, keyMac, rowKey)
  const versions = await listKeyVersions(sql, tenant_id, key_id)
  demandVersions(row, versions)
  return {
    row,
    versions: new Map(
      versions.map((version) => [
        version.version,
        {
          row: authentic(version, keyVersionMac, rowKey),
          kek:
            version.wrapped_kek === null
              ? undefined
              : openSecret(
                  rootKey,
                  { purpose: 'kek', tenant_id, id: key_id, version: version.version },
                  version.wrapped_kek,
                ),
          aad: wrappedKeyAad(tenant_id, key_id, version.version),
        },
      ]),
    ),
    hashKey:
      row.wrapped_hash_key === null
        ? undefined
        : openSecret(rootKey, { purpose: 'hash-key', tenant_id, id: key_id }, row.wrapped_hash_key),
  }
}

// A version that is hidden can't be destroyed, and its wrapped keys seem to be forged. A rotation between the two reads adds one beyond
// the current version; none is ever taken away.
function demandVersions({ tenant_id, key_id, current_version }: KeyRow, versions: readonly KeyVersionRow[]): void {
  const known = versions.filter(({ version }) => version >= 1 && version <= current_version)
  if (known.length === current_version) return
  throw new TamperedRowError(`a version of key ${key_id} of tenant ${tenant_id} was deleted outside the server`)
}

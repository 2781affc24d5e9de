/**
 * The opened and authenticated keys and API keys of a tenant. Each is loaded at its first use, and concurrent calls
 * share the load. Not cached: rows that were not found, failed to load or are an older version.
 */
import { isUuid, partsOf } from '@eaas/protocol'
import type { Head } from '../audit/formats/chain.js'
import { apiKeyMac, authentic } from '../audit/formats/row-mac.js'
import { type ApiKeyRow, findApiKey, findApiKeyByDigest } from '../store/api-keys.js'
import { withDeadline } from '../store/deadline.js'
import { isKeyListed, type KeyRow, type KeyVersionRow } from '../store/keys.js'
import { findPutBack, type WithNewestEntry } from '../store/newest-entry.js'
import type { TamperedRowError } from '../store/tampered-row.js'
import type { TenantRow } from '../store/tenants.js'
import { type KeySource, loadKey, type OpenKey, openKey } from './load-key.js'

export interface WrittenRows {
  tenant?: TenantRow
  key?: KeyRow
  /** changed versions of the key in `key` */
  versions?: readonly KeyVersionRow[]
  /** new keys, where one change creates several */
  created?: readonly OpenKey[]
  apiKey?: ApiKeyRow
  /** several rows, if one change restates them */
  restated?: readonly Pick<WrittenRows, 'key' | 'apiKey'>[]
  purged_through?: number
  /** the head of the installation's log, if that log has an entry about the change */
  installationHead?: Head
}

/** If the row is an older version, it has a fault, and serves only to report what is wrong with the log. */
export type FoundApiKey = { row: ApiKeyRow; fault: TamperedRowError | undefined }

/** The row, or a promise while it is loaded: for a loaded row, calls need not wait for a promise. */
export type MaybeLoading<T> = T | undefined | Promise<T | undefined>

interface Slot<T> {
  loading: Promise<T | undefined>
  value: T | undefined
}

export class OpenRows {
  private readonly keys = new Map<string, Slot<OpenKey>>()
  /** by digest */
  private readonly apiKeys = new Map<string, Slot<FoundApiKey>>()
  /** keys that were written while not all of their versions were loaded */
  private readonly unknown = new Set<string>()
  /** by id, the entries of the rows that this transaction wrote, which the log gets only at the end */
  private readonly written = new Map<string, number>()

  /** Reads the rows `below` too, but never changes them: the uncommitted rows of a transaction stay in its own layer. */
  constructor(
    private readonly source: KeySource,
    private readonly below?: OpenRows,
  ) {}

  /** Finds nothing for text that is not a UUID. @throws TamperedRowError */
  findKey(key_id: string): MaybeLoading<OpenKey> {
    if (!isUuid(key_id)) return undefined
    const known = this.unknown.has(key_id) ? undefined : this.below?.keys
    return remember(this.keys, known, key_id, () => loadKey(this.source, key_id, this.written.get(key_id)))
  }

  /** Whether a key is on a list; false for text that is not a UUID. Always reads the database. */
  async isListed(key_id: string, list: readonly string[]): Promise<boolean> {
    const { sql, tenant_id } = this.source
    return isUuid(key_id) && withDeadline(isKeyListed(sql, { tenant_id, key_id }, partsOf(list)))
  }

  findApiKey(digest: string): MaybeLoading<FoundApiKey> {
    const { sql, tenant_id } = this.source
    return remember(this.apiKeys, this.below?.apiKeys, digest, async () => {
      const apiKey = await findApiKeyByDigest(sql, tenant_id, digest)
      return apiKey && this.openApiKey(apiKey)
    })
  }

  /** Always reads the database; finds nothing for text that is not a UUID. @throws TamperedRowError */
  async findApiKeyById(api_key_id: string): Promise<ApiKeyRow | undefined> {
    if (!isUuid(api_key_id)) return undefined
    const { sql, tenant_id } = this.source
    const found = await withDeadline(findApiKey(sql, tenant_id, api_key_id))
    if (!found) return undefined
    const { row, fault } = this.openApiKey(found)
    if (fault) throw fault
    return row
  }

  private openApiKey(found: WithNewestEntry<ApiKeyRow>): FoundApiKey {
    const { newest_entry, ...row } = authentic(found, apiKeyMac, this.source.rowKey)
    const { api_key_id } = row
    const recorded = { ...row, newest_entry: this.written.get(api_key_id) ?? newest_entry }
    return { row, fault: findPutBack(recorded, `API key ${api_key_id}`) }
  }

  put({ key, versions = [], created = [], apiKey, restated = [] }: WrittenRows): void {
    for (const one of restated) this.put(one)
    if (apiKey) {
      const slot = filled({ row: apiKey, fault: undefined })
      for (const digest of [apiKey.digest, ...this.digestsOf(apiKey)]) this.apiKeys.set(digest, slot)
      this.written.set(apiKey.api_key_id, apiKey.entry_id)
    }
    for (const one of created) {
      this.written.set(one.row.key_id, one.row.entry_id)
      this.keys.set(one.row.key_id, filled(one))
    }
    if (!key) return
    const { key_id, current_version } = key
    this.written.set(key_id, key.entry_id)
    const known = this.keys.get(key_id)?.value ?? this.below?.keys.get(key_id)?.value
    if (known || versions.length === current_version) {
      this.keys.set(key_id, filled(openKey(this.source.storeKeys, { row: key, versions, known })))
    } else {
      this.keys.delete(key_id)
      this.unknown.add(key_id)
    }
  }

  // The API key may also be cached under the digest that a new pepper replaced.
  private digestsOf({ api_key_id }: ApiKeyRow): string[] {
    const all = [...this.apiKeys, ...(this.below?.apiKeys ?? [])]
    return all.flatMap(([digest, { value }]) => (value?.row.api_key_id === api_key_id ? [digest] : []))
  }

  /** Adopts the rows in the layer `above`, once its transaction is committed. */
  absorb(above: OpenRows): void {
    for (const key_id of above.unknown) this.keys.delete(key_id)
    for (const [key_id, slot] of above.keys) if (slot.value) this.keys.set(key_id, slot)
    for (const [digest, slot] of above.apiKeys) if (slot.value) this.apiKeys.set(digest, slot)
  }

  /** Drops the rows that other processes wrote, by their ids; all rows if the ids are unknown. */
  forget(written: { keys: ReadonlySet<string>; apiKeys: ReadonlySet<string> } | undefined): void {
    if (!written) {
      this.keys.clear()
      this.apiKeys.clear()
      return
    }
    for (const key_id of written.keys) this.keys.delete(key_id)
    if (written.apiKeys.size === 0) return
    for (const [digest, { value }] of this.apiKeys) {
      if (!value || written.apiKeys.has(value.row.api_key_id)) this.apiKeys.delete(digest)
    }
  }
}

// A row that is still loading below is loaded again: that load may wait for a connection that waits for this transaction.
function remember<T extends object>(
  slots: Map<string, Slot<T>>,
  below: ReadonlyMap<string, Slot<T>> | undefined,
  id: string,
  load: () => Promise<T | undefined>,
): MaybeLoading<T> {
  const found = slots.get(id)
  const value = found ? found.value : below?.get(id)?.value
  if (value) return value
  if (found) return found.loading
  const slot: Slot<T> = { loading: withDeadline(load()), value: undefined }
  slots.set(id, slot)
  const forget = () => {
    if (slots.get(id) === slot) slots.delete(id)
  }
  slot.loading.then((value) => {
    if (!value || ('fault' in value && value.fault)) forget()
    else slot.value = value
  }, forget)
  return slot.loading
}

function filled<T>(value: T): Slot<T> {
  return { loading: Promise.resolve(value), value }
}

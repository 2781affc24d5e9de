/**
 * A tenant as the operations see it: its settings, keys and API keys, opened and authenticated, under one policy version.
 * That version only grows, and is read before any row. So if the committer finds it unchanged at the end, every row that
 * was read in between was current. When it changes, the next state reloads the rows that another process wrote. States of
 * one tenant share their rows, so an older one may show newer rows: its policy version is then outdated.
 */
import type { KeyObject } from 'node:crypto'
import { genesisHash, readMetadata } from '@eaas/audit/formats'
import { folderOf, INSTALLATION_ID, isListed, type KeyList, partsOf } from '@eaas/protocol'
import type { HeadLock } from '../audit/append/tenant-log.js'
import { openAuditKey } from '../audit/audit-key.js'
import {
  type AuditKey,
  equalBytes,
  type Head,
  isHeadAuthentic,
  isPurgeMarkAuthentic,
  type Witness,
} from '../audit/formats/chain.js'
import { findTampering, tenantMac } from '../audit/formats/row-mac.js'
import { readAuthenticEntry } from '../audit/read-entry.js'
import { findRowsWritten } from '../audit/verify/row-audit.js'
import { deriveRowKey, type StoreKeys } from '../crypto/key-hierarchy.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import { findHead } from '../store/audit.js'
import type { Queryable, Sql } from '../store/db.js'
import { withDeadline } from '../store/deadline.js'
import { findCurrentInstallation } from '../store/instance.js'
import type { KeyRow } from '../store/keys.js'
import { findPutBack } from '../store/newest-entry.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { type CurrentTenant, findCurrentTenant, type TenantRow } from '../store/tenants.js'
import type { OpenKey } from './load-key.js'
import { type MaybeLoading, OpenRows, type WrittenRows } from './opened-keys.js'

/** The public key with which that installation signed at the time, and its address if the operator set one. */
export type MovedTo = { public_key: string; address?: string }

type Finders = Pick<OpenRows, 'findKey' | 'isListed' | 'findApiKey' | 'findApiKeyById'>

export interface TenantState extends Finders {
  readonly tenant: TenantRow
  /** set if the tenant's row is not as the server last wrote it; no decision is then based on it */
  readonly fault: TamperedRowError | undefined
  /** where a tenant that moved, or is moving, is served afterwards; set while the log has that entry */
  readonly moved_to: MovedTo | undefined
  readonly policy_version: number
  /** the last entry that a purge deleted; 0 if there was none */
  readonly purged_through: number
  readonly auditKey: AuditKey
  readonly rowKey: KeyObject
}

/** The state under the lock of a head, which each change of the transaction replaces. */
interface LockedState {
  readonly state: TenantState
  /** Makes the next state from the rows of a change and the number of its entries. */
  wrote(rows: WrittenRows, entries: number): void
}

/** Whether another installation continues the log, or is about to: nothing may be appended to it here. */
export function isMovedAway({ status }: { status: string }): boolean {
  return status === 'moving' || status === 'moved'
}

export type TenantStates = ReturnType<typeof createTenantStates>

/** For how many tenants the state is cached; the one loaded first is dropped first. */
const CACHED_TENANTS = 10_000
/**
 * How long a state is kept, in milliseconds. A row is compared with the log only when it is loaded. If an attacker
 * restored an older row at that moment, and hid its newest entry, this bounds how long the row is used.
 */
const KEPT_MS = 10 * 60_000

interface Cached {
  state: TenantState
  rows: OpenRows
  /** the end of the chain at a time when the policy version of the state was current */
  known: Witness
  renewing: Promise<void> | undefined
}

interface Slot {
  loading: Promise<TenantState | undefined>
  cached: Cached | undefined
  since: number
}

interface StatesOptions {
  sql: Sql
  storeKeys: StoreKeys
  /** milliseconds by a clock that never goes back */
  elapsed?: () => number
}

export function createTenantStates({ sql, storeKeys, elapsed = () => performance.now() }: StatesOptions) {
  const slots = new Map<string, Slot>()
  const locked = new WeakMap<HeadLock, Promise<LockedState>>()

  /** A promise while the state is loaded at its first use; undefined if there is no such tenant. */
  function find(tenant_id: string): MaybeLoading<TenantState> {
    const found = slots.get(tenant_id)
    const now = elapsed()
    if (found && now - found.since < KEPT_MS) return found.cached?.state ?? found.loading
    slots.delete(tenant_id) // so that its next slot becomes the newest
    const load = withDeadline(loadTenant(sql, { sql, storeKeys, tenant_id }))
    const slot: Slot = { loading: load.then((cached) => cached?.state), cached: undefined, since: now }
    slots.set(tenant_id, slot)
    const drop = () => {
      if (slots.get(tenant_id) === slot) slots.delete(tenant_id)
    }
    load.then((cached) => {
      slot.cached = cached
      if (!cached || cached.state.fault) drop() // a row that is repaired has no entry by which it would be loaded again
    }, drop)
    const [oldest] = slots.keys()
    if (slots.size > CACHED_TENANTS && oldest !== undefined) slots.delete(oldest)
    return slot.loading
  }

  function forget(cached: Cached): void {
    const { tenant_id } = cached.state.tenant
    if (slots.get(tenant_id)?.cached === cached) slots.delete(tenant_id)
  }

  /** Does nothing if the state has reached the policy version of the head meanwhile. */
  async function follow(cached: Cached, on: Queryable, head: Head): Promise<void> {
    const { state, rows, known } = cached
    const { tenant_id } = state.tenant
    const written = await findRowsWritten(on, { known, head, auditKey: state.auditKey })
    const found = !written || written.tenant ? await findCurrent(on, tenant_id) : undefined
    const moved_to = found ? await findAddress(on, found.tenant, state.auditKey) : state.moved_to
    if (cached.state !== state) return
    if ((!written || written.tenant) && !found) {
      forget(cached)
      throw new Error(`tenant ${tenant_id} is gone`)
    }
    const isRenewed = found && !equalBytes(found.tenant.wrapped_audit_key, state.tenant.wrapped_audit_key)
    const keys = isRenewed ? openKeys(storeKeys, found.tenant) : undefined
    if (keys) cached.rows = new OpenRows({ sql, storeKeys, rowKey: keys.rowKey, tenant_id })
    else rows.forget(written)
    const parts = found && tenantParts(found, keys ?? state)
    advance(cached, { ...state, ...keys, ...parts, moved_to, policy_version: head.policy_version }, head)
    if (parts?.fault) forget(cached)
  }

  async function renew(state: TenantState): Promise<void> {
    const { tenant_id } = state.tenant
    const cached = slots.get(tenant_id)?.cached
    if (!cached || cached.state !== state) return // another call updated it, or is loading it again
    cached.renewing ??= withDeadline(
      (async () => {
        const head = await findHead(sql, tenant_id)
        if (head && head.policy_version > state.policy_version) await follow(cached, sql, head)
        else if (head?.policy_version !== state.policy_version) forget(cached) // the chain went back, for which the committer raises the alarm
      })(),
    ).finally(() => {
      cached.renewing = undefined
    })
    await cached.renewing
  }

  async function lockState(lock: HeadLock): Promise<LockedState> {
    const { head } = lock
    const { tenant_id, policy_version } = head
    let cached = slots.get(tenant_id)?.cached
    if (cached && cached.state.policy_version > policy_version) forget(cached)
    if (!cached || cached.state.policy_version > policy_version) {
      cached = await loadTenant(lock.sql, { sql, storeKeys, tenant_id })
      if (!cached) throw new Error(`tenant ${tenant_id} is gone`)
    }
    while (cached.state.policy_version < policy_version) await follow(cached, lock.sql, head)
    return overlay(cached, lock, storeKeys)
  }

  return {
    find,
    renew,
    recent(tenant_id: string, policy_version: number): TenantState | undefined {
      const state = slots.get(tenant_id)?.cached?.state
      return state?.policy_version === policy_version ? state : undefined
    },
    forget: (tenant_id: string): void => void slots.delete(tenant_id),
    /** Returns the same state for all calls while the lock is held. Reads through the connection that holds the lock. */
    underLock(lock: HeadLock): Promise<LockedState> {
      const known = locked.get(lock)
      if (known) return known
      const made = lockState(lock)
      locked.set(lock, made)
      return made
    },
  }
}

function advance(cached: Cached, state: TenantState, { last_id, hash, policy_version }: Witness): void {
  const { rows } = cached
  cached.state = { ...state, ...finders(rows) }
  cached.known = { last_id, hash, policy_version }
}

// A transaction reads and writes in a layer of its own, so after a rollback no other call has seen its rows.
function overlay(cached: Cached, lock: HeadLock, storeKeys: StoreKeys): LockedState {
  const base = cached.state
  const { rowKey, tenant } = base
  const rows = new OpenRows({ sql: lock.sql, storeKeys, rowKey, tenant_id: tenant.tenant_id }, cached.rows)
  const locked = {
    state: { ...base, ...finders(rows) } as TenantState,
    wrote(written: WrittenRows, entries: number) {
      const { state } = locked
      rows.put(written)
      const { tenant = state.tenant, purged_through = state.purged_through } = written
      const fault = written.tenant ? undefined : state.fault
      const policy_version = state.policy_version + entries
      locked.state = { ...state, tenant, fault, purged_through, policy_version }
    },
  }
  lock.onCommit((head) => {
    if (cached.state !== base) return // another call has already followed this transaction's entries
    cached.rows.absorb(rows)
    advance(cached, locked.state, head)
  })
  return locked
}

async function loadTenant(
  on: Queryable,
  { sql, storeKeys, tenant_id }: { sql: Sql; storeKeys: StoreKeys; tenant_id: string },
): Promise<Cached | undefined> {
  const found = await findCurrent(on, tenant_id)
  if (!found) return undefined
  const keys = openKeys(storeKeys, found.tenant)
  const { auditKey, rowKey } = keys
  const rows = new OpenRows({ sql, storeKeys, rowKey, tenant_id })
  const { policy_version, last_id, head_hash } = found
  const state: TenantState = {
    ...keys,
    ...tenantParts(found, keys),
    moved_to: await findAddress(on, found.tenant, auditKey),
    policy_version,
    ...finders(rows),
  }
  const known = { last_id, hash: head_hash ?? genesisHash(tenant_id), policy_version }
  return { state, rows, known, renewing: undefined }
}

// The row key is read with the row, so that no row is compared with a MAC under another key.
function openKeys(storeKeys: StoreKeys, tenant: TenantRow): Pick<TenantState, 'auditKey' | 'rowKey'> {
  const auditKey = openAuditKey(storeKeys, tenant)
  return { auditKey, rowKey: deriveRowKey(auditKey.current) }
}

// Only the entry that the row names has the address.
async function findAddress(on: Queryable, tenant: TenantRow, auditKey: AuditKey): Promise<MovedTo | undefined> {
  if (!isMovedAway(tenant)) return undefined
  const { tenant_id, entry_id: id } = tenant
  const entry = await readAuthenticEntry(on, { tenant_id, id, auditKey })
  const { to: public_key, moved_to: address } = readMetadata(entry ?? { metadata: null })
  if (typeof public_key !== 'string') return undefined
  return { public_key, ...(typeof address === 'string' && { address }) }
}

function findCurrent(on: Queryable, tenant_id: string): Promise<CurrentTenant | undefined> {
  return tenant_id === INSTALLATION_ID ? findCurrentInstallation(on) : findCurrentTenant(on, tenant_id)
}

function tenantParts(
  { tenant: { newest_entry, ...tenant }, mark }: CurrentTenant,
  { auditKey, rowKey }: Pick<TenantState, 'auditKey' | 'rowKey'>,
): Pick<TenantState, 'tenant' | 'fault' | 'purged_through'> {
  // The installation has no row that could be edited: its key opens only under the root key.
  const hasRow = tenant.tenant_id !== INSTALLATION_ID
  const forged = hasRow ? findTampering(tenant, tenantMac, rowKey) : undefined
  const putBack = () => findPutBack({ ...tenant, newest_entry }, 'the settings')
  const fault = forged ?? (hasRow ? putBack() : undefined)
  // Counts only a purge that the server marked; after any other, verification reports the missing entries.
  return { tenant, fault, purged_through: mark && isPurgeMarkAuthentic(auditKey, mark) ? mark.purged_through : 0 }
}

/**
 * Reads a tenant's row without a state, under the lock of its head, for a change of the row. Checks the row as a state
 * does, and against the head. Its MAC must be of the row's audit key, and nothing may follow the entry that closed a
 * tenant for its move. This detects an older row even if its newest entry is hidden. @throws TamperedRowError
 */
export async function readForChange(lock: Queryable, storeKeys: StoreKeys, head: Head): Promise<TenantRow> {
  const { tenant_id, last_id } = head
  const found = await findCurrentTenant(lock, tenant_id)
  if (!found) throw new TamperedRowError(`the row of tenant ${tenant_id} was deleted outside the server`)
  const keys = openKeys(storeKeys, found.tenant)
  const { tenant, fault } = tenantParts(found, keys)
  if (fault) throw fault
  if (isHeadAuthentic(keys.auditKey, head) && (!isMovedAway(tenant) || tenant.entry_id === last_id)) return tenant
  throw new TamperedRowError(`an older row of tenant ${tenant_id} was put back outside the server`)
}

function finders(rows: OpenRows): Finders {
  return {
    findKey: (key_id) => rows.findKey(key_id),
    isListed: (key_id, list) => rows.isListed(key_id, list),
    findApiKey: (digest) => rows.findApiKey(digest),
    findApiKeyById: (api_key_id) => rows.findApiKeyById(api_key_id),
  }
}

/** by state, then by API key */
const seen = new WeakMap<TenantState, WeakMap<ApiKeyRow, TenantState>>()

/** The state as an API key sees it; unchanged for the server, its operator and API keys without a list. */
export function asSeenBy(state: TenantState, apiKey: ApiKeyRow | undefined): TenantState {
  if (!apiKey || apiKey.keys === null) return state
  const views = seen.get(state) ?? new WeakMap<ApiKeyRow, TenantState>()
  seen.set(state, views)
  const known = views.get(apiKey)
  if (known) return known
  const view = { ...state, findKey: limitedFinder(state, apiKey.keys) }
  views.set(apiKey, view)
  return view
}

export function isListedKey(list: KeyList, { key_id, name }: Pick<KeyRow, 'key_id' | 'name'>): boolean {
  return isListed(list, { key_id, folder: folderOf(name) })
}

/**
 * Neither the answer nor its time shows whether a key outside the list exists: each key not yet found on the list is
 * looked up by one statement that finds only listed keys.
 */
function limitedFinder(state: TenantState, list: readonly string[]): TenantState['findKey'] {
  const { ids } = partsOf(list)
  const found = new Set<string>() // names never change

  async function findByName(key_id: string): Promise<OpenKey | undefined> {
    if (!(await state.isListed(key_id, list))) return undefined
    const key = await state.findKey(key_id)
    if (!key || !isListedKey(list, key.row)) return undefined
    found.add(key_id)
    return key
  }

  return (key_id): MaybeLoading<OpenKey> =>
    ids.has(key_id) || found.has(key_id) ? state.findKey(key_id) : findByName(key_id)
}

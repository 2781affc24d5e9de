/** Replaces the audit keys of tenants, in a rotation of the store key (chain.md 14). */
import type { KeyObject } from 'node:crypto'
import { OpenError } from '@eaas/protocol'
import { type Page, readPages } from '../../core/api/pages.js'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { extendLocked } from '../../core/audit/append/tenant-log.js'
import { ChainAlarmError } from '../../core/audit/append-errors.js'
import { openAuditKey, renewAuditKey, resealAuditKey } from '../../core/audit/audit-key.js'
import { areMarksAuthentic, extendChain, NO_MARK_MAC, purgeMarkMac } from '../../core/audit/formats/chain.js'
import { apiKeyMac, authentic, keyMac, keyVersionMac, tenantMac } from '../../core/audit/formats/row-mac.js'
import { deriveRowKey, sealedUnder, UnknownStoreKeyError } from '../../core/crypto/key-hierarchy.js'
import { draftEntry } from '../../core/runner/entry-drafts.js'
import type { Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { readForChange } from '../../core/runner/tenant-state.js'
import { type ApiKeyRow, listApiKeys } from '../../core/store/api-keys.js'
import type { Queryable, Transaction } from '../../core/store/db.js'
import { type KeyRow, type KeyVersionRow, listKeys, listTenantKeyVersions } from '../../core/store/keys.js'
import { listMarks } from '../../core/store/purge-marks.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { listTenants, type TenantRow } from '../../core/store/tenants.js'
import { MAC_TABLES, type RenewedMac, replaceAuditKey, replaceMacs, replaceMark } from '../store/sealed-rows.js'

const PAGE_ROWS = 1_000 // far below the database's limit, however many rows there are
const ATTEMPTS = 3 // how often a renewal is tried if rows change meanwhile

/** For instance, an API key's row took a new pepper. Nothing was written. */
export class ChangedMeanwhileError extends Error {
  override readonly name = 'ChangedMeanwhileError'

  constructor(tenant_id: string) {
    super(`a row of tenant ${tenant_id} changed while its audit key was renewed: repeat the command`)
  }
}

/** Repeats the renewal if the row of an API key changed meanwhile because it took the new pepper. @throws ChangedMeanwhileError */
export async function retryIfChanged<T>(renew: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await renew()
    } catch (error) {
      if (!(error instanceof ChangedMeanwhileError) || attempt === ATTEMPTS) throw error
    }
  }
}

/**
 * Gives the log a new audit key from the next entry on, in one transaction under the lock of the head, for which calls
 * wait. Verifies each row and mark under the old key, and gives it a MAC under the new one, as the entry and the head
 * get. A crash before the commit changes nothing. Does nothing if the store key of that number already seals the audit
 * keys. If another installation continues the log, only seals them again. Returns whether it wrote them. @throws
 * TamperedRowError if a row or mark is not as the server wrote it, Refusal E_STATE if the tenant is being moved,
 * ChainAlarmError, ChangedMeanwhileError; nothing is changed then
 */
export async function renewTenant(services: Services, tenant_id: string, number: number): Promise<boolean> {
  const { storeKeys, states } = services
  const { clock } = services.committer
  const state = await states.find(tenant_id)
  if (!state) return false
  const log = { tenant_id, auditKey: state.auditKey }
  let isResealed = false
  const head = await extendLocked(services, log, async (transaction, previous) => {
    const tenant = await readForChange(transaction, storeKeys, previous)
    if (sealedUnder(tenant.wrapped_audit_key) >= number) return undefined
    if (tenant.status === 'moving')
      throw new Refusal(
        'E_STATE',
        'its move has not ended: end it, or undo it (eaas tenant move), and repeat the command',
      )
    if (tenant.status === 'moved') {
      isResealed = await reseal(services, transaction, tenant)
      return undefined
    }
    const auditKey = openAuditKey(storeKeys, tenant)
    const marks = await listMarks(transaction, tenant_id)
    if (!areMarksAuthentic(auditKey, marks))
      throw new TamperedRowError(`a mark of a purge of tenant ${tenant_id} is forged`)
    const positions = { after_id: previous.last_id, purged_through: marks.at(-1)?.purged_through ?? 0 }
    const wrapped_audit_key = renewAuditKey(auditKey, positions)
    const next = openAuditKey(storeKeys, { tenant_id, wrapped_audit_key })
    const rowKeys = { from: deriveRowKey(auditKey.current), to: deriveRowKey(next.current) }
    const { mac } = renewed(tenant, tenantMac, rowKeys, tenant_id)
    if (!(await replaceAuditKey(transaction, tenant, { wrapped_audit_key, mac }))) {
      throw new ChangedMeanwhileError(tenant_id)
    }
    await renewRows(transaction, tenant_id, {
      table: MAC_TABLES.keys,
      readPage: (page: Page<KeyRow>) => listKeys(transaction, tenant_id, page),
      renew: (row) => renewed(row, keyMac, rowKeys, row.key_id),
    })
    await renewRows(transaction, tenant_id, {
      table: MAC_TABLES.versions,
      readPage: (page: Page<KeyVersionRow>) => listTenantKeyVersions(transaction, tenant_id, page),
      renew: (row) => renewed(row, keyVersionMac, rowKeys, row.key_id, row.version),
    })
    await renewApiKeys(transaction, tenant_id, rowKeys)
    let previous_mac: Uint8Array = NO_MARK_MAC
    for (const mark of marks) {
      const mac = purgeMarkMac(next, { ...mark, previous_mac })
      await replaceMark(transaction, { ...mark, previous_mac, mac })
      previous_mac = mac
    }
    const time = clock.read(previous)
    const draft = draftEntry({ action: 'audit.key_renew' }, systemCaller(services))
    const policy_version = previous.policy_version + 1
    const { entries, head } = extendChain(previous, [draft], { auditKey: next, now: time, policy_version })
    await appendToLocked(transaction, clock, { previous, next: head, entries, time })
    return head
  })
  states.forget(tenant_id)
  return isResealed || head !== undefined
}

/** Returns false if they have changed meanwhile. */
function reseal({ storeKeys }: Services, sql: Queryable, tenant: TenantRow): Promise<boolean> {
  const wrapped_audit_key = resealAuditKey(storeKeys, tenant.tenant_id, tenant.wrapped_audit_key)
  return replaceAuditKey(sql, tenant, { wrapped_audit_key, mac: tenant.mac })
}

type RowKeys = Record<'from' | 'to', KeyObject>

export function renewApiKeys(sql: Transaction, tenant_id: string, rowKeys: RowKeys): Promise<void> {
  return renewRows(sql, tenant_id, {
    table: MAC_TABLES.apiKeys,
    readPage: (page: Page<ApiKeyRow>) => listApiKeys(sql, tenant_id, page),
    renew: (row) => renewed(row, apiKeyMac, rowKeys, row.api_key_id),
  })
}

interface Renewal<Row> {
  table: (typeof MAC_TABLES)[keyof typeof MAC_TABLES]
  readPage: (page: Page<Row>) => Promise<readonly Row[]>
  renew: (row: Row) => RenewedMac
}

async function renewRows<Row>(
  sql: Transaction,
  tenant_id: string,
  { table, readPage, renew }: Renewal<Row>,
): Promise<void> {
  const all = { limit: Number.POSITIVE_INFINITY, offset: 0, pageRows: PAGE_ROWS }
  for await (const macs of readPages(all, readPage, renew)) {
    if ((await replaceMacs(sql, table, tenant_id, macs)) !== macs.length) throw new ChangedMeanwhileError(tenant_id)
  }
}

// Verifies each row under the old key first.
function renewed<Row extends { tenant_id: string; mac: Uint8Array }>(
  row: Row,
  mac: (rowKey: KeyObject, row: Row) => Uint8Array,
  { from, to }: RowKeys,
  id: string,
  version = 0,
): RenewedMac {
  return { id, version, was: row.mac, mac: mac(to, authentic(row, mac, from)) }
}

interface RenewOptions {
  number: number // the number of the store key that will seal everything
  keepsSecrets: boolean
  signal: AbortSignal | undefined
  onProgress: ((written: number) => void) | undefined
}

const MOST_NAMED = 10 // how many tenants whose audit key could not be renewed are named

/**
 * With `keepsSecrets`, seals the same keys again. A tenant that fails keeps its audit key, and needs the old store key.
 * Returns how many rows it wrote, and why tenants failed.
 */
export async function renewTenants(
  services: Services,
  { number, keepsSecrets, signal, onProgress }: RenewOptions,
): Promise<{ renewed: number; reasons: string[] }> {
  const { sql } = services
  let renewed = 0
  const reasons: string[] = []
  for (const tenant of await listTenants(sql)) {
    signal?.throwIfAborted()
    const { tenant_id, wrapped_audit_key } = tenant
    if (sealedUnder(wrapped_audit_key) >= number) continue
    try {
      if (keepsSecrets) {
        if (await reseal(services, sql, tenant)) renewed += 1
      } else if (await retryIfChanged(() => renewTenant(services, tenant_id, number))) renewed += 1
    } catch (error) {
      if (!isOfOneTenant(error)) throw error
      if (reasons.length < MOST_NAMED) reasons.push(`Tenant ${tenant_id}: ${error.message}`)
    }
    onProgress?.(renewed)
  }
  return { renewed, reasons }
}

/** Whether an error concerns one tenant alone, so that an operation on all tenants goes on with the others. */
export function isOfOneTenant(error: unknown): error is Error {
  const kinds = [Refusal, TamperedRowError, ChainAlarmError, OpenError, UnknownStoreKeyError, ChangedMeanwhileError]
  return kinds.some((kind) => error instanceof kind)
}

/** What operators do with tenants. Each change is recorded in the tenant's log and in the installation's. */
import { randomUUID } from 'node:crypto'
import { encodeHex, INSTALLATION_ID, isUuid, PERMISSIONS, readJson, type wire } from '@eaas/protocol'
import type { z } from 'zod/mini'
import { recordGrant } from '../core/api/api-key-grants.js'
import { newApiKey } from '../core/api/api-keys.js'
import { assertNotDeleted, viewTenant } from '../core/api/tenant.js'
import { appendToLocked } from '../core/audit/append/send-appends.js'
import { openAuditKey } from '../core/audit/audit-key.js'
import { currentKey, extendChain, genesisHead, type Head } from '../core/audit/formats/chain.js'
import { apiKeyMac, assertWritten, authentic, tenantMac, withMac } from '../core/audit/formats/row-mac.js'
import { deriveRowKey, sealNewSecret } from '../core/crypto/key-hierarchy.js'
import { draftEntry, recordChanges } from '../core/runner/entry-drafts.js'
import {
  type Caller,
  type Context,
  type Decision,
  decision,
  type EntryNote,
  type Operation,
  type Services,
} from '../core/runner/operation.js'
import { systemCaller } from '../core/runner/perform.js'
import { Refusal } from '../core/runner/refusal.js'
import type { MovedTo } from '../core/runner/tenant-state.js'
import { type ApiKeyRow, insertApiKey } from '../core/store/api-keys.js'
import { insertHead, listEntriesOf } from '../core/store/audit.js'
import { isSpread, type Transaction } from '../core/store/db.js'
import { withDeadline } from '../core/store/deadline.js'
import {
  findTenantByName,
  hasTenants,
  insertTenant,
  type TenantRow,
  updateTenant as updateRow,
} from '../core/store/tenants.js'
import { assertRecordable, lockInstallationHead, recordForInstallation } from '../guard/installation-log.js'
import type { newTenant, updateTenant as updateTenantBody } from './operator-schemas.js'

/** How long the database may take to create a tenant. */
export const CREATE_DEADLINE_MS = 10_000

export type NewTenant = z.infer<typeof newTenant>

type Creating = Pick<Services, 'storeKeys' | 'peppers' | 'now' | 'committer' | 'installationKey' | 'actor'>

export type TenantOptions = Pick<NewTenant, 'name' | 'envelope_only'>

/**
 * Creates a tenant in one transaction. Its first API key holds every permission, and only the answer shows its secret.
 * @throws Refusal E_NAME_TAKEN
 * @throws DatabaseDeadlineError if the database does not acknowledge it in time; the tenant may then exist
 */
export async function createTenant(
  services: Creating & Pick<Services, 'sql'>,
  options: TenantOptions,
  caller = systemCaller(services),
): Promise<NewTenant> {
  // One at a time, since the name is checked before it is inserted.
  const created = services.sql.begin(async (sql) => {
    const { last_id } = await lockInstallationHead(services, sql)
    await assertNotJustCreated(sql, options.name, last_id)
    return insertAll(services, sql, options, caller)
  })
  // A commit that is acknowledged after the deadline is witnessed as well.
  const witnessing = created.then((tenant) => witnessed(services, tenant))
  return withDeadline(witnessing, CREATE_DEADLINE_MS)
}

/** Creates a tenant if there is none: of servers that start on a new database, only one creates it. */
export async function createFirstTenant(
  services: Creating & Pick<Services, 'sql'>,
  options: TenantOptions,
): Promise<NewTenant | undefined> {
  const created = await services.sql.begin(async (sql) => {
    await lockInstallationHead(services, sql)
    return (await hasTenants(sql)) ? undefined : insertAll(services, sql, options, systemCaller(services))
  })
  return created && witnessed(services, created)
}

type Created = { tenant: NewTenant; heads: { own: Head; installation: Head } }

// Only after the commit, since a head that was rolled back would seem lost.
function witnessed({ committer: { guard } }: Creating, { tenant, heads }: Created): NewTenant {
  guard.committed(heads.own)
  guard.committed(heads.installation)
  return tenant
}

/** For a tenant that another server just created: the log may show its entry before each machine shows its row. */
const JUST_CREATED_ENTRIES = 16

async function assertNotJustCreated(sql: Transaction, name: string, last_id: number): Promise<void> {
  if (!isSpread(sql)) return
  const actions = ['installation.tenant_create', 'installation.tenant_arrive'] as const
  const after_id = Math.max(0, last_id - JUST_CREATED_ENTRIES)
  const created = await listEntriesOf(sql, INSTALLATION_ID, { actions, after_id, limit: JUST_CREATED_ENTRIES })
  const names = created.map(({ metadata }) => (readJson(metadata ?? '') as { name?: unknown } | undefined)?.name)
  if (names.includes(name)) throw nameTaken(name)
}

const nameTaken = (name: string) =>
  new Refusal('E_NAME_TAKEN', `a tenant named ${name} already exists, perhaps as a deleted one: choose another name`)

async function insertAll(
  services: Creating,
  sql: Transaction,
  { name, envelope_only }: TenantOptions,
  caller: Caller,
): Promise<Created> {
  if (await findTenantByName(sql, name)) throw nameTaken(name)
  const tenant_id = randomUUID()
  const wrapped_audit_key = sealNewSecret(services.storeKeys, { purpose: 'audit-key', tenant_id })
  const auditKey = openAuditKey(services.storeKeys, { tenant_id, wrapped_audit_key })
  const rowKey = deriveRowKey(currentKey(auditKey))

  const unlimited = { allowed_ips: [], keys: null, budgets: null, expires_at: null }
  const fields = { tenant_id, name: 'first key', permissions: [...PERMISSIONS], ...unlimited }
  const { secret, row } = newApiKey(services, fields)
  const { clock } = services.committer
  const now = clock.read()
  const created_at = new Date(now).toISOString()
  const genesis = genesisHead(auditKey, tenant_id, created_at)
  const { api_key_id } = row
  const granted = { api_key_id, envelope_only, ...recordGrant(row) }
  const first = draftEntry({ action: 'api_key.create', metadata: granted }, caller)
  const { entries, head } = extendChain(genesis, [first], { auditKey, now })
  const entry_id = head.last_id
  const apiKey: ApiKeyRow = withMac({ ...row, created_at, entry_id }, apiKeyMac, rowKey)
  const settings = { envelope_only, monthly_encrypt_quota: null, plaintext_encoding: 'utf8', status: 'active' } as const
  const tenantRow = { tenant_id, name, ...settings, wrapped_audit_key, created_at, entry_id }
  await insertTenant(sql, withMac(tenantRow, tenantMac, rowKey))
  await insertHead(sql, genesis)
  await insertApiKey(sql, apiKey)
  await appendToLocked(sql, clock, { previous: genesis, next: head, entries, time: now })
  const installation = await recordForInstallation(services, sql, caller, [
    { action: 'installation.tenant_create', metadata: { tenant_id, name, envelope_only } },
  ])
  const { name: apiKeyName, prefix, permissions } = apiKey
  const api_key = { id: api_key_id, name: apiKeyName, prefix, permissions, created_at, secret }
  const tenant: NewTenant = { tenant_id, name, envelope_only, created_at, api_key }
  return { tenant, heads: { own: head, installation } }
}

/** The settings to change; a null quota means no limit. */
type TenantChanges = z.infer<typeof updateTenantBody>

/** Changes those of the given settings that differ; returns the tenant. @throws Refusal E_STATE */
export function updateTenant(changes: TenantChanges): Operation<OperatorTenant> {
  return async (context) => {
    const { state } = context
    assertNotDeleted(state)
    const { tenant } = state
    const isChange = ([name, value]: [string, unknown]) =>
      value !== undefined && value !== tenant[name as keyof TenantChanges]
    const changed = Object.fromEntries(Object.entries(changes).filter(isChange))
    if (Object.keys(changed).length === 0) return { entries: [], release: () => viewForOperator(tenant) }
    return changeTenant(context, changed)
  }
}

/** Refuses every call of a tenant. If it is suspended already, writes an entry only for a given reason. @throws Refusal E_STATE */
export function suspendTenant(reason: Reason): Operation<OperatorTenant> {
  return setStatus('suspended', reason)
}

/** Resumes a suspended tenant. If it is active already, writes an entry only for a given reason. @throws Refusal E_STATE */
export function resumeTenant(reason: Reason): Operation<OperatorTenant> {
  return setStatus('active', reason)
}

function setStatus(status: 'active' | 'suspended', { reason }: Reason): Operation<OperatorTenant> {
  return async (context) => {
    const { state } = context
    assertNotDeleted(state)
    if (reason !== undefined) return changeTenant(context, { status }, { reason })
    if (state.tenant.status !== status) return changeTenant(context, { status })
    return { entries: [], release: () => viewForOperator(state.tenant) }
  }
}

/** Closes an active tenant for its move to the installation that signs with this public key. @throws Refusal E_STATE */
export function closeForMove(to: string): Operation<OperatorTenant> {
  return (context) => {
    const { name, status } = context.state.tenant
    if (status !== 'active') throw new Refusal('E_STATE', `tenant ${name} is ${status}: only an active one is moved`)
    return changeTenant(context, { status: 'moving' }, { to })
  }
}

export function readTenantForOperator(): Operation<OperatorTenant> {
  return async ({ state: { tenant, moved_to } }) => ({
    entries: [],
    release: () => ({ ...viewForOperator(tenant), ...(moved_to && { moved_to }) }),
  })
}

/** The fault of a name, if any: a UUID could be taken for an id, and invisible characters imitate another name. */
export function findNameFault(name: string): string | undefined {
  if (isUuid(name.toLowerCase())) return "must not be a UUID, which commands would take for a tenant's id"
  if (/\p{Cc}/u.test(name) || name.trim() === '') return 'must have no control characters, and must not be blank'
  return undefined
}

/** @throws TamperedRowError if the row is not as the server wrote it */
export function authenticTenant({ storeKeys }: Services, row: TenantRow): TenantRow {
  return authentic(row, tenantMac, deriveRowKey(currentKey(openAuditKey(storeKeys, row))))
}

export type Reason = { reason?: string | undefined } // for the log; 1 to 255 characters

/** By the new status, the action of a change in the installation's log. */
const ACTIONS = {
  none: 'installation.tenant_update',
  active: 'installation.tenant_resume',
  suspended: 'installation.tenant_suspend',
  deleted: 'installation.tenant_delete',
  moving: 'installation.tenant_move',
  moved: 'installation.tenant_move',
} as const

/** Decides to change the tenant's row. The entry has the values before and after, and `metadata`. */
export function changeTenant(
  { state: { tenant, rowKey }, caller, services }: Context,
  changes: Partial<TenantRow>,
  metadata: NonNullable<EntryNote['metadata']> = {},
): Decision<OperatorTenant> {
  assertRecordable(services)
  const { tenant_id } = tenant
  const { status, envelope_only } = { ...tenant, ...changes } // in each entry, because a purge may delete the one before
  const changed = recordChanges(tenant, changes)
  const recorded = { ...metadata, status, envelope_only, ...changed, replaces: tenant.entry_id }
  return decision({
    entries: [{ action: 'tenant.update', metadata: recorded }],
    async change(sql, { entry_id, entry_hash }) {
      const row: TenantRow = withMac({ ...tenant, ...changes, entry_id }, tenantMac, rowKey)
      assertWritten(await updateRow(sql, row), row)
      const action = ACTIONS[changes.status ?? 'none']
      const named = { entry_id, entry_hash: encodeHex(entry_hash) } // another entry must not replace it
      const note = { action, metadata: { tenant_id, ...named, ...metadata, ...changed } }
      const installationHead = await recordForInstallation(services, sql, caller, [note])
      return { tenant: row, installationHead }
    },
    release: (written) => viewForOperator(written.tenant),
  })
}

export type OperatorTenant = wire.Tenant & Pick<TenantRow, 'status'> & { moved_to?: MovedTo }

export function viewForOperator(row: TenantRow): OperatorTenant {
  return { ...viewTenant(row), status: row.status }
}

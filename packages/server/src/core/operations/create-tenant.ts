/**
 * Creates a tenant with its audit key, its chain and its first API key. Called by the operator.
 */

import { randomUUID } from 'node:crypto'
import { INSTALLATION_ID, PERMISSIONS } from '@eaas/protocol'
import { lockInstallationHead, recordForInstallation } from '../../guard/installation-log.js'
import { recordGrant } from '../api/api-key-grants.js'
import { newApiKey } from '../api/api-keys.js'
import { appendToLocked } from '../audit/append/send-appends.js'
import { openAuditKey } from '../audit/audit-key.js'
import { currentKey, extendChain, genesisHead, type Head } from '../audit/formats/chain.js'
import { apiKeyMac, tenantMac, withMac } from '../audit/formats/row-mac.js'
import { deriveRowKey, sealNewSecret } from '../crypto/key-hierarchy.js'
import type { Caller, Services } from '../runner/operation.js'
import { draftEntry, systemCaller } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { type ApiKeyRow, insertApiKey } from '../store/api-keys.js'
import { insertHead } from '../store/audit.js'
import type { Transaction } from '../store/db.js'
import { withDeadline } from '../store/deadline.js'
import { findTenantByName, hasTenants, insertTenant } from '../store/tenants.js'

/** How long the database may take to create a tenant, in milliseconds. */
export const CREATE_DEADLINE_MS = 10_000

export interface NewTenant {
  tenant_id: string
  name: string
  envelope_only: boolean
  created_at: string
  api_key: { id: string; name: string; prefix: string; permissions: string[]; created_at: string; secret: string }
}

type Creating = Pick<Services, 'storeKeys' | 'peppers' | 'now' | 'committer' | 'installationKey' | 'actor'>

export interface TenantOptions {
  name: string
  envelope_only: boolean
}

/**
 * Creates a tenant in one transaction; its first API key holds every permission, and the secret is shown only here.
 *
 * @throws Refusal E_NAME_TAKEN
 * @throws DatabaseDeadlineError if the database does not acknowledge it in time; it may exist then
 */
export async function createTenant(
  services: Creating & Pick<Services, 'sql'>,
  options: TenantOptions,
  caller = systemCaller(services),
): Promise<NewTenant> {
  // One at a time: the name is checked before it is inserted.
  const created = services.sql.begin(async (sql) => {
    await lockInstallationHead(services, sql)
    return insertAll(services, sql, options, caller)
  })
  // A commit that is acknowledged too late is witnessed too.
  const witnessing = created.then((tenant) => witnessed(services, tenant))
  return withDeadline(witnessing, CREATE_DEADLINE_MS)
}

/**
 * Creates a tenant as `createTenant` does, unless there is one already: of several servers that start on a new
 * database, only one creates it.
 */
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

interface Created {
  tenant: NewTenant
  /** of the tenant's log and of the installation's */
  heads: { own: Head; installation: Head }
}

// Only after the commit: a head that was rolled back would seem lost.
function witnessed({ committer: { watches } }: Creating, { tenant, heads }: Created): NewTenant {
  watches.get(tenant.tenant_id).commit(heads.own)
  watches.get(INSTALLATION_ID).commit(heads.installation)
  return tenant
}

async function insertAll(
  services: Creating,
  sql: Transaction,
  { name, envelope_only }: TenantOptions,
  caller: Caller,
): Promise<Created> {
  if (await findTenantByName(sql, name))
    throw new Refusal(
      'E_NAME_TAKEN',
      `a tenant named ${name} already exists, perhaps as a deleted one: choose another name`,
    )
  const tenant_id = randomUUID()
  const wrapped_audit_key = sealNewSecret(services.storeKeys, { purpose: 'audit-key', tenant_id })
  const auditKey = openAuditKey(services.storeKeys, { tenant_id, wrapped_audit_key })
  const rowKey = deriveRowKey(currentKey(auditKey))

  const { secret, row } = newApiKey(services, {
    tenant_id,
    name: 'first key',
    permissions: [...PERMISSIONS],
    allowed_ips: [],
    keys: null,
    budgets: null,
    expires_at: null,
  })
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
  await insertTenant(
    sql,
    withMac(
      {
        tenant_id,
        name,
        envelope_only,
        monthly_encrypt_quota: null,
        plaintext_encoding: 'utf8',
        status: 'active',
        wrapped_audit_key,
        created_at,
        entry_id,
      },
      tenantMac,
      rowKey,
    ),
  )
  await insertHead(sql, genesis)
  await insertApiKey(sql, apiKey)
  await appendToLocked(sql, clock, { previous: genesis, next: head, entries, time: now })
  const installation = await recordForInstallation(services, sql, caller, [
    { action: 'installation.tenant_create', metadata: { tenant_id, name, envelope_only } },
  ])
  const { name: apiKeyName, prefix, permissions } = apiKey
  const tenant: NewTenant = {
    tenant_id,
    name,
    envelope_only,
    created_at,
    api_key: { id: api_key_id, name: apiKeyName, prefix, permissions, created_at, secret },
  }
  return { tenant, heads: { own: head, installation } }
}

/** What the operations on a tenant share: its changes, and its views for the API and for its operator. */
import { encodeHex, isUuid, type wire } from '@eaas/protocol'
import { assertRecordable, recordForInstallation } from '../../../guard/installation-log.js'
import { openAuditKey } from '../../audit/audit-key.js'
import { currentKey } from '../../audit/formats/chain.js'
import { assertWritten, authentic, tenantMac, withMac } from '../../audit/formats/row-mac.js'
import { deriveRowKey } from '../../crypto/key-hierarchy.js'
import {
  type Context,
  type Decision,
  decision,
  type EntryNote,
  recordChanges,
  type Services,
} from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'
import { type TenantRow, updateTenant } from '../../store/tenants.js'

/** A tenant as its operator sees it. */
export type OperatorTenant = wire.Tenant & Pick<TenantRow, 'status'>

/** Why a tenant is changed. */
export interface Reason {
  /** for the log; 1 to 255 characters */
  reason?: string | undefined
}

/** Returns the row of a tenant. @throws TamperedRowError if it is not as the server wrote it */
export function authenticTenant({ storeKeys }: Services, row: TenantRow): TenantRow {
  return authentic(row, tenantMac, deriveRowKey(currentKey(openAuditKey(storeKeys, row))))
}

/**
 * What is wrong with a tenant's name: one that is a UUID could be mistaken for another tenant's id, and invisible
 * characters cannot be told apart.
 */
export function findNameFault(name: string): string | undefined {
  if (isUuid(name.toLowerCase())) return "must not be a UUID, which commands would take for a tenant's id"
  if (/\p{Cc}/u.test(name) || name.trim() === '') return 'must have no control characters, and must not be blank'
  return undefined
}

/** @throws Refusal E_STATE if the tenant is deleted: nothing can be created or set in it any more */
export function assertNotDeleted({ tenant }: TenantState): void {
  if (tenant.status === 'deleted') throw new Refusal('E_STATE', `tenant ${tenant.name} is deleted, and that is final`)
}

/** What the installation's log calls a change, by the new status. */
const ACTIONS = {
  none: 'installation.tenant_update',
  active: 'installation.tenant_resume',
  suspended: 'installation.tenant_suspend',
  deleted: 'installation.tenant_delete',
} as const

/**
 * Decides to change the tenant's row, and to answer with the changed tenant. The entry has the values before
 * and after, and `metadata`.
 */
export function changeTenant(
  { state: { tenant, rowKey }, caller, services }: Context,
  changes: Partial<TenantRow>,
  metadata: NonNullable<EntryNote['metadata']> = {},
): Decision<OperatorTenant> {
  assertRecordable(services)
  const { tenant_id } = tenant
  const { status, envelope_only } = { ...tenant, ...changes } // stated by each entry, because a purge may take the one before
  return decision({
    entries: [
      {
        action: 'tenant.update',
        metadata: { ...metadata, status, envelope_only, ...recordChanges(tenant, changes), replaces: tenant.entry_id },
      },
    ],
    async change(sql, { entry_id, entry_hash }) {
      const row: TenantRow = withMac({ ...tenant, ...changes, entry_id }, tenantMac, rowKey)
      assertWritten(await updateTenant(sql, row), row)
      const action = ACTIONS[changes.status ?? 'none']
      const named = { entry_id, entry_hash: encodeHex(entry_hash) } // another entry must not replace it
      const recorded = { tenant_id, ...named, ...metadata, ...recordChanges(tenant, changes) }
      const installationHead = await recordForInstallation(services, sql, caller, [{ action, metadata: recorded }])
      return { tenant: row, installationHead }
    },
    release: (written) => viewForOperator(written.tenant),
  })
}

/** The tenant as its operator sees it. */
export function viewForOperator(row: TenantRow): OperatorTenant {
  return { ...viewTenant(row), status: row.status }
}

/** The tenant as the API shows it. */
export function viewTenant(row: TenantRow): wire.Tenant {
  const { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota, plaintext_encoding } = row
  const shown = { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota }
  return plaintext_encoding === 'utf8' ? shown : { ...shown, plaintext_encoding }
}

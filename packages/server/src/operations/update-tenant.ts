/** tenant.update: the operator changes a tenant's settings; what changed stands in the tenant's own log. */
import type { wire } from '@eaas/protocol'
import { demandWritten, sealRow, tenantMac } from '../audit/row-mac.js'
import { type TenantRow, updateTenant as updateRow } from '../store/tenants.js'
import type { Operation } from './operation.js'

export interface TenantChanges {
  envelope_only?: boolean
  /** null is no quota */
  monthly_encrypt_quota?: number | null
  /** how server mode takes a plaintext where the call does not say */
  plaintext_encoding?: wire.PlaintextEncoding
}

/** Changes what is given and differs; returns the tenant. */
export function updateTenant(changes: TenantChanges): Operation<wire.Tenant> {
  return async ({ state }) => {
    let row: TenantRow = state.tenant
    const changed = Object.fromEntries(
      Object.entries(changes).filter(
        ([name, value]) => value !== undefined && value !== row[name as keyof TenantChanges],
      ),
    )
    if (Object.keys(changed).length === 0) return { entries: [], release: () => viewTenant(row) }
    return {
      entries: [{ action: 'tenant.update', metadata: changed }],
      async change(sql, { entry_id }) {
        row = sealRow({ ...state.tenant, ...changed, entry_id }, tenantMac, state.rowKey)
        demandWritten(await updateRow(sql, row), row)
        return { tenant: row }
      },
      release: () => viewTenant(row),
    }
  }
}

/** A tenant as the API shows it. */
export function viewTenant(row: TenantRow): wire.Tenant {
  const { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota, plaintext_encoding } = row
  const shown = { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota }
  return plaintext_encoding === 'utf8' ? shown : { ...shown, plaintext_encoding }
}

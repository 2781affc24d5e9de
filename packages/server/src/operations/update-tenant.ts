/** tenant.update: the operator changes a tenant's settings; what changed stands in the tenant's own log. */
import type { wire } from '@eaas/protocol'
import { assertWritten, tenantMac, withMac } from '../audit/row-mac.js'
import type { Decision, EntryNote, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { type TenantRow, updateTenant as updateRow } from '../store/tenants.js'

export interface TenantChanges {
  envelope_only?: boolean
  /** null is no quota */
  monthly_encrypt_quota?: number | null
  /** how server mode takes a plaintext where the call does not say */
  plaintext_encoding?: wire.PlaintextEncoding
}

/** A tenant as its operator sees it. */
export type OperatorTenant = wire.Tenant & Pick<TenantRow, 'status'>

/** Changes what is given and differs; returns the tenant. @throws Refusal E_STATE */
export function updateTenant(changes: TenantChanges): Operation<OperatorTenant> {
  return async ({ state }) => {
    assertNotDeleted(state)
    const { tenant } = state
    const changed = Object.fromEntries(
      Object.entries(changes).filter(
        ([name, value]) => value !== undefined && value !== tenant[name as keyof TenantChanges],
      ),
    )
    if (Object.keys(changed).length === 0) return { entries: [], release: () => viewForOperator(tenant) }
    return changeTenant(state, changed, changed)
  }
}

/** The change of a tenant's row, and the entry that tells of it. */
export function changeTenant(
  state: TenantState,
  changes: Partial<TenantRow>,
  metadata: NonNullable<EntryNote['metadata']>,
): Decision<OperatorTenant> {
  let row: TenantRow
  return {
    entries: [{ action: 'tenant.update', metadata }],
    async change(sql, { entry_id }) {
      row = withMac({ ...state.tenant, ...changes, entry_id }, tenantMac, state.rowKey)
      assertWritten(await updateRow(sql, row), row)
      return { tenant: row }
    },
    release: () => viewForOperator(row),
  }
}

/** @throws Refusal E_STATE where the tenant is deleted: nothing is made or set in it any more */
export function assertNotDeleted({ tenant }: TenantState): void {
  if (tenant.status === 'deleted') throw new Refusal('E_STATE', `tenant ${tenant.name} is deleted, and that is final`)
}

/** A tenant as its operator sees it. */
export function viewForOperator(row: TenantRow): OperatorTenant {
  return { ...viewTenant(row), status: row.status }
}

/** A tenant as the API shows it. */
export function viewTenant(row: TenantRow): wire.Tenant {
  const { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota, plaintext_encoding } = row
  const shown = { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota }
  return plaintext_encoding === 'utf8' ? shown : { ...shown, plaintext_encoding }
}

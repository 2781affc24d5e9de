/** tenant.update: the operator changes a tenant's settings; the tenant's own log records the change. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { assertNotDeleted, changeTenant, type OperatorTenant, viewForOperator } from './shared/tenant.js'

export interface TenantChanges {
  envelope_only?: boolean | undefined
  /** null means no quota */
  monthly_encrypt_quota?: number | null | undefined
  /** how server mode reads a plaintext if the call does not say */
  plaintext_encoding?: wire.PlaintextEncoding | undefined
}

/** Changes the settings that are given and differ; returns the tenant. @throws Refusal E_STATE */
export function updateTenant(changes: TenantChanges): Operation<OperatorTenant> {
  return async (context) => {
    const { state } = context
    assertNotDeleted(state)
    const { tenant } = state
    const changed = Object.fromEntries(
      Object.entries(changes).filter(
        ([name, value]) => value !== undefined && value !== tenant[name as keyof TenantChanges],
      ),
    )
    if (Object.keys(changed).length === 0) return { entries: [], release: () => viewForOperator(tenant) }
    return changeTenant(context, changed)
  }
}

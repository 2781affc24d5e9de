/** Reads the tenant's settings. Writes no entry. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { type OperatorTenant, viewForOperator, viewTenant } from './shared/tenant.js'

/** Reads the tenant's settings. */
export function readTenant(): Operation<wire.Tenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewTenant(tenant) })
}

/** Reads the tenant as its operator sees it. */
export function readTenantForOperator(): Operation<OperatorTenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewForOperator(tenant) })
}

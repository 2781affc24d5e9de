/** Reading the tenant: its settings, and what it used in a month. No entry. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { countMonth } from '../store/audit.js'
import { type OperatorTenant, viewForOperator, viewTenant } from './update-tenant.js'

/** Reads the tenant's settings. */
export function readTenant(): Operation<wire.Tenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewTenant(tenant) })
}

/** Reads the tenant as its operator sees it. */
export function readTenantForOperator(): Operation<OperatorTenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewForOperator(tenant) })
}

/** Counts what the tenant did in a month, `YYYY-MM` in UTC; the running one by default. */
export function readUsage({ month }: { month?: string | undefined }): Operation<wire.Usage> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const asked = month ?? new Date(services.now()).toISOString().slice(0, 7)
      const counts = await countMonth(services.sql, state.tenant.tenant_id, asked)
      return { month: asked, operations: Object.fromEntries(counts.map(({ action, entries }) => [action, entries])) }
    },
  })
}

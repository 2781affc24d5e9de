/** Reads the tenant's settings, and what it used. Writes no entry. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { countMonth } from '../store/audit.js'
import { listUnrecordedCalls } from '../store/unrecorded-calls.js'
import { type OperatorTenant, viewForOperator, viewTenant } from './shared/tenant.js'

/** Reads the tenant's settings. */
export function readTenant(): Operation<wire.Tenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewTenant(tenant) })
}

/** Reads the tenant as its operator sees it. */
export function readTenantForOperator(): Operation<OperatorTenant> {
  return async ({ state: { tenant } }) => ({ entries: [], release: () => viewForOperator(tenant) })
}

/**
 * Counts the tenant's entries by action in a month, `YYYY-MM` in UTC, and lists the calls without an entry;
 * the current one by default. Other processes write the latter within some seconds.
 */
export function readUsage({ month }: { month?: string | undefined }): Operation<wire.Usage> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const counted = month ?? new Date(services.now()).toISOString().slice(0, 7)
      const { tenant_id } = state.tenant
      await services.unrecordedCalls.flush().catch(() => undefined) // the periodic flush logs the error; what was counted is kept
      const counts = await countMonth(services.sql, tenant_id, counted)
      return {
        month: counted,
        operations: Object.fromEntries(counts.map(({ action, entries }) => [action, entries])),
        unrecorded: await listUnrecordedCalls(services.sql, tenant_id, counted),
      }
    },
  })
}

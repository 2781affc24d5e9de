/** Reads the tenant's settings, and what it used. Writes no entry. */
import { MAX_LISTED_COUNTS, type wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { listApiKeyUsage } from '../store/api-key-usage.js'
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
 * Counts the tenant's entries by action in a month, `YYYY-MM` in UTC, the current one by default; lists the calls
 * without an entry, which other processes write within some seconds, and what each API key does today. All of the tenant,
 * as the log: whatever keys the caller is limited to.
 */
export function readUsage({ month }: { month?: string | undefined }): Operation<wire.Usage> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const day = new Date(services.now()).toISOString().slice(0, 10)
      const counted = month ?? day.slice(0, 7)
      const { tenant_id } = state.tenant
      await services.unrecordedCalls.flush().catch(() => undefined) // the periodic flush logs the error; what was counted is kept
      const counts = await countMonth(services.sql, tenant_id, counted)
      const usage = await listApiKeyUsage(services.sql, { tenant_id, day, limit: MAX_LISTED_COUNTS })
      return {
        month: counted,
        operations: Object.fromEntries(counts.map(({ action, entries }) => [action, entries])),
        unrecorded: await listUnrecordedCalls(services.sql, tenant_id, counted),
        by_api_key: usage.map(({ tenant_id: _, ...one }) => one),
      }
    },
  })
}

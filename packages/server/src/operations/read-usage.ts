/** Reads what the tenant used in a month. Writes no entry. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { countMonth } from '../store/audit.js'

/** Counts the tenant's entries by action in a month, `YYYY-MM` in UTC; the current one by default. */
export function readUsage({ month }: { month?: string | undefined }): Operation<wire.Usage> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const counted = month ?? new Date(services.now()).toISOString().slice(0, 7)
      const counts = await countMonth(services.sql, state.tenant.tenant_id, counted)
      return { month: counted, operations: Object.fromEntries(counts.map(({ action, entries }) => [action, entries])) }
    },
  })
}

/** Lists audit entries. Writes no entry. */
import type { wire } from '@eaas/protocol'
import type { AuditEntry } from '../audit/chain.js'
import type { Operation } from '../runner/operation.js'
import { type EntryFilter, listEntries, type Page } from '../store/audit-list.js'

/** Lists entries, newest first unless the page says otherwise, with the exact number of all that match. */
export function listAudit(filter: EntryFilter, page: Page): Operation<wire.EntryList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const { tenant, purged_through } = state
      const { entries, total } = await listEntries(
        services.sql,
        { tenant_id: tenant.tenant_id, purged_through },
        filter,
        page,
      )
      const logs = entries.map(viewEntry)
      return { logs, count: logs.length, total, limit: page.limit, offset: page.offset }
    },
  })
}

// Clients read the version in the metadata too. It is stored once, in its column.
function viewEntry({ metadata, ...entry }: AuditEntry): wire.Entry {
  const stored = metadata === null ? {} : (JSON.parse(metadata) as Record<string, unknown>)
  const { key_version } = entry
  return { ...entry, metadata: { ...stored, ...(key_version === null ? {} : { key_version }) } }
}

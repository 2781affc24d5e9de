/** Lists audit entries. Writes no entry. */
import type { wire } from '@eaas/protocol'
import { assertListed } from '../audit/listed-entries.js'
import type { Operation } from '../runner/operation.js'
import { type EntryFilter, type ListedEntry, listEntries, type Page } from '../store/audit-list.js'

/**
 * Lists entries, newest first unless the page says otherwise, with the exact number of all that match.
 *
 * @throws TamperedEntryError if an entry of the page is not as the server wrote it
 */
export function listAudit(filter: EntryFilter, page: Page): Operation<wire.EntryList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const { tenant, purged_through, auditKey } = state
      const { entries, total, range } = await listEntries(
        services.sql,
        { tenant_id: tenant.tenant_id, purged_through },
        filter,
        page,
      )
      assertListed(entries, { tenant_id: tenant.tenant_id, auditKey, range })
      const logs = entries.map(viewEntry)
      return { logs, count: logs.length, total, limit: page.limit, offset: page.offset }
    },
  })
}

// Clients read the version in the metadata too. It is stored once, in its column.
function viewEntry({ metadata, hash: _, mac: __, previous_hash: ___, ...entry }: ListedEntry): wire.Entry {
  const stored = metadata === null ? {} : (JSON.parse(metadata) as Record<string, unknown>)
  const { key_version } = entry
  return { ...entry, metadata: { ...stored, ...(key_version === null ? {} : { key_version }) } }
}

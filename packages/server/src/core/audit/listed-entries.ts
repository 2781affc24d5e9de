/** Proves entries before they are shown or signed: the server wrote each, and each follows from the one before. */
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { createStretches } from '../event-loop.js'
import { readChain } from '../store/audit.js'
import type { ListedEntry } from '../store/audit-list.js'
import type { Queryable } from '../store/db.js'
import type { Range } from '../store/entry-indexes.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { type AuditKey, entryMac, equalBytes, type Head, type Witness } from './formats/chain.js'

const PAGE_ENTRIES = 1_000

/** Names the first entry of a page, or the one before it, that is not as the server wrote it. */
export class TamperedEntryError extends TamperedRowError {
  override readonly name = 'TamperedEntryError'

  constructor(
    tenant_id: string,
    readonly entry_id: number,
    what: 'missing' | 'not as the server wrote it' = 'not as the server wrote it',
  ) {
    super(`entry ${entry_id} of the audit log of tenant ${tenant_id} is ${what}`)
  }
}

/** Checks that the entries follow, in order, the entry with this hash. @throws TamperedEntryError */
export function assertFollowing(
  entries: readonly ChainedEntry[],
  { tenant_id, auditKey, hash: last }: { tenant_id: string; auditKey: AuditKey; hash: Uint8Array },
): void {
  let previous = last
  for (const entry of entries) {
    if (isForged(entry, { previous, auditKey })) throw new TamperedEntryError(tenant_id, entry.id)
    previous = entry.hash
  }
}

/**
 * The hash before an entry needs no proof of its own: with another one, the entry's hash would not match its MAC.
 * @throws TamperedEntryError if an entry was changed, or one of `range` is missing
 */
export function assertListed(
  entries: readonly ListedEntry[],
  { tenant_id, auditKey, range }: { tenant_id: string; auditKey: AuditKey; range: Range | undefined },
): void {
  const ordered = [...entries].sort((a, b) => a.id - b.id)
  for (const [at, entry] of ordered.entries()) {
    const { id } = entry
    if (range && id !== range.after_id + 1 + at)
      throw new TamperedEntryError(tenant_id, range.after_id + 1 + at, 'missing')
    const previous = id === 1 ? genesisHash(tenant_id) : entry.previous_hash
    if (!previous) throw new TamperedEntryError(tenant_id, id - 1, 'missing')
    if (isForged(entry, { previous, auditKey })) throw new TamperedEntryError(tenant_id, id)
  }
  if (!range) return
  const last_id = range.after_id + ordered.length
  if (last_id < range.through_id) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
}

/**
 * Checks, before a statement that names an entry and an authentic head is signed, that the entries between lead from
 * one to the other. A MAC proves less: an attacker can show, for a moment, an entry from another history of the log.
 * @throws TamperedEntryError if they do not lead there, and the signal's reason once it is aborted
 */
export async function assertLeadsToHead(
  sql: Queryable,
  leading: {
    from: Pick<Witness, 'last_id' | 'hash'>
    head: Head
    signal?: AbortSignal
    /** reads a page once the read is admitted */
    whenAdmitted?: <Page>(read: () => Promise<Page>) => Promise<Page>
  },
): Promise<void> {
  const { head, signal, whenAdmitted = (read) => read() } = leading
  const { tenant_id } = head
  const pause = createStretches()
  let { last_id, hash } = leading.from
  while (last_id < head.last_id) {
    signal?.throwIfAborted()
    const where = { tenant_id, after_id: last_id, through_id: head.last_id, limit: PAGE_ENTRIES }
    const page = await whenAdmitted(() => readChain(sql, where))
    if (page.length === 0) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
    for (const entry of page) {
      if (entry.id !== last_id + 1) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
      hash = entryHash(hash, entry)
      if (!equalBytes(entry.hash, hash)) throw new TamperedEntryError(tenant_id, entry.id)
      last_id = entry.id
      const due = pause()
      if (due) await due
    }
  }
  if (last_id !== head.last_id || !equalBytes(hash, head.hash)) throw new TamperedEntryError(tenant_id, head.last_id)
}

function isForged(entry: ChainedEntry, { previous, auditKey }: { previous: Uint8Array; auditKey: AuditKey }): boolean {
  const hash = entryHash(previous, entry)
  return !equalBytes(entry.hash, hash) || !equalBytes(entry.mac, entryMac(auditKey, entry.id, hash))
}

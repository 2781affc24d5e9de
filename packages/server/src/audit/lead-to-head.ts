/**
 * Proves that the entries of a log lead from one of them to the head, before a statement is signed that names
 * both. The MAC of an entry proves only that a server wrote it: that can have been in another history of the
 * log, whose entries somebody shows for a moment.
 */
import { entryHash } from '@eaas/audit'
import { createStretches } from '../event-loop.js'
import { readChain } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { equalBytes, type Head, type Witness } from './formats/chain.js'
import { TamperedEntryError } from './listed-entries.js'

const PAGE_ENTRIES = 1_000

/**
 * Computes the hashes from an entry to an authentic head, a page of entries at a time.
 *
 * @throws TamperedEntryError if the entries do not lead there, and the signal's reason once it is aborted
 */
export async function assertLeadsToHead(
  sql: Queryable,
  {
    from,
    head,
    signal,
    inTurn = (read) => read(),
  }: {
    from: Pick<Witness, 'last_id' | 'hash'>
    head: Head
    signal?: AbortSignal
    /** reads a page when it is its turn; by default at once */
    inTurn?: <Page>(read: () => Promise<Page>) => Promise<Page>
  },
): Promise<void> {
  const { tenant_id } = head
  const pause = createStretches()
  let { last_id, hash } = from
  while (last_id < head.last_id) {
    signal?.throwIfAborted()
    const where = { tenant_id, after_id: last_id, through_id: head.last_id, limit: PAGE_ENTRIES }
    const page = await inTurn(() => readChain(sql, where))
    if (page.length === 0) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
    for (const entry of page) {
      if (entry.id !== last_id + 1) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
      hash = entryHash(hash, entry)
      if (!equalBytes(entry.hash, hash)) throw new TamperedEntryError(tenant_id, entry.id, 'not as the server wrote it')
      last_id = entry.id
      const due = pause()
      if (due) await due
    }
  }
  if (last_id !== head.last_id || !equalBytes(hash, head.hash))
    throw new TamperedEntryError(tenant_id, head.last_id, 'not as the server wrote it')
}

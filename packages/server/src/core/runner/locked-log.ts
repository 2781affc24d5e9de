/** Extends a log without the committer, under the lock of its head, by work that has no deadline. */
import { untilFollowed } from '../audit/append-errors.js'
import type { AuditKey, Head } from '../audit/formats/chain.js'
import { lockHead } from '../store/audit.js'
import type { Transaction } from '../store/db.js'
import { withoutDeadlines } from '../store/deadline.js'
import type { Services } from './operation.js'

/**
 * Runs `work`, which may take long, in a transaction that has locked the head of a log. It gets that head and returns
 * the one that it wrote, or undefined if it wrote none. However many entries others wrote meanwhile, the log is followed
 * to its end first.
 *
 * @throws ChainAlarmError, or what `work` throws
 */
export async function extendLocked(
  { sql, committer }: Pick<Services, 'sql' | 'committer'>,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
  work: (transaction: Transaction, previous: Head) => Promise<Head | undefined>,
): Promise<Head | undefined> {
  const watch = committer.watches.get(tenant_id)
  const next = await untilFollowed(() =>
    withoutDeadlines(sql).begin(async (transaction) =>
      work(transaction, await watch.read(transaction, auditKey, lockHead)),
    ),
  )
  if (next) watch.commit(next)
  return next
}

/**
 * Accepts that a clock was ahead when it dated the last entries of logs, so that these logs continue at the present
 * time. Called by the operator; has no route.
 */
import { INSTALLATION_ID } from '@eaas/protocol'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { extendByAcceptedClock } from '../../core/audit/formats/chain.js'
import { draftEntry } from '../../core/runner/entry-drafts.js'
import { extendLocked } from '../../core/runner/locked-log.js'
import type { Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { listHeads } from '../../core/store/audit.js'

/** A log whose last entry is in the future. */
export interface LogAhead {
  tenant_id: string
  last_id: number
  /** the time of that entry */
  ahead_until: string
}

/**
 * Lists the logs whose last entry is in the future, the furthest first; the rows are not authenticated here.
 */
export async function listLogsAhead({ sql, committer }: Services): Promise<LogAhead[]> {
  const heads = (await listHeads(sql)).filter((head) => committer.clock.isAhead(head))
  return heads
    .map(({ tenant_id, last_id, created_at }) => ({ tenant_id, last_id, ahead_until: created_at }))
    .sort((a, b) => (a.ahead_until < b.ahead_until ? 1 : -1))
}

/**
 * Appends an entry `audit.clock_accepted` to a log that is ahead; no other entry may have an earlier time than the one
 * before it (chain.md 4). Returns its id; undefined if the log is no longer ahead. Changes no right and deletes
 * nothing.
 *
 * @throws Refusal E_NOT_FOUND, ChainAlarmError while there is an alarm about the log, WrongClockError
 */
export async function acceptClock(services: Services, tenant_id: string, reason: string): Promise<number | undefined> {
  const { clock } = services.committer
  const isOwn = tenant_id === INSTALLATION_ID
  const auditKey = isOwn ? services.installationKey : (await services.states.find(tenant_id))?.auditKey
  if (!auditKey) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const next = await extendLocked(services, { tenant_id, auditKey }, async (sql, previous) => {
    if (!clock.isAhead(previous)) return undefined
    const time = clock.read()
    const metadata = { ahead_until: previous.created_at, reason }
    const draft = draftEntry({ action: 'audit.clock_accepted', metadata }, systemCaller(services))
    const { entries, head } = extendByAcceptedClock(previous, draft, { auditKey, now: time })
    await appendToLocked(sql, clock, { previous, next: head, entries, time })
    return head
  })
  return next?.last_id
}

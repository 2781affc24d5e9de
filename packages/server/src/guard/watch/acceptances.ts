/** Reads the rollbacks that operators accepted: entries that say after which entry a log lost others (chain.md 10). */
import type { AuditEntry } from '@eaas/audit/formats'
import type { AuditKey, KeptHead, Witness } from '../../core/audit/formats/chain.js'
import { findAuthenticMark, readAuthenticEntry } from '../../core/audit/read-entry.js'
import type { Queryable } from '../../core/store/db.js'
import { listAcceptanceIds } from '../store/alarms.js'
import { type AcceptedRollback, explains, explainsKept, readAcceptance } from './judge.js'

type Log = { tenant_id: string; auditKey: AuditKey }

/** Newest first, with the ids of their entries. Skips entries that no server wrote. */
async function* readAcceptances(sql: Queryable, log: Log): AsyncGenerator<AcceptedRollback & { id: number }, void> {
  for (const id of await listAcceptanceIds(sql, log.tenant_id)) {
    const entry = await readAfterPurge(sql, { ...log, id })
    const accepted = entry && readAcceptance(entry)
    if (accepted) yield { ...accepted, id }
  }
}

async function listAcceptances(sql: Queryable, log: Log): Promise<(AcceptedRollback & { id: number })[]> {
  const all: (AcceptedRollback & { id: number })[] = []
  for await (const accepted of readAcceptances(sql, log)) all.push(accepted)
  return all
}

export async function findAcceptedRollback(
  sql: Queryable,
  log: Log,
  witness: Witness,
): Promise<AcceptedRollback | undefined> {
  for await (const accepted of readAcceptances(sql, log)) if (explains(accepted, witness)) return accepted
  return undefined
}

/** The entry of the newest accepted rollback, and the policy version that began with it; 0 if there is none. */
export async function findNewestAcceptance(
  sql: Queryable,
  log: Log,
): Promise<Pick<AcceptedRollback, 'policy_version'> & { id: number }> {
  for await (const accepted of readAcceptances(sql, log)) return accepted
  return { id: 0, policy_version: 0 }
}

// If a purge deleted the entry before, its mark has that entry's hash.
async function readAfterPurge(sql: Queryable, where: Log & { id: number }): Promise<AuditEntry | undefined> {
  const mark = await findAuthenticMark(sql, where)
  return readAuthenticEntry(sql, where, mark?.purged_through === where.id - 1 ? mark.hash : undefined)
}

/**
 * Whether an operator accepted the loss of a kept head, by the entries up to `last_id`. An acceptance does not explain
 * an edited or deleted entry, so any entry within the log must be one that a server wrote.
 */
export function createAcceptedLosses(
  sql: Queryable,
  { last_id, ...log }: Log & { last_id: number },
): (kept: KeptHead) => Promise<boolean> {
  let reading: ReturnType<typeof listAcceptances> | undefined
  const isWritten = async (id: number) =>
    (await findAuthenticMark(sql, log))?.purged_through === id ||
    (await readAfterPurge(sql, { ...log, id })) !== undefined
  return async (kept) => {
    reading ??= listAcceptances(sql, log)
    const isExplained = (await reading).some((accepted) => accepted.id <= last_id && explainsKept(accepted, kept, log))
    return isExplained && (kept.last_id > last_id || isWritten(kept.last_id))
  }
}

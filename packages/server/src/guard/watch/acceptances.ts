/**
 * The rollbacks that an operator accepted: entries that say after which entry a log lost others (chain.md
 * 10).
 */
import type { AuditEntry } from '@eaas/audit/formats'
import { encodeHex } from '@eaas/protocol'
import * as z from 'zod/mini'
import { type AuditKey, isKeptHeadAuthentic, type KeptHead, type Witness } from '../../core/audit/formats/chain.js'
import { findAuthenticMark, readAuthenticEntry } from '../../core/audit/read-entry.js'
import type { Queryable } from '../../core/store/db.js'
import { listAcceptanceIds } from '../store/alarms.js'

const integer = z.int().check(z.gte(0))
const metadataSchema = z.looseObject({
  witnessed_id: integer,
  witnessed_hash: z.string(),
  agrees_through: integer,
  policy_version: integer,
  reason: z.string(),
  head_fault: z.optional(z.string()),
  named_id: z.optional(integer),
})

/** The metadata of such an entry. */
export type AcceptedRollback = z.infer<typeof metadataSchema>

/** A log, and the key that proves its entries. */
interface Log {
  tenant_id: string
  auditKey: AuditKey
}

/**
 * Reads a log's accepted rollbacks with the ids of their entries, newest first; skips what no server wrote.
 */
async function* readAcceptances(sql: Queryable, log: Log): AsyncGenerator<AcceptedRollback & { id: number }, void> {
  for (const id of await listAcceptanceIds(sql, log.tenant_id)) {
    const entry = await readAfterPurge(sql, { ...log, id })
    const accepted = entry && parseAcceptance(entry)
    if (accepted) yield { ...accepted, id }
  }
}

/**
 * Finds the accepted rollback that explains a witness: one that lost entries up to the witness or beyond it.
 * A head that was witnessed after the acceptance has a higher policy version, so the acceptance never
 * explains it.
 */
export async function findAcceptedRollback(
  sql: Queryable,
  log: Log,
  { last_id, policy_version }: Witness,
): Promise<AcceptedRollback | undefined> {
  for await (const accepted of readAcceptances(sql, log))
    if (policy_version < accepted.policy_version && last_id <= accepted.witnessed_id) return accepted
  return undefined
}

/**
 * Finds the entry of the newest accepted rollback, and the policy version that it began; 0 if there is none.
 */
export async function findNewestAcceptance(
  sql: Queryable,
  log: Log,
): Promise<Pick<AcceptedRollback, 'policy_version'> & { id: number }> {
  for await (const accepted of readAcceptances(sql, log)) return accepted
  return { id: 0, policy_version: 0 }
}

/**
 * Returns the policy version that an authentic entry began by accepting a rollback; 0 for any other entry.
 */
export function acceptedVersionOf(entry: Pick<AuditEntry, 'action' | 'metadata'>): number {
  return parseAcceptance(entry)?.policy_version ?? 0
}

function parseAcceptance({ action, metadata }: Pick<AuditEntry, 'action' | 'metadata'>): AcceptedRollback | undefined {
  if (action !== 'audit.rollback_accepted') return undefined
  return metadataSchema.safeParse(JSON.parse(metadata ?? '{}')).data
}

/**
 * Reads an entry that a server wrote. If a purge deleted the entry before it, the mark has that one's hash.
 */
async function readAfterPurge(sql: Queryable, where: Log & { id: number }): Promise<AuditEntry | undefined> {
  const mark = await findAuthenticMark(sql, where)
  return readAuthenticEntry(sql, where, mark?.purged_through === where.id - 1 ? mark.hash : undefined)
}

/**
 * Creates a function that tells whether an operator accepted the loss of a kept head that the log no longer
 * holds (chain.md 10), by the entries up to `last_id`.
 *
 * A later loss must not pass for an accepted one. So the head must be from before the acceptance: the MAC of
 * its policy version proves that, or it is the head that the acceptance names. If the log reaches the head's
 * id, a server must have written the entry there: the acceptance does not explain an edited or deleted entry.
 */
export function createAcceptedLosses(
  sql: Queryable,
  { last_id, ...log }: Log & { last_id: number },
): (kept: KeptHead) => Promise<boolean> {
  let reading: Promise<AcceptedRollback[]> | undefined
  const readAll = async () => {
    const all: AcceptedRollback[] = []
    for await (const accepted of readAcceptances(sql, log)) if (accepted.id <= last_id) all.push(accepted)
    return all
  }
  const isWritten = async (id: number) =>
    (await findAuthenticMark(sql, log))?.purged_through === id ||
    (await readAfterPurge(sql, { ...log, id })) !== undefined
  return async (kept) => {
    reading ??= readAll()
    const isProven = isKeptHeadAuthentic(log.auditKey, log.tenant_id, kept)
    const isExplained = (await reading).some(
      ({ witnessed_id, witnessed_hash, agrees_through, policy_version }) =>
        kept.last_id > agrees_through &&
        kept.last_id <= witnessed_id &&
        ((isProven && kept.policy_version < policy_version) ||
          (kept.last_id === witnessed_id && encodeHex(kept.hash) === witnessed_hash)),
    )
    return isExplained && (kept.last_id > last_id || isWritten(kept.last_id))
  }
}

/** Entries of action `audit.rollback_accepted`: an operator accepted that a log lost entries (chain.md 10). */
import type { KeyObject } from 'node:crypto'
import * as z from 'zod/mini'
import { listAcceptanceIds } from '../../store/alarms.js'
import { findLastMark } from '../../store/audit-purge.js'
import type { Queryable } from '../../store/db.js'
import { type AuditEntry, equalBytes, purgeMarkMac, type Witness } from '../formats/chain.js'
import { readAuthenticEntry } from '../read-entry.js'

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

/**
 * Finds the accepted rollback that a witness belongs to: one that lost entries up to the witness or beyond it. A head that was
 * witnessed after the rollback was accepted has a higher policy version and never belongs to it.
 */
export async function findAcceptedRollback(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: KeyObject },
  { last_id, policy_version }: Witness,
): Promise<AcceptedRollback | undefined> {
  for (const id of await listAcceptanceIds(sql, tenant_id)) {
    const accepted = await readAcceptance(sql, { tenant_id, auditKey, id })
    if (accepted && policy_version < accepted.policy_version && last_id <= accepted.witnessed_id) return accepted
  }
  return undefined
}

/** The id of the newest accepted rollback, 0 if there is none. */
export async function findNewestAcceptance(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: KeyObject },
): Promise<number> {
  for (const id of await listAcceptanceIds(sql, tenant_id)) {
    if (await readAcceptance(sql, { tenant_id, auditKey, id })) return id
  }
  return 0
}

/** The policy version from the newest accepted rollback on, 0 if there is none. */
export async function findAcceptedVersion(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: KeyObject },
): Promise<number> {
  const id = await findNewestAcceptance(sql, { tenant_id, auditKey })
  const accepted = id === 0 ? undefined : await readAcceptance(sql, { tenant_id, auditKey, id })
  return accepted?.policy_version ?? 0
}

/** The policy version from an authentic entry on, if it accepts a rollback; 0 of any other. */
export function acceptedVersionOf(entry: Pick<AuditEntry, 'action' | 'metadata'>): number {
  return parseAcceptance(entry)?.policy_version ?? 0
}

function parseAcceptance({ action, metadata }: Pick<AuditEntry, 'action' | 'metadata'>): AcceptedRollback | undefined {
  if (action !== 'audit.rollback_accepted') return undefined
  return metadataSchema.safeParse(JSON.parse(metadata ?? '{}')).data
}

async function readAcceptance(
  sql: Queryable,
  where: { tenant_id: string; auditKey: KeyObject; id: number },
): Promise<AcceptedRollback | undefined> {
  const mark = await findLastMark(sql, where.tenant_id)
  const isBeforeIt = mark?.purged_through === where.id - 1 && equalBytes(mark.mac, purgeMarkMac(where.auditKey, mark))
  const entry = await readAuthenticEntry(sql, where, isBeforeIt ? mark.hash : undefined)
  return entry && parseAcceptance(entry)
}

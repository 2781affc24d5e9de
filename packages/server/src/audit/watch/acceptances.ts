/**
 * What an operator accepted, by entries: that a log lost entries (chain.md 10), and how the tables differ
 * from what the migrations make (anchor.md 2).
 */
import type { KeyObject } from 'node:crypto'
import type { AuditEntry } from '@eaas/audit'
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import * as z from 'zod/mini'
import { listAcceptanceIds } from '../../store/alarms.js'
import { findLastMark } from '../../store/audit-purge.js'
import type { Queryable } from '../../store/db.js'
import type { SchemaDifferences } from '../../store/schema.js'
import {
  isKeptHeadAuthentic,
  isPurgeMarkAuthentic,
  type KeptHead,
  type PurgeMark,
  type Witness,
} from '../formats/chain.js'
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
 * Finds the accepted rollback that a witness belongs to: one that lost entries up to the witness or beyond
 * it. A head that was witnessed after the rollback was accepted has a higher policy version and never belongs
 * to it.
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

async function readAcceptance(sql: Queryable, where: EntryOf): Promise<AcceptedRollback | undefined> {
  const entry = await readAfter(sql, where, await findMark(sql, where))
  return entry && parseAcceptance(entry)
}

/** Reads an entry that a server wrote; the mark has the hash of the one before it if a purge took that. */
function readAfter(sql: Queryable, where: EntryOf, mark: PurgeMark | undefined): Promise<AuditEntry | undefined> {
  return readAuthenticEntry(sql, where, mark?.purged_through === where.id - 1 ? mark.hash : undefined)
}

interface EntryOf {
  tenant_id: string
  auditKey: KeyObject
  id: number
}

/** The last purge mark, if a server wrote it. */
async function findMark(sql: Queryable, { tenant_id, auditKey }: Omit<EntryOf, 'id'>): Promise<PurgeMark | undefined> {
  const mark = await findLastMark(sql, tenant_id)
  return mark && isPurgeMarkAuthentic(auditKey, mark) ? mark : undefined
}

/**
 * Creates what tells of a kept head that the log does not hold whether an operator accepted that loss
 * (chain.md 10), by the entries up to `last_id`.
 *
 * A later loss must not pass for an accepted one, so the head must be proven to be of before the acceptance:
 * by the MAC of its policy version, or because it is the one that was witnessed then. Where the log reaches
 * its id, the entry there must be one that a server wrote: the acceptance does not explain one that was
 * edited or deleted.
 */
export function createAcceptedLosses(
  sql: Queryable,
  { tenant_id, auditKey, last_id }: { tenant_id: string; auditKey: KeyObject; last_id: number },
): (kept: KeptHead) => Promise<boolean> {
  let reading: Promise<AcceptedRollback[]> | undefined
  const readAll = async () => {
    const ids = (await listAcceptanceIds(sql, tenant_id)).filter((id) => id <= last_id)
    const all: AcceptedRollback[] = []
    for (const id of ids) {
      const accepted = await readAcceptance(sql, { tenant_id, auditKey, id })
      if (accepted) all.push(accepted)
    }
    return all
  }
  const isWritten = async (id: number) => {
    const mark = await findMark(sql, { tenant_id, auditKey })
    return mark?.purged_through === id || (await readAfter(sql, { tenant_id, auditKey, id }, mark)) !== undefined
  }
  return async (kept) => {
    reading ??= readAll()
    const isProven = isKeptHeadAuthentic(auditKey, tenant_id, kept)
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

export const SCHEMA_ACCEPTED = 'installation.schema_accepted'

const schemaMetadata = z.looseObject({ digest: z.string(), reason: z.string() })

/** Who accepted the differences, when and why. */
export interface AcceptedSchema {
  entry_id: number
  actor: string
  created_at: string
  reason: string
}

/**
 * Finds the acceptance of these very differences: the newest one, because what was accepted before it and
 * undone is not accepted again. Undefined without differences.
 */
export async function findAcceptedSchema(
  sql: Queryable,
  auditKey: KeyObject,
  { digest }: Pick<SchemaDifferences, 'digest'>,
): Promise<AcceptedSchema | undefined> {
  if (digest === '') return undefined
  for (const id of await listAcceptanceIds(sql, INSTALLATION_ID, SCHEMA_ACCEPTED)) {
    const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, auditKey, id })
    // The column by which it was found proves nothing.
    if (entry?.action !== SCHEMA_ACCEPTED) continue
    const accepted = schemaMetadata.safeParse(JSON.parse(entry.metadata ?? '{}')).data
    if (accepted?.digest !== digest) return undefined
    return { entry_id: id, actor: entry.actor, created_at: entry.created_at, reason: accepted.reason }
  }
  return undefined
}

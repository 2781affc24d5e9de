/** What the reading operations on the audit log share: positions in it, its pages, and their signature. */
import { type ExportTrailer, encodePublicKey, genesisHash, signCheckpoint, signStretch } from '@eaas/audit/formats'
import type { wire } from '@eaas/protocol'
import { isHeadGenuine } from '../../audit/audit-key.js'
import type { Head } from '../../audit/formats/chain.js'
import { isMarkGenuine } from '../../audit/read-entry.js'
import type { Context } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import { findHead, readChain } from '../../store/audit.js'
import { findLastMark } from '../../store/audit-purge.js'
import type { Sql } from '../../store/db.js'
import { TamperedRowError } from '../../store/tampered-row.js'

/** Entries that are read at a time. */
const PAGE_ENTRIES = 500

/** A position in the chain: after the entry with this id and hash. */
export type Position = Pick<Head, 'last_id' | 'hash'>

/** Gets the head of the log, which must be the server's own: only that may be signed. */
export async function getHead({ services, state }: Context): Promise<Head> {
  const head = await findHead(services.sql, state.tenant.tenant_id)
  if (!head || !(await isHeadGenuine(services.sql, state.auditKey, head)))
    throw new Error('the head of the log is missing or forged')
  return head
}

/** The position before the first entry that no purge took. */
export async function firstPosition({ services: { sql }, state }: Context): Promise<Position> {
  const { tenant_id } = state.tenant
  const mark = await findLastMark(sql, tenant_id)
  if (mark && !(await isMarkGenuine(sql, state.auditKey, mark)))
    throw new TamperedRowError(`the mark of the last purge of tenant ${tenant_id} is forged`)
  return mark ? { last_id: mark.purged_through, hash: mark.hash } : { last_id: 0, hash: genesisHash(tenant_id) }
}

/**
 * Reads the entries of a range, a page of them at most. A purge or a break between two pages leaves a gap,
 * which no reader may mistake for a complete log.
 *
 * @throws Refusal E_STATE if an entry is missing
 */
export async function readPage(sql: Sql, range: { tenant_id: string; after_id: number; through_id: number }) {
  const page = await readChain(sql, { ...range, limit: PAGE_ENTRIES })
  const gap = page.findIndex(({ id }, at) => id !== range.after_id + 1 + at)
  if (gap >= 0 || page.length === 0) {
    const missing = range.after_id + 1 + Math.max(gap, 0)
    throw new Refusal('E_STATE', `entry ${missing} is missing: the export can't be completed`)
  }
  return page
}

/** Signs a checkpoint of the head. */
export function signHead({ services, state }: Context, { last_id, hash }: Head): wire.Checkpoint {
  const created_at = new Date(services.now()).toISOString()
  const statement = { tenant_id: state.tenant.tenant_id, last_id, hash, created_at }
  return {
    checkpoint: signCheckpoint(services.signingKey, statement),
    public_key: encodePublicKey(services.signingKey),
  }
}

/** Signs the end of a part of a log; the caller must know that the entries from there lead to the head. */
export function signEnd(
  { services, state }: Context,
  { end, head, created_at }: { end: Position; head: Head; created_at: string },
): ExportTrailer {
  const statement = {
    tenant_id: state.tenant.tenant_id,
    last_id: end.last_id,
    hash: end.hash,
    head_id: head.last_id,
    head_hash: head.hash,
    created_at,
  }
  return { stretch: signStretch(services.signingKey, statement), public_key: encodePublicKey(services.signingKey) }
}

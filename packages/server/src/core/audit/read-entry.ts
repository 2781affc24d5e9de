/** Reads an entry and proves that the server wrote it, before anything is signed that relies on it. */

import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit'
import { readChain } from '../store/audit.js'
import { findLastMark } from '../store/audit-purge.js'
import type { Queryable } from '../store/db.js'
import { followAuditKey } from './audit-key.js'
import { type AuditKey, entryMac, equalBytes, isPurgeMarkAuthentic, type PurgeMark } from './formats/chain.js'

/**
 * Reads an entry whose hash follows from the entry before it and whose MAC is the server's; undefined if
 * there is none. `previousHash` replaces the entry before it if a purge has deleted that.
 */
export async function readAuthenticEntry(
  sql: Queryable,
  { tenant_id, id, auditKey }: { tenant_id: string; id: number; auditKey: AuditKey },
  previousHash?: Uint8Array,
): Promise<ChainedEntry | undefined> {
  const rows = await readChain(sql, { tenant_id, after_id: id - 2, through_id: id, limit: 2 })
  const entry = rows.find((row) => row.id === id)
  const before = id === 1 ? genesisHash(tenant_id) : (rows.find((row) => row.id === id - 1)?.hash ?? previousHash)
  if (!entry || !before) return undefined
  const hash = entryHash(before, entry)
  const isAuthentic = equalBytes(entry.hash, hash) && equalBytes(entry.mac, entryMac(auditKey, id, hash))
  return isAuthentic ? entry : undefined
}

/** Finds the mark of a log's last purge, if the server wrote it, by the keys that the database has now. */
export async function findAuthenticMark(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<PurgeMark | undefined> {
  const mark = await findLastMark(sql, tenant_id)
  if (mark && !isPurgeMarkAuthentic(auditKey, mark)) await followAuditKey(sql, auditKey) // renewed since it was read
  return mark && isPurgeMarkAuthentic(auditKey, mark) ? mark : undefined
}

/**
 * Reads an entry or a purge mark and proves that a server wrote it, before anything relies on it. If the log's keys do
 * not prove it, they are read again, because another server may have renewed them.
 */
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { readChain } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { findLastMark } from '../store/purge-marks.js'
import { isAuthenticByNewest } from './audit-key.js'
import { type AuditKey, entryMac, equalBytes, isPurgeMarkAuthentic, type PurgeMark } from './formats/chain.js'

/**
 * Reads an entry whose hash follows from the entry before it and whose MAC is the server's; undefined if there is none.
 * `previousHash` replaces the entry before it if a purge has deleted that.
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
  if (!equalBytes(entry.hash, hash)) return undefined
  const isAuthentic = () => equalBytes(entry.mac, entryMac(auditKey, id, hash))
  return (await isAuthenticByNewest(sql, auditKey, isAuthentic)) ? entry : undefined
}

/** Whether a server wrote this purge mark. */
export function isMarkGenuine(sql: Queryable, auditKey: AuditKey, mark: PurgeMark): Promise<boolean> {
  return isAuthenticByNewest(sql, auditKey, () => isPurgeMarkAuthentic(auditKey, mark))
}

/** Finds the mark of a log's last purge, if a server wrote it. */
export async function findAuthenticMark(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<PurgeMark | undefined> {
  const mark = await findLastMark(sql, tenant_id)
  return mark && (await isMarkGenuine(sql, auditKey, mark)) ? mark : undefined
}

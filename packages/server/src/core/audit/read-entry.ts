/** Proves that a server wrote an entry or a purge mark, before anything relies on it. */
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { readChain } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { findLastMark } from '../store/purge-marks.js'
import { isAuthenticByNewest } from './audit-key.js'
import { type AuditKey, entryMac, equalBytes, isPurgeMarkAuthentic, type PurgeMark } from './formats/chain.js'

/** Undefined if a server wrote no such entry there. `previousHash` is needed if the entry before it was purged. */
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

export function isMarkGenuine(sql: Queryable, auditKey: AuditKey, mark: PurgeMark): Promise<boolean> {
  return isAuthenticByNewest(sql, auditKey, () => isPurgeMarkAuthentic(auditKey, mark))
}

/** Undefined if the log was never purged, or no server wrote its last mark. */
export async function findAuthenticMark(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<PurgeMark | undefined> {
  const mark = await findLastMark(sql, tenant_id)
  return mark && (await isMarkGenuine(sql, auditKey, mark)) ? mark : undefined
}

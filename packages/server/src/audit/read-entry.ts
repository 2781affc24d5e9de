/** Reads an entry and proves that the server wrote it, before anything is signed that relies on it. */

import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit'
import { readChain } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { entryMac, equalBytes } from './formats/chain.js'

/**
 * Reads an entry whose hash follows from the entry before it and whose MAC is the server's; undefined if
 * there is none. `previousHash` replaces the entry before if a purge has deleted that.
 */
export async function readAuthenticEntry(
  sql: Queryable,
  { tenant_id, id, auditKey }: { tenant_id: string; id: number; auditKey: KeyObject },
  previousHash?: Uint8Array,
): Promise<ChainedEntry | undefined> {
  const rows = await readChain(sql, { tenant_id, after_id: id - 2, through_id: id, limit: 2 })
  const entry = rows.find((row) => row.id === id)
  const before = id === 1 ? genesisHash(tenant_id) : (rows.find((row) => row.id === id - 1)?.hash ?? previousHash)
  if (!entry || !before) return undefined
  const hash = entryHash(before, entry)
  const isAuthentic = equalBytes(entry.hash, hash) && equalBytes(entry.mac, entryMac(auditKey, hash))
  return isAuthentic ? entry : undefined
}

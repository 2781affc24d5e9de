/** What stands after the last entry of a head (chain.md 9). */

import type { KeyObject } from 'node:crypto'
import { entryHash } from '@eaas/audit'
import { readChain } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import { entryMac, equalBytes, type Head } from './formats/chain.js'

const PAGE_ENTRIES = 250

export interface EntriesBeyond {
  /** the first of them */
  id: number
  /**
   * whether the server wrote one of them after the entry that stands before it: then the head is an older one
   * that was put back
   */
  isGenuine: boolean
}

/** Looks at the entries after a head; undefined if there are none. */
export async function findBeyond(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: KeyObject },
  { last_id, hash }: Pick<Head, 'last_id' | 'hash'>,
): Promise<EntriesBeyond | undefined> {
  let first: number | undefined
  let previous = { id: last_id, hash }
  while (true) {
    const where = { tenant_id, after_id: previous.id, through_id: Number.MAX_SAFE_INTEGER, limit: PAGE_ENTRIES }
    const page = await readChain(sql, where)
    for (const entry of page) {
      first ??= entry.id
      const mac = entryMac(auditKey, entryHash(previous.hash, entry))
      if (equalBytes(entry.mac, mac)) return { id: first, isGenuine: true }
      previous = entry
    }
    if (page.length < PAGE_ENTRIES) return first === undefined ? undefined : { id: first, isGenuine: false }
  }
}

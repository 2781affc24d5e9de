/**
 * Which rows other processes wrote since a known head, according to their entries. The entries are verified
 * against the chain, so that an attacker who can only write to the database cannot hide a change.
 */

import { type ChainedEntry, entryHash } from '@eaas/audit/formats'
import { readChain } from '../../store/audit.js'
import type { Queryable } from '../../store/db.js'
import type { AuditKey } from '../formats/chain.js'
import { equalBytes, type Head, isHeadAuthentic, type Witness } from '../formats/chain.js'
import { rowsWrittenBy } from './row-audit.js'

/** Entries that are read at most: beyond that, loading all rows in use again is faster. */
const MOST_ENTRIES = 512

export interface RowsWritten {
  /** by their ids */
  keys: ReadonlySet<string>
  apiKeys: ReadonlySet<string>
  /** the tenant's own row, or the mark of a purge */
  tenant: boolean
}

/**
 * Finds the rows that were written between two heads; undefined if that cannot be determined, so that any row
 * may have changed.
 */
export async function findRowsWritten(
  sql: Queryable,
  { known, head, auditKey }: { known: Witness; head: Head; auditKey: AuditKey },
): Promise<RowsWritten | undefined> {
  const { tenant_id } = head
  const entries = head.last_id - known.last_id
  if (entries < 1 || entries > MOST_ENTRIES || !isHeadAuthentic(auditKey, head)) return undefined
  const range = { tenant_id, after_id: known.last_id, through_id: head.last_id, limit: entries }
  const stretch = await readChain(sql, range)
  const hash = stretch.reduce(entryHash, known.hash)
  if (!equalBytes(hash, head.hash)) return undefined
  const changes = stretch.filter(isChange)
  // A renewal of the audit key (chain.md 14) and actions of a newer release raise the policy version too, and may have
  // changed any row.
  if (changes.length !== head.policy_version - known.policy_version) return undefined
  const names = new Set(changes.flatMap(rowsWrittenBy))
  const idsOf = (kind: string) =>
    new Set(
      [...names].filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length).split(' ', 1).join()),
    )
  return {
    keys: idsOf('key '),
    apiKeys: idsOf('api key '),
    tenant: names.has('tenant') || changes.some(({ action }) => action === 'audit.purge'),
  }
}

function isChange(entry: ChainedEntry): boolean {
  return entry.action === 'audit.purge' || rowsWrittenBy(entry).length > 0
}

/**
 * Proves the entries of a page before they are shown: the server wrote each of them, and it follows from the
 * one before.
 */

import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit'
import type { ListedEntry, Range } from '../store/audit-list.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { entryMac, equalBytes } from './formats/chain.js'

/**
 * Thrown for a page that can't be shown; names the first entry in it, or before it, that is not as the server
 * wrote it.
 */
export class TamperedEntryError extends TamperedRowError {
  override readonly name = 'TamperedEntryError'

  constructor(
    tenant_id: string,
    readonly entry_id: number,
    what: 'missing' | 'not as the server wrote it',
  ) {
    super(`entry ${entry_id} of the audit log of tenant ${tenant_id} is ${what}`)
  }
}

/** Proves entries that follow the entry with this hash, in order. @throws TamperedEntryError */
export function assertFollowing(
  entries: readonly ChainedEntry[],
  { tenant_id, auditKey, hash: last }: { tenant_id: string; auditKey: KeyObject; hash: Uint8Array },
): void {
  let previous = last
  for (const entry of entries) {
    if (isForged(entry, { previous, auditKey }))
      throw new TamperedEntryError(tenant_id, entry.id, 'not as the server wrote it')
    previous = entry.hash
  }
}

/**
 * The hash before an entry needs no proof of its own: with another one, the hash of the entry would differ
 * from that under its MAC.
 *
 * @throws TamperedEntryError if an entry was changed, or one of `range` is missing
 */
export function assertListed(
  entries: readonly ListedEntry[],
  { tenant_id, auditKey, range }: { tenant_id: string; auditKey: KeyObject; range: Range | undefined },
): void {
  const ordered = [...entries].sort((a, b) => a.id - b.id)
  for (const [at, entry] of ordered.entries()) {
    const { id } = entry
    if (range && id !== range.after_id + 1 + at)
      throw new TamperedEntryError(tenant_id, range.after_id + 1 + at, 'missing')
    const previous = id === 1 ? genesisHash(tenant_id) : entry.previous_hash
    if (!previous) throw new TamperedEntryError(tenant_id, id - 1, 'missing')
    if (isForged(entry, { previous, auditKey }))
      throw new TamperedEntryError(tenant_id, id, 'not as the server wrote it')
  }
  if (!range) return
  const last_id = range.after_id + ordered.length
  if (last_id < range.through_id) throw new TamperedEntryError(tenant_id, last_id + 1, 'missing')
}

function isForged(entry: ChainedEntry, { previous, auditKey }: { previous: Uint8Array; auditKey: KeyObject }): boolean {
  const hash = entryHash(previous, entry)
  return !equalBytes(entry.hash, hash) || !equalBytes(entry.mac, entryMac(auditKey, hash))
}

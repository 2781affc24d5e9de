/**
 * The rights that a purge leaves behind, see chain.md 8: the rows that grant rights, each with the entry that wrote it last, at the last
 * entry that the purge takes. A row whose entry was purged can't be replaced by an older one unnoticed. Pure.
 */
import { createHash } from 'node:crypto'

const LABEL = 'eaas/audit/rights/v1'

/** The ids of the entries that wrote the rows last, by the rows' names. */
export type Rights = ReadonlyMap<string, number>

/** The rights at the beginning of the entries that were read, and how they changed. */
export interface RightsLog {
  before: Rights
  changes: readonly { name: string; entry_id: number }[]
  /** the last entry that was read */
  last_id: number
}

/** The rights after an entry that was read, or at the beginning. */
export function rightsAt({ before, changes }: RightsLog, id: number): Rights {
  const rights = new Map(before)
  for (const { name, entry_id } of changes) if (entry_id <= id) rights.set(name, entry_id)
  return rights
}

/** The digest of rights, in hexadecimal. */
export function rightsDigest(where: { tenant_id: string; purged_through: number }, rights: Rights): string {
  const rows = [...rights].sort(([a], [b]) => (a < b ? -1 : 1))
  const text = JSON.stringify([LABEL, where.tenant_id, where.purged_through, rows])
  return createHash('sha256').update(text).digest('hex')
}

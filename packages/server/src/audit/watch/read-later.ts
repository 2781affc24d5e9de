/** Reads, for many tenants in one statement, the entries between heads that were witnessed and later ones. */
import { type HeadWithKey, readChains } from '../../store/audit.js'
import type { Queryable } from '../../store/db.js'
import type { ChainedEntry, Witness } from '../formats/chain.js'
import { FOLLOWED_AT_ONCE } from './follow-stretch.js'

/** Most heads of one statement. */
export const LATER_AT_ONCE = 500
/** Most entries of one statement, the witnessed ones aside. */
const ENTRIES_AT_ONCE = 50_000

/** A head in the database that is after the witnessed one, or the same. */
export interface Later {
  witness: Witness
  head: HeadWithKey
}

/** Reads the witnessed entries and those after them: all up to the heads, or the first of each log. */
export async function readLater(
  sql: Queryable,
  later: readonly Later[],
): Promise<(Later & { stretch: ChainedEntry[] })[]> {
  if (later.length === 0) return []
  const stretches = later.map(({ witness, head }) => ({
    tenant_id: head.tenant_id,
    after_id: witness.last_id - 1,
    through_id: head.last_id,
  }))
  const limit = Math.min(FOLLOWED_AT_ONCE, Math.ceil(ENTRIES_AT_ONCE / later.length)) + 1
  const entries = await readChains(sql, stretches, limit)
  return later.map((each) => ({ ...each, stretch: entries.get(each.head.tenant_id) ?? [] }))
}

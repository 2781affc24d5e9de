/** The signing keys of a tenant's log that was begun in another installation (key-change.md 4). */
import { findKeyChange } from '@eaas/audit/formats'
import { INSTALLATION_ID, readJson } from '@eaas/protocol'
import { listEntriesOf } from '../store/audit.js'
import type { Queryable } from '../store/db.js'
import type { Services } from './operation.js'

/** A tenant is moved less often. */
const MOST_ARRIVALS = 100

/**
 * The statements that lead from the first key that signed a tenant's log to the one that signs it here. Nothing but
 * their own signatures authenticates them.
 */
export async function listKeyChangesOf(
  sql: Queryable,
  { signingKey }: Pick<Services, 'signingKey'>,
  tenant_id: string,
): Promise<readonly string[]> {
  const { changes } = signingKey
  const actions = ['installation.tenant_arrive'] as const
  const where = { actions, text: `"tenant_id":"${tenant_id}"`, after_id: 0, limit: MOST_ARRIVALS }
  const arrival = (await listEntriesOf(sql, INSTALLATION_ID, where)).at(-1)
  if (!arrival) return changes
  const told: unknown = readJson(String(Object(readJson(arrival.metadata ?? '')).key_changes))
  const carried = Array.isArray(told) ? told.map(String) : []
  const arrivedUnder = findKeyChange(carried.at(-1) ?? '')?.to
  const since = changes.findIndex((note) => findKeyChange(note)?.from === arrivedUnder)
  return since === -1 ? carried : [...carried, ...changes.slice(since)]
}

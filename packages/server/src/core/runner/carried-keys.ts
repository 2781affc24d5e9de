/** The signing keys of a tenant's log that was begun in another installation (key-change.md 4). */
import { CheckpointError, findKeyChange, followKeyChanges, listKeys } from '@eaas/audit/formats'
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

/** The keys that may have signed a tenant's log: the installation's, and those before it arrived here. */
export async function listSignersOf(
  services: Pick<Services, 'sql' | 'signingKey'>,
  tenant_id: string,
): Promise<readonly string[]> {
  const { publicKeys } = services.signingKey
  try {
    const carried = listKeys(followKeyChanges(await listKeyChangesOf(services.sql, services, tenant_id)))
    // Only a statement that a key of this installation signed too vouches for the keys before it.
    return carried.at(-1) === publicKeys.at(-1) ? [...new Set([...carried, ...publicKeys])] : publicKeys
  } catch (error) {
    if (error instanceof CheckpointError) return publicKeys // somebody edited the entry, which a verification names
    throw error
  }
}

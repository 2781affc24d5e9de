/** Verifies every log, and the installation's newest anchor. A log with an alarm is not valid. */
import type { Checkpoint } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Witness } from '../../core/audit/formats/chain.js'
import { type RecordedTenants, readRecordedTenants } from '../../core/audit/recorded-tenants.js'
import type { Services } from '../../core/runner/operation.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { listTenantsOnRecord } from '../../guard/jobs/tenants-on-record.js'
import { watchesOf } from '../../guard/watch/head-watch.js'
import { AnchorFault, readAnchor } from '../../guard/watch/newest-anchor.js'

export interface LogVerdict {
  tenant_id: string
  name: string | undefined // `installation` for its own log; undefined for a tenant that is missing
  valid: boolean
  verified_entries: number
  last_id: number // the last entry that was verified
  reason?: string
  broken_at?: number
}

/** For instance because the database did not answer. */
export type Unverified = { tenant_id: string; name: string; error: unknown }

export interface VerifiedLogs {
  verdicts: LogVerdict[]
  invalid: LogVerdict[] // those of the verdicts
  unverified: Unverified[]
  entries: number // that were verified
  counts: { logs: number; invalid: number; unverified: number } // as an entry `installation.verify` states them
}

const UNREAD = { valid: false, verified_entries: 0, last_id: 0 }

interface VerifyAllOptions {
  /** a statement about the installation's log that was signed earlier and must still hold */
  checkpoint?: Checkpoint | undefined
  onProgress?: ((name: string, entries: number) => void) | undefined
  signal?: AbortSignal | undefined
}

/** @throws the signal's reason, or the database's own error when tenants cannot be listed */
export async function verifyAll(
  services: Services,
  { checkpoint, onProgress, signal }: VerifyAllOptions = {},
): Promise<VerifiedLogs> {
  const { sql, states, committer } = services
  const verdicts: LogVerdict[] = []
  const unverified: Unverified[] = []
  let recorded: RecordedTenants | undefined
  const verifyOne = async (tenant_id: string, name: string, anchored?: Witness) => {
    const { alarm } = watchesOf(committer).get(tenant_id)
    try {
      signal?.throwIfAborted()
      const state = await states.find(tenant_id)
      if (!state) throw new Error('it is gone')
      const { auditKey } = state
      const answer = await services.verifyLog({
        tenant_id,
        auditKey,
        witnessed: alarm?.witness ?? anchored,
        named: recorded?.ends.get(tenant_id),
        checkpoint: tenant_id === INSTALLATION_ID ? checkpoint : undefined,
        signal,
        onValid: (valid) => {
          if (tenant_id === INSTALLATION_ID) recorded = valid.recorded
        },
        onProgress: (entries) => onProgress?.(name, entries),
      })
      const { valid, verified_entries, purged_through, reason = alarm?.reason, broken_at } = answer
      const fault = { ...(reason && { reason }), ...(broken_at !== undefined && { broken_at }) }
      const read = { verified_entries, last_id: purged_through + verified_entries }
      verdicts.push({ tenant_id, name: state.tenant.name, valid: valid && !alarm, ...read, ...fault })
    } catch (error) {
      signal?.throwIfAborted()
      // The audit key was exchanged or edited: nothing authenticates the log.
      if (error instanceof TamperedRowError) verdicts.push({ tenant_id, name, ...UNREAD, reason: 'row_forged' })
      else unverified.push({ tenant_id, name, error })
    }
  }

  await verifyOne(INSTALLATION_ID, 'installation')
  const anchored = new Map<string, Witness>()
  try {
    for (const head of (await readAnchor(sql, services.installationKey))?.heads ?? [])
      anchored.set(head.tenant_id, head)
  } catch (error) {
    if (!(error instanceof AnchorFault)) throw error
    const own = verdicts.find(({ tenant_id }) => tenant_id === INSTALLATION_ID)
    if (own?.valid) Object.assign(own, { valid: false, reason: error.message })
  }
  recorded ??= await readRecordedTenants(sql) // that log is not valid, and neither is the result
  const { tenants, leftOut } = await listTenantsOnRecord(services, [...anchored.keys(), ...recorded.present.keys()])
  for (const { tenant_id, name } of tenants) await verifyOne(tenant_id, name, anchored.get(tenant_id))
  for (const { tenant_id, reason } of leftOut) verdicts.push({ tenant_id, name: undefined, ...UNREAD, reason })
  const invalid = verdicts.filter(({ valid }) => !valid)
  const entries = verdicts.reduce((sum, { verified_entries }) => sum + verified_entries, 0)
  const counts = { logs: verdicts.length, invalid: invalid.length, unverified: unverified.length }
  return { verdicts, invalid, unverified, entries, counts }
}

/** Verifies every log and the newest anchor, for an operator or on schedule. A log with an alarm is not valid. */
import type { AuditEntry, Checkpoint } from '@eaas/audit/formats'
import { INSTALLATION_ID, SYSTEM_ACTOR, type wire } from '@eaas/protocol'
import type { Witness } from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import { type RecordedTenants, readRecordedTenants } from '../../core/audit/recorded-tenants.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { recordAlone } from '../../guard/installation-log.js'
import { listTenantsOnRecord } from '../../guard/jobs/tenants-on-record.js'
import { findVerificationId } from '../../guard/store/anchors.js'
import { watchesOf } from '../../guard/watch/head-watch.js'
import { AnchorFault, readAnchor } from '../../guard/watch/newest-anchor.js'

export interface LogVerdict {
  tenant_id: string
  name: string | undefined // `installation` for its own log; undefined for a missing tenant
  valid: boolean
  verified_entries: number
  last_id: number // the last entry that was verified
  checkpoint?: wire.Verification['checkpoint'] // of the log itself, if one was given
  reason?: string
  broken_at?: number
}

/** For instance, the database did not answer. */
type Unverified = { tenant_id: string; name: string; error: unknown }

export interface VerifiedLogs {
  verdicts: LogVerdict[]
  invalid: LogVerdict[] // the invalid ones of the verdicts
  unverified: Unverified[]
  entries: number // the number of verified entries
  counts: { logs: number; invalid: number; unverified: number } // as in an entry `installation.verify`
}

const UNREAD = { valid: false, verified_entries: 0, last_id: 0 }

/** Earlier signed statements about the logs of tenants. */
export interface KeptOfTenants {
  logs: ReadonlySet<string> // those that have a statement, signed or not
  of(tenant_id: string): Promise<readonly Pick<Checkpoint, 'last_id' | 'hash'>[]> // the signed ones, the newest first
  faultOf(tenant_id: string): string
}

interface VerifyAllOptions {
  /** an earlier signed statement about the installation's log, which must still hold */
  checkpoint?: Checkpoint | undefined
  /** of each tenant, the newest must still hold */
  kept?: KeptOfTenants | undefined
  onProgress?: ((name: string, entries: number) => void) | undefined
  signal?: AbortSignal | undefined
}

/** @throws the signal's reason, or the database's own error if tenants cannot be listed */
export async function verifyAll(
  services: Services,
  { checkpoint, kept, onProgress, signal }: VerifyAllOptions = {},
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
        checkpoint: tenant_id === INSTALLATION_ID ? checkpoint : await newestOf(tenant_id, kept),
        signal,
        onValid: (valid) => {
          if (tenant_id === INSTALLATION_ID) recorded = valid.recorded
        },
        onProgress: (entries) => onProgress?.(name, entries),
      })
      const { valid, verified_entries, purged_through, reason = alarm && onlyAlarmed(alarm), broken_at } = answer
      const fault = { ...(reason && { reason }), ...(broken_at !== undefined && { broken_at }) }
      const read = { verified_entries, last_id: purged_through + verified_entries }
      const compared = answer.checkpoint && { checkpoint: answer.checkpoint }
      verdicts.push({ tenant_id, name: state.tenant.name, valid: valid && !alarm, ...read, ...compared, ...fault })
    } catch (error) {
      signal?.throwIfAborted()
      // The audit key was exchanged or edited, so nothing authenticates the log.
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
  recorded ??= await readRecordedTenants(sql) // that log is not valid, so neither is the result
  const named = new Set([...anchored.keys(), ...recorded.present.keys()])
  for (const log of kept?.logs ?? []) {
    if (log === INSTALLATION_ID || named.has(log) || recorded.gone.has(log)) continue
    if ((await kept?.of(log))?.length) named.add(log)
  }
  const { tenants, leftOut } = await listTenantsOnRecord(services, named)
  for (const { tenant_id, name } of tenants) await verifyOne(tenant_id, name, anchored.get(tenant_id))
  for (const { tenant_id, reason } of leftOut) verdicts.push({ tenant_id, name: undefined, ...UNREAD, reason })
  const invalid = verdicts.filter(({ valid }) => !valid)
  const entries = verdicts.reduce((sum, { verified_entries }) => sum + verified_entries, 0)
  const counts = { logs: verdicts.length, invalid: invalid.length, unverified: unverified.length }
  return { verdicts, invalid, unverified, entries, counts }
}

async function newestOf(tenant_id: string, kept: KeptOfTenants | undefined) {
  const [newest] = (await kept?.of(tenant_id)) ?? []
  if (!newest && kept?.logs.has(tenant_id)) throw new Refusal('E_VALIDATION', kept.faultOf(tenant_id))
  return newest
}

// Verified alone, the log is valid (eaas audit verify --tenant): the alarm is about an earlier moment.
function onlyAlarmed({ reason }: { reason: string }): string {
  return `the log itself verifies, but an alarm about it remains until an operator accepts the loss (eaas accept rollback): ${reason}`
}

const HOUR_MS = 3_600_000

interface VerificationRun {
  logs: number
  invalid: LogVerdict[] // logs that are not as the server wrote them
  /** logs that could not be read to their end; the next run is then still due, on every server */
  unverified: Unverified[]
  /** why the installation's log has no entry of the run: that log may be the tampered one */
  notRecorded?: unknown
}

/** Verifies when a run is due according to the installation's log, which all servers share. */
export function createScheduledVerification(
  services: Services,
  { hours }: { hours: number },
): (signal: AbortSignal) => Promise<VerificationRun | undefined> {
  // A time that far ahead comes from a wrong clock.
  const isDue = (last: number) => Math.abs(services.now() - last) >= hours * HOUR_MS
  /** in milliseconds; prevents an immediate repetition of a run that was not recorded */
  let own = Number.NEGATIVE_INFINITY
  return async (signal) => {
    if (!isDue(own) || !isDue(await readVerificationTime(services))) return undefined
    const result = await verifyAll(services, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error // the server is stopping: another server, or the next start, verifies
    })
    if (!result) return undefined
    const { invalid, unverified, counts } = result
    const run = { logs: counts.logs, invalid, unverified }
    if (unverified.length === 0) own = services.now()
    try {
      await recordAlone(services, [{ action: 'installation.verify', metadata: counts }])
      return run
    } catch (notRecorded) {
      return { ...run, notRecorded }
    }
  }
}

// Nothing else may postpone the verification: neither a forged entry, nor another action or actor, nor an incomplete run.
async function readVerificationTime({ sql, installationKey: auditKey }: Services): Promise<number> {
  const id = await findVerificationId(sql)
  const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, id, auditKey })
  return entry && (entry.id === 1 || isWholeVerification(entry))
    ? Date.parse(entry.created_at)
    : Number.NEGATIVE_INFINITY
}

function isWholeVerification({ action, actor, metadata }: AuditEntry): boolean {
  if (action !== 'installation.verify' || actor !== SYSTEM_ACTOR) return false
  return Object(JSON.parse(metadata ?? '{}')).unverified === 0
}

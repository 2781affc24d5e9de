// Verifies every log from its beginning, when that is due by the installation's log, which all servers share.
import type { AuditEntry } from '@eaas/audit/formats'
import { INSTALLATION_ID, SYSTEM_ACTOR } from '@eaas/protocol'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import type { Services } from '../../core/runner/operation.js'
import { recordAlone } from '../../guard/installation-log.js'
import { findVerificationId } from '../../guard/store/anchors.js'
import { type LogVerdict, type Unverified, verifyAll } from './verify-all.js'

const HOUR_MS = 3_600_000

interface VerificationRun {
  logs: number
  invalid: LogVerdict[] // logs that are not as the server wrote them
  /** logs that could not be read to their end; after such a run the next one is still due, on every server */
  unverified: Unverified[]
  /** why the installation's log has no entry of the run: that log may be the one that was tampered with */
  notRecorded?: unknown
}

export function createScheduledVerification(
  services: Services,
  { hours }: { hours: number },
): (signal: AbortSignal) => Promise<VerificationRun | undefined> {
  // A time that far ahead comes from a clock that was wrong.
  const isDue = (last: number) => Math.abs(services.now() - last) >= hours * HOUR_MS
  /** in milliseconds; a run that was not recorded is not repeated at once */
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

// Nothing else may postpone the verification: no forged entry, and no other action, actor or run that was not whole.
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

/**
 * Verifies every log when that is due, and records the result in the installation's log, where the other servers of the installation see
 * that it was done. Each run reads every log from its beginning: rows and marks can only be compared with all entries.
 */
import { recordAlone } from '../runner/installation-log.js'
import type { EntryNote, Services } from '../runner/operation.js'
import { findVerificationTime } from '../store/installation-log.js'
import { type LogVerdict, verifyAll } from './verify-all.js'

const HOUR_MS = 3_600_000

export interface VerificationRun {
  logs: number
  /** logs that are not as the server wrote them */
  invalid: LogVerdict[]
  /** logs that could not be read to their end */
  unverified: number
}

/** Makes the job; each call verifies if it is due, and returns the result. */
export function createScheduledVerification(
  services: Services,
  { hours }: { hours: number },
): (signal: AbortSignal) => Promise<VerificationRun | undefined> {
  return async (signal) => {
    const last = await findVerificationTime(services.sql)
    if (last !== undefined && services.now() - Date.parse(last) < hours * HOUR_MS) return undefined
    const result = await verifyAll(services, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error // the server is stopping: another server, or the next start, verifies
    })
    if (!result) return undefined
    const { verdicts, unverified } = result
    const invalid = verdicts.filter(({ valid }) => !valid)
    const run = { logs: verdicts.length, invalid, unverified: unverified.length }
    const note: EntryNote = { action: 'installation.verify', metadata: { ...run, invalid: invalid.length } }
    await recordAlone(services, [note])
    return run
  }
}

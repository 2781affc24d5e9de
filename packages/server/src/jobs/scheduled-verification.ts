/**
 * Verifies every log when that is due, and records the result in the installation's log, where the other servers of the installation see
 * that it was done. Begins where this process verified last; its first run reads every log from its beginning.
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
  const verified = new Map<string, number>()
  return async (signal) => {
    const last = await findVerificationTime(services.sql)
    if (last !== undefined && services.now() - Date.parse(last) < hours * HOUR_MS) return undefined
    const result = await verifyAll(services, {
      verified,
      signal,
      // What is not valid is read from its beginning again: it may be repaired.
      onVerdict({ tenant_id, valid, last_id }) {
        if (valid) verified.set(tenant_id, last_id)
        else verified.delete(tenant_id)
      },
    }).catch((error: unknown) => {
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

/**
 * Shares verifications: those of one tenant run one after another, and callers that wait for the same one get
 * the same answer. So a call never gets the answer of a run that began before the call, and verifications
 * cannot occupy the process.
 */
import type { wire } from '@eaas/protocol'
import { Refusal } from './refusal.js'

/** Tenants whose logs may be verified at once in a process; more are refused. */
const TENANTS_AT_ONCE = 2
/** Different verifications of one tenant that may wait; more are refused. */
const WAITING_OF_TENANT = 8

type Verify = (signal: AbortSignal) => Promise<wire.Verification>

interface Run {
  callers: number
  /** aborted when all of its callers are gone */
  gone: AbortController
  result: Promise<wire.Verification>
}

interface Log {
  /** runs that have not begun, by what they verify */
  waiting: Map<string, Run>
  /** settles when the last of the runs has ended */
  last: Promise<unknown>
}

const logs = new Map<string, Log>()

/**
 * Verifies, together with the callers that wait for the same `scope` of the same tenant.
 *
 * @throws Refusal E_UNAVAILABLE when too many verifications run, or once the caller's signal is aborted
 */
export async function shareVerification(
  { tenant_id, scope, signal }: { tenant_id: string; scope: string; signal: AbortSignal | undefined },
  verify: Verify,
): Promise<wire.Verification> {
  const log = logs.get(tenant_id) ?? openLog(tenant_id)
  const run = log.waiting.get(scope) ?? addRun(tenant_id, log, scope, verify)
  run.callers += 1
  try {
    return await Promise.race([run.result, ...(signal ? [rejectOnAbort(signal)] : [])])
  } finally {
    run.callers -= 1
    if (run.callers === 0) {
      if (log.waiting.get(scope) === run) log.waiting.delete(scope) // who comes later gets a run of its own
      run.gone.abort(nobodyWaits())
    }
  }
}

function openLog(tenant_id: string): Log {
  if (logs.size >= TENANTS_AT_ONCE) throw tooMany()
  const log: Log = { waiting: new Map(), last: Promise.resolve() }
  logs.set(tenant_id, log)
  return log
}

function addRun(tenant_id: string, log: Log, scope: string, verify: Verify): Run {
  if (log.waiting.size >= WAITING_OF_TENANT) throw tooMany()
  const gone = new AbortController()
  const result = log.last.then(() => {
    gone.signal.throwIfAborted()
    log.waiting.delete(scope)
    return verify(gone.signal)
  })
  const run = { callers: 0, gone, result }
  log.waiting.set(scope, run)
  const last = result.then(
    () => undefined,
    () => undefined,
  )
  log.last = last
  last.then(() => {
    if (log.last === last) logs.delete(tenant_id)
  })
  return run
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(nobodyWaits())
    signal.addEventListener('abort', () => reject(nobodyWaits()), { once: true })
  })
}

function nobodyWaits(): Refusal {
  return new Refusal('E_UNAVAILABLE', 'every caller stopped waiting for the verification')
}

function tooMany(): Refusal {
  return new Refusal('E_UNAVAILABLE', 'other verifications are running; try again when they are done')
}

/**
 * Shares verifications, so that they cannot occupy the process. Those of one tenant run one after another, in turn with other
 * tenants. Callers that wait for the same one share its answer; a caller never gets the answer of a run that began before it.
 */
import type { wire } from '@eaas/protocol'
import { Refusal } from './refusal.js'
import { createPatientGate, whenAdmitted } from './work-gate.js'

/** How many different verifications of one tenant may wait; more are refused. */
const WAITING_OF_TENANT = 8
const VERIFICATIONS_AT_ONCE = 2

type Verify = (signal: AbortSignal) => Promise<wire.Verification>

interface Run {
  callers: number
  /** aborted when all of its callers are gone */
  gone: AbortController
  begin: () => void
  result: Promise<wire.Verification>
}

/** The runs of a tenant that have not begun, by their scope. */
type Waiting = Map<string, Run>

/** @throws Refusal E_UNAVAILABLE if too many of the tenant's runs wait, or once the caller's signal is aborted */
export type ShareVerification = (
  caller: { tenant_id: string; scope: string; signal: AbortSignal | undefined },
  verify: Verify,
) => Promise<wire.Verification>

export function createSharedVerifications(): ShareVerification {
  /** only tenants with runs */
  const logs = new Map<string, Waiting>()
  const gate = createPatientGate(VERIFICATIONS_AT_ONCE)

  function openLog(tenant_id: string): Waiting {
    const waiting: Waiting = new Map()
    logs.set(tenant_id, waiting)
    void runAll(tenant_id, waiting)
    return waiting
  }

  // Admits the tenant, not the run: if the callers of a run are gone, the next run takes its turn.
  async function runAll(tenant_id: string, waiting: Waiting): Promise<void> {
    do await whenAdmitted(gate, { tenant_id }, () => runNext(waiting))
    while (waiting.size > 0)
    logs.delete(tenant_id)
  }

  return async ({ tenant_id, scope, signal }, verify) => {
    const waiting = logs.get(tenant_id) ?? openLog(tenant_id)
    const run = waiting.get(scope) ?? addRun(waiting, scope, verify)
    run.callers += 1
    try {
      return await Promise.race([run.result, ...(signal ? [rejectOnAbort(signal)] : [])])
    } finally {
      run.callers -= 1
      if (run.callers === 0) {
        if (waiting.get(scope) === run) waiting.delete(scope) // a later caller gets a new run
        run.gone.abort(nobodyWaits())
      }
    }
  }
}

async function runNext(waiting: Waiting): Promise<void> {
  const [next] = waiting
  if (!next) return
  const [scope, { begin, result }] = next
  waiting.delete(scope)
  begin()
  await result.catch(() => undefined) // its callers get the error
}

function addRun(waiting: Waiting, scope: string, verify: Verify): Run {
  if (waiting.size >= WAITING_OF_TENANT)
    throw new Refusal('E_UNAVAILABLE', 'other verifications of this log are waiting; try again when they are done')
  const gone = new AbortController()
  let begin = (): void => undefined
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const run = { callers: 0, gone, begin, result: begun.then(() => verify(gone.signal)) }
  waiting.set(scope, run)
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

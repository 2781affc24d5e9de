/**
 * Evaluates blind hashes in turns of the tenants, because an element costs some forty times as much as a hash. A call
 * waits for its turn before anything is decided. So a call that is refused or given up has used nothing, and a call
 * whose rights were revoked while it waited is refused.
 */
import type { KeyObject } from 'node:crypto'
import { DETAILS, MAX_BLINDED_ELEMENTS } from '@eaas/protocol'
import { OverloadError } from '../audit/append-errors.js'
import type { BlindHashResult, BlindHashTask } from '../crypto/blind-hash.js'
import { Refusal } from './refusal.js'
import { createWorkGate, whenAdmitted } from './work-gate.js'

/** The cost of a call in elements: its own elements, its keys and its proof (blind-hash.md 4). */
export const costOfElements = (elements: number): number => elements + 4
/** The cost of a turn: that of the largest call, some 0.4 seconds. */
export const COST_OF_TURN = costOfElements(MAX_BLINDED_ELEMENTS)
/** The limit for the calls of one API key that wait or run in a process: the cost of six of the largest calls. */
const COST_OF_API_KEY = 6 * COST_OF_TURN
/** Whose turn it is; `signal` is aborted when the caller no longer waits. */
type Caller = { tenant_id: string; api_key_id: string; signal: AbortSignal | undefined }

export type RunBlindHash = (task: BlindHashTask) => Promise<BlindHashResult>

export type BlindHashing = ReturnType<typeof createBlindHashing>

export function createBlindHashing(run: RunBlindHash) {
  const gate = createWorkGate({ runningOperations: COST_OF_TURN })
  const underWay = new Map<string, number>()

  function change(api_key_id: string, by: number): void {
    const cost = (underWay.get(api_key_id) ?? 0) + by
    if (cost > COST_OF_API_KEY) throw new OverloadError('an API key has too many elements under way')
    if (cost > 0) underWay.set(api_key_id, cost)
    else underWay.delete(api_key_id)
  }

  async function wait<T>({ tenant_id, api_key_id, signal }: Caller, cost: number, work: () => Promise<T>): Promise<T> {
    change(api_key_id, cost)
    try {
      return await whenAdmitted(gate, { tenant_id, operations: cost }, async () => {
        if (signal?.aborted) throw new Refusal('E_UNAVAILABLE', 'the caller stopped waiting for the hashes')
        return await work()
      })
    } finally {
      change(api_key_id, -cost)
    }
  }

  return {
    /** Runs work that evaluates. @throws Refusal E_UNAVAILABLE if too much waits or the caller left */
    async inTurn<T>(caller: Caller, cost: number, work: () => Promise<T>): Promise<T> {
      try {
        return await wait(caller, cost, work)
      } catch (error) {
        if (!(error instanceof OverloadError)) throw error
        const { retryAfterSeconds } = error // as a refusal, it fails only its part of a batch
        throw new Refusal('E_UNAVAILABLE', DETAILS.E_UNAVAILABLE.busy, { retryAfterSeconds })
      }
    },
    /** Call it in a turn. @throws Refusal E_VALIDATION for an invalid element */
    async evaluate(hashKey: KeyObject, elements: readonly string[]) {
      const result = await run({ hashKey, elements })
      if (result.wrong === undefined) return result
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.element(result.wrong))
    },
  }
}

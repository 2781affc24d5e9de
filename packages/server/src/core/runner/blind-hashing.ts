/**
 * Evaluates blind hashes within bounds: an element costs some forty times what a hash does. Calls wait, tenant by
 * tenant, and are refused if they would wait too long; one API key cannot take all that is admitted of its tenant.
 */
import type { KeyObject } from 'node:crypto'
import { DETAILS, MAX_BLINDED_ELEMENTS, type wire } from '@eaas/protocol'
import { OverloadError } from '../audit/append-errors.js'
import type { BlindHashResult, BlindHashTask } from '../crypto/blind-hash.js'
import { Refusal } from './refusal.js'
import { createWorkGate, whenAdmitted } from './work-gate.js'

/** Elements of one API key that may wait or be evaluated in a process: those of six of the largest calls. */
const ELEMENTS_OF_API_KEY = 6 * MAX_BLINDED_ELEMENTS

/** Whose call it is; `signal` is aborted when it is not waited for any more. */
interface Caller {
  tenant_id: string
  actor: string
  signal: AbortSignal | undefined
}

/** Runs a task, in a thread of its own where calls must not wait for it. */
export type RunBlindHash = (task: BlindHashTask) => Promise<BlindHashResult>

export interface BlindHashing {
  /** Finds the public key of a hash key, in base64, which is computed once while the key is in memory. */
  findPublicKey(hashKey: KeyObject): Promise<string>
  /** @throws Refusal E_VALIDATION for an element that is none, E_UNAVAILABLE if too many wait or the caller left */
  evaluate(
    caller: Caller,
    hashKey: KeyObject,
    elements: readonly string[],
  ): Promise<Pick<wire.BlindHashed, 'elements' | 'proof'>>
}

/** Creates it; once per process. */
export function createBlindHashing(run: RunBlindHash): BlindHashing {
  const gate = createWorkGate({ runningOperations: MAX_BLINDED_ELEMENTS })
  const underWay = new Map<string, number>()
  const publicKeys = new WeakMap<KeyObject, Promise<string>>()

  function change(actor: string, by: number): void {
    const count = (underWay.get(actor) ?? 0) + by
    if (count > ELEMENTS_OF_API_KEY) throw new OverloadError('an API key has too many elements under way')
    if (count > 0) underWay.set(actor, count)
    else underWay.delete(actor)
  }

  async function evaluate({ tenant_id, actor, signal }: Caller, hashKey: KeyObject, elements: readonly string[]) {
    const { length } = elements
    change(actor, length)
    try {
      return await whenAdmitted(gate, { tenant_id, operations: length }, async () => {
        if (signal?.aborted) throw new Refusal('E_UNAVAILABLE', 'the caller stopped waiting for the hashes')
        const result = await run({ hashKey, elements })
        if (result.wrong === undefined) return { elements: result.elements, proof: result.proof }
        throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.element(result.wrong))
      })
    } finally {
      change(actor, -length)
    }
  }

  return {
    findPublicKey(hashKey) {
      const known = publicKeys.get(hashKey)
      if (known) return known
      const found = run({ hashKey, elements: [] }).then(({ public_key }) => public_key)
      publicKeys.set(hashKey, found)
      found.catch(() => publicKeys.delete(hashKey)) // the next caller tries again
      return found
    },
    // A refusal, so that it fails only its own item of a batch.
    evaluate: (...call) =>
      evaluate(...call).catch((error: unknown) => {
        if (!(error instanceof OverloadError)) throw error
        const { retryAfterSeconds } = error
        throw new Refusal('E_UNAVAILABLE', DETAILS.E_UNAVAILABLE.busy, { retryAfterSeconds })
      }),
  }
}

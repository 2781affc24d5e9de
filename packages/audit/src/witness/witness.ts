/** A witness: judges requests against its state one by one, and answers only once the new state is on disk. */
import { encodeBase64, encodeUtf8 } from '@eaas/protocol'
import { sha256 } from '../crypto.js'
import { cosign } from '../formats/cosignature.js'
import { LostDirectoryError, type WitnessFiles } from './directory.js'
import { type Admitted, admit, assertConsistent, contradicts, type Seen } from './judge.js'

export interface WitnessEvents {
  /** `note` is what the log signed; `isNew` is false for a tree that was already cosigned. */
  cosigned(details: { origin: string; size: number; note: string }, isNew: boolean): void
  /** A log signed a `note` whose tree was not shown to continue the last one cosigned. Called once for each tree. */
  contradicted(details: { origin: string; cosigned_size: number; cosigned_root: string; note: string }): void
}

export interface Witness {
  /** Cosigns a request. Returns the signature line. @throws WitnessRefusal, UnwrittenStateError, LostDirectoryError */
  addCheckpoint(body: Uint8Array): Promise<string>
}

/** Thrown when the next state could not be written. Nothing was cosigned. */
export class UnwrittenStateError extends Error {
  override readonly name = 'UnwrittenStateError'

  constructor(cause: unknown) {
    super(`the state could not be written: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

const MOST_REPORTED = 1_000

export function createWitnessService(
  { key, signingKey, logs, state, save, assertHeld }: Omit<WitnessFiles, 'keyFile' | 'release'>,
  { now, events }: { now: () => number; events: WitnessEvents },
): Witness {
  let seen: ReadonlyMap<string, Seen> = state.logs
  let turn: Promise<unknown> = Promise.resolve()
  const reported = new Set<string>() // by hash, because a text may be long

  // Reported once: anyone with a note of the log can send it again and again.
  const report = ({ head: { origin }, text, note }: Admitted, { size, root }: Seen) => {
    const hash = encodeBase64(sha256(encodeUtf8(text)))
    if (reported.has(hash)) return
    if (reported.size >= MOST_REPORTED) reported.clear()
    reported.add(hash)
    events.contradicted({ origin, cosigned_size: size, cosigned_root: encodeBase64(root), note })
  }

  const decide = async (admitted: Admitted): Promise<string> => {
    const { head, text, note } = admitted
    const { origin, size, root } = head
    const last = seen.get(origin)
    try {
      assertConsistent(admitted, last)
    } catch (error) {
      if (last && contradicts(admitted, last)) report(admitted, last)
      throw error
    }
    const isNew = size !== last?.size
    if (isNew) {
      const next = new Map([...seen, [origin, { size, root }] as const])
      // On disk before anyone sees the signature.
      await save({ ...state, logs: next }).catch((cause: unknown) => {
        throw cause instanceof LostDirectoryError ? cause : new UnwrittenStateError(cause)
      })
      seen = next
    } else assertHeld()
    events.cosigned({ origin, size, note }, isNew)
    return cosign({ key, signingKey }, text, Math.floor(now() / 1_000))
  }

  return {
    async addCheckpoint(body) {
      const admitted = admit(body, logs)
      // One at a time: otherwise two requests compared with the same state could both be cosigned.
      const answer = turn.then(() => decide(admitted))
      turn = answer.catch(() => undefined)
      return answer
    },
  }
}

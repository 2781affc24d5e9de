/** Emits how calls end. Loaded with the first call. */
import { isEaasError } from '../errors.js'
import type { Call } from './calls.js'
import type { CallEvent, ClientEvent, Emit, FailureEvent, RefusalEvent } from './events.js'

/** Runs a call and emits how it ended, in its caller's asynchronous context. */
export async function observe<T>(emit: Emit | undefined, call: Call, run: () => Promise<T>): Promise<T> {
  if (!emit) return run()
  const startedAt = performance.now()
  let outcome: Outcome = { type: 'call' }
  try {
    return await run()
  } catch (error) {
    outcome = describe(error)
    throw error
  } finally {
    emit({ ...outcome, ...calledSince(startedAt, call) } as ClientEvent)
  }
}

type Own<E> = Omit<E, keyof Called>
type Called = ReturnType<typeof calledSince>
type Outcome = Own<CallEvent> | Own<RefusalEvent> | Own<FailureEvent>

/** The members that the events of a call share. */
export function calledSince(startedAt: number, { operationId, path, about }: Call) {
  const keyId = path.includes('api-keys') ? undefined : about || undefined
  return { operation: operationId, keyId, durationMs: performance.now() - startedAt }
}

/** What an event says of an error: never its message. */
function describe(error: unknown): Outcome {
  const known = isEaasError(error) ? error : undefined
  const refusal = known?.code === 'E_DECRYPTION' ? known.cause : known // a refusal that means tampering
  if (!isEaasError(refusal) || refusal.code !== 'E_API') return { type: 'failure', code: known?.code }
  const { status, problem, requestId } = refusal
  return { type: 'refusal', status, problem, requestId }
}

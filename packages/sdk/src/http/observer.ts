/** Makes the events of a client. Loaded only where there is an `onEvent`. */
import type { isEaasError } from '../errors.js'
import type { Call } from './calls.js'
import type { CallEvent, ClientEvent, FailureEvent, RefusalEvent, RetryEvent } from './events.js'

/** What passes events to `onEvent`. Its functions throw no error of `onEvent`. */
export interface Observer {
  emit(event: ClientEvent): void
  /** Runs a call and emits how it ended, in its caller's asynchronous context. */
  observe<T>(call: Call, run: () => Promise<T>): Promise<T>
  /** Emits that an attempt failed, before the next one. */
  retried(call: Call, failed: Pick<RetryEvent, 'attempt' | 'status' | 'durationMs'>): void
}

/** Prints `onEvent`'s first error alone. `isError` is handed over: with an import, bundlers would cut more pieces. */
export function createObserver(onEvent: (event: ClientEvent) => unknown, isError: typeof isEaasError): Observer {
  let isReported = false
  const pass = async (event: ClientEvent) => {
    try {
      await onEvent(event)
    } catch (error) {
      if (!isReported) console.error('@eaas/sdk: onEvent threw, which is reported once:', error)
      isReported = true
    }
  }
  const emit = (event: ClientEvent) => void pass(event) // nobody may wait for the promise of `onEvent`
  return {
    emit,
    async observe(call, run) {
      const startedAt = performance.now()
      let ending: Ending = { type: 'call' }
      try {
        return await run()
      } catch (error) {
        ending = describe(error, isError)
        throw error
      } finally {
        emit({ ...ending, ...subjectOf(call), durationMs: performance.now() - startedAt } as ClientEvent)
      }
    },
    retried: (call, failed) => emit({ type: 'retry', ...failed, ...subjectOf(call) }),
  }
}

type Own<E> = Omit<E, 'operation' | 'keyId' | 'durationMs'>
type Ending = Own<CallEvent> | Own<RefusalEvent> | Own<FailureEvent>

function subjectOf({ operationId, path, about }: Call) {
  return { operation: operationId, keyId: path.includes('api-keys') ? undefined : about || undefined }
}

/** What an event says about an error: never its message. */
function describe(error: unknown, isError: typeof isEaasError): Ending {
  const known = isError(error) ? error : undefined
  const refusal = known?.code === 'E_DECRYPTION' ? known.cause : known // a refusal that means tampering
  if (!isError(refusal) || refusal.code !== 'E_API') return { type: 'failure', code: known?.code }
  const { httpStatus, problem, requestId } = refusal
  return { type: 'refusal', status: httpStatus, problem, requestId }
}

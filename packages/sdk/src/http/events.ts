/** What `onEvent` gets: names, ids and times, but never a value, key or secret. And what makes these events. */
import type { OperationId } from '@eaas/protocol'
import type { EaasErrorCode, isEaasError, ServiceProblem } from '../errors.js'
import type { Call } from './calls.js'

/** A call of the service, named as in the API: `wrap`, `unwrap`, `rewrap`, `hash`, `createKey`, … */
interface Called {
  operation: OperationId
  /** The `id` of the call's key; undefined if it is not about one. */
  keyId: string | undefined
  /** Milliseconds, with fractions: of a call with its retries and batch, or of a retry's failed attempt. */
  durationMs: number
}

/** A call succeeded. Each operation of a batch is a call. */
export interface CallEvent extends Called {
  type: 'call'
}

/** The service, or a broker, refused a call: an `ApiError`. */
export interface RefusalEvent extends Called {
  type: 'refusal'
  status: number
  /** The code of the service, such as `E_MISSING_PERMISSION`. */
  problem: ServiceProblem
  requestId: string | undefined
}

/** A call failed for another reason: network, deadline, an answer against the contract, an aborted signal. */
export interface FailureEvent extends Called {
  type: 'failure'
  /** The code of the SDK's error; undefined if the function passed as `apiKey` threw. */
  code: EaasErrorCode | undefined
}

/** An attempt failed, and the request is sent again after a pause. A batch is one request. */
export interface RetryEvent extends Called {
  type: 'retry'
  /** Which attempt failed, from 1. */
  attempt: number
  /** HTTP status of the answer; undefined if there was none. */
  status: number | undefined
}

/** A DEK that the client already had was used: once for each value or row encrypted, and for each DEK of a decrypting call. */
export interface HitEvent {
  type: 'hit'
  operation: 'wrap' | 'unwrap'
  keyId: string
}

/** Why an engine is not used: it is missing, or failed its known-answer test. */
export type EngineFault = 'missing' | 'failed'

/** The client encrypts in JavaScript, several times slower, because `auto` found no faster engine. Once per client. */
export interface FallbackEvent {
  type: 'fallback'
  engine: 'noble'
  node: EngineFault
  /** What is wrong with WebCrypto, which pages without TLS lack. */
  web: EngineFault
  operation?: undefined
  keyId?: undefined
}

/** What a client did, by `type`. Later versions may add types and members. */
export type ClientEvent = CallEvent | RefusalEvent | FailureEvent | RetryEvent | HitEvent | FallbackEvent

/** Passes events to `onEvent`. Its functions never throw an error from `onEvent`. */
export interface Observer {
  emit(event: ClientEvent): void
  /** Runs a call and emits how it ended, in the caller's asynchronous context. */
  observe<T>(call: Call, run: () => Promise<T>): Promise<T>
  retried(call: Call, failed: Pick<RetryEvent, 'attempt' | 'status' | 'durationMs'>): void
}

/** Prints only the first error of `onEvent`. `isError` is a parameter, since an import would make bundlers cut more chunks. */
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

function describe(error: unknown, isError: typeof isEaasError): Ending {
  const known = isError(error) ? error : undefined
  const refusal = known?.code === 'E_DECRYPTION' ? known.cause : known // a refusal that means tampering
  if (!isError(refusal) || refusal.code !== 'E_API') return { type: 'failure', code: known?.code }
  const { httpStatus, problem, requestId } = refusal
  return { type: 'refusal', status: httpStatus, problem, requestId }
}

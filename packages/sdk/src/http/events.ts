/** What a client passes to `onEvent`: names, ids and times, never a value, a key or a secret. */
import type { OperationId } from '@eaas/protocol'
import type { EaasErrorCode, ServiceProblem } from '../errors.js'

/** A call of the service, by its name in the API: `wrap`, `unwrap`, `rewrap`, `hash`, `createKey`, … */
interface Called {
  operation: OperationId
  /** The `id` of the key that the call is about; undefined where it is about none. */
  keyId: string | undefined
  /** Milliseconds, with fractions: of a call with its retries and batch; of a retry the failed attempt. */
  durationMs: number
}

/** A call succeeded. Each operation of a batch is a call. */
export interface CallEvent extends Called {
  type: 'call'
}

/** The service, or a broker, refused a call: an `ApiError`. */
export interface RefusalEvent extends Called {
  type: 'refusal'
  /** HTTP status. */
  status: number
  /** The code of the service, such as `E_MISSING_PERMISSION`. */
  problem: ServiceProblem
  /** The `X-Request-Id` of the answer. */
  requestId: string | undefined
}

/** A call failed for another reason: network, deadline, an answer against the contract, an aborted signal. */
export interface FailureEvent extends Called {
  type: 'failure'
  /** The code of the SDK's error; undefined where the function passed as `apiKey` threw. */
  code: EaasErrorCode | undefined
}

/** An attempt failed, and the request is sent again after a pause. A batch is one request. */
export interface RetryEvent extends Called {
  type: 'retry'
  /** Which attempt failed, from 1. */
  attempt: number
  /** HTTP status of the answer; undefined where none came. */
  status: number | undefined
}

/** A DEK that the client held was used: one for each value or row encrypted, each DEK that a call decrypts with. */
export interface HitEvent {
  type: 'hit'
  /** The call that was saved. */
  operation: 'wrap' | 'unwrap'
  keyId: string
}

/** Why an engine is not used: it is not there, or fails its known-answer test. */
export type EngineFault = 'missing' | 'failed'

/** The client encrypts in JavaScript, several times slower: `auto` found no faster engine. Once a client. */
export interface FallbackEvent {
  type: 'fallback'
  /** The engine that is used. */
  engine: 'noble'
  /** What is wrong with node:crypto. */
  node: EngineFault
  /** What is wrong with WebCrypto, which pages without TLS lack. */
  web: EngineFault
  /** It is about no call. */
  operation?: undefined
  keyId?: undefined
}

/** Something that a client did, told apart by `type`. Later versions may add types and members. */
export type ClientEvent = CallEvent | RefusalEvent | FailureEvent | RetryEvent | HitEvent | FallbackEvent

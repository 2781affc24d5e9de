/** Every error that the SDK throws by itself: one family, told apart by a literal `code`. */

import type { ProblemCode } from '@eaas/protocol'

const BRAND = Symbol.for('eaas.error')

/** The codes of the SDK's errors, one for each kind. */
export type EaasErrorCode = EaasError['code']

/** Where in a list of records an error arose: the record's index in the list, and the field's name. */
export interface RecordPlace {
  index: number
  field: string
}

/**
 * What all errors of the SDK share. No message, cause or enumerable field of one ever holds an API key, a DEK or a plaintext.
 */
export abstract class EaasBaseError extends Error {
  /** The name of the class; spelt out in each, since minifiers rename classes. */
  abstract override readonly name: string
  /** The kind of error; stable, made to be compared with. */
  abstract readonly code: string
  /** Whether the same call may be made again without harm, and may succeed then. */
  readonly retryable: boolean
  /** One sentence: what to do about it. */
  readonly hint: string

  constructor(message: string, hint: string, retryable = false, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    Object.defineProperty(this, 'message', { enumerable: true }) // what JSON.stringify makes of an error holds it too
    this.retryable = retryable
    this.hint = hint
  }

  /** @internal */
  get [BRAND](): true {
    return true
  }
}

/** An argument, an option or a stored envelope is not what the call takes. Found before any network. */
export class InvalidInputError extends EaasBaseError {
  override readonly name = 'InvalidInputError'
  readonly code = 'E_INVALID_INPUT'
  /** Set where the value is one of a record, by `encryptMany`, `decryptMany` and models: which value of which record. */
  declare readonly place?: RecordPlace

  constructor(message: string, hint = 'Correct the value named in the message.', place?: RecordPlace) {
    super(placed(message, place), hint)
    if (place) this.place = place
  }
}

/** The codes of a service and of a broker that are known; a newer one may have others. */
export type ServiceProblem =
  | ProblemCode
  | 'E_CROSS_SITE'
  | 'E_NOT_ALLOWED'
  | 'E_TOO_MANY_CALLS'
  | 'E_BAD_GATEWAY'
  | (string & Record<never, never>)

/** What the service answered when it refused a call: the fields of its problem document. */
export interface ApiProblem {
  /** HTTP status. */
  status: number
  title: string
  detail: string
  /** The service's own code, such as `E_NOT_FOUND` or `E_STATE`, or a broker's. */
  problem: ServiceProblem
  /** The `X-Request-Id` of the answer, to be quoted to whoever runs the service. */
  requestId: string | undefined
}

/** The service refused the call, and said why in a problem document. */
export class ApiError extends EaasBaseError implements ApiProblem {
  override readonly name = 'ApiError'
  readonly code = 'E_API'
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly problem: ServiceProblem
  readonly requestId: string | undefined

  constructor(call: string, answer: ApiProblem, hint: string, retryable: boolean) {
    super(`${call}: ${answer.status} ${answer.title} (${answer.problem}): ${answer.detail}`, hint, retryable)
    this.status = answer.status
    this.title = answer.title
    this.detail = answer.detail
    this.problem = answer.problem
    this.requestId = answer.requestId
  }
}

/** No answer came: the service could not be reached, or the connection broke, at every attempt. */
export class NetworkError extends EaasBaseError {
  override readonly name = 'NetworkError'
  readonly code = 'E_NETWORK'
}

/** The deadline over all attempts (`timeoutMs`) passed. */
export class TimeoutError extends EaasBaseError {
  override readonly name = 'TimeoutError'
  readonly code = 'E_TIMEOUT'
}

/** The caller's `signal` was aborted, and `cause` is its reason; or the client is closed. */
export class AbortedError extends EaasBaseError {
  override readonly name = 'AbortedError'
  readonly code = 'E_ABORTED'

  /** @param signal the one that was aborted; without it the client is closed */
  constructor(signal?: AbortSignal) {
    super(
      signal ? 'aborted by the signal that the caller passed' : 'the client is closed',
      signal ? 'Nothing to do: the caller asked for it.' : 'Create a new client.',
      false,
      signal?.reason,
    )
  }
}

/** The answer is not what the contract of the API says: a proxy's page, a redirect, a wrong version, or an attack. */
export class ProtocolError extends EaasBaseError {
  override readonly name = 'ProtocolError'
  readonly code = 'E_PROTOCOL'
  /** HTTP status of the answer. */
  readonly status: number

  constructor(message: string, status: number, retryable = false) {
    super(
      message,
      'Check that baseUrl names an EaaS service of a fitting version, with no proxy answering for it.',
      retryable,
    )
    this.status = status
  }
}

/** Why a value does not open, where more may be told than that it does not. */
export interface DecryptionFailure {
  message?: string
  hint?: string
  /** What the service said, where it was the service that noticed. */
  cause?: unknown
}

/**
 * A value does not open: altered, cut, or sealed under another key, whether this process noticed or the service. Which part of it
 * is wrong is never told, and no byte of plaintext is released.
 */
export class DecryptionError extends EaasBaseError {
  override readonly name = 'DecryptionError'
  readonly code = 'E_DECRYPTION'
  /** Set where the value is one of a record, by `decryptMany` and models: which value of which record. */
  declare readonly place?: RecordPlace

  constructor(place?: RecordPlace, failure: DecryptionFailure = {}) {
    const { message = 'could not decrypt: altered, or sealed under another key' } = failure
    super(placed(message, place), failure.hint ?? 'Restore the envelope from a backup.', false, failure.cause)
    if (place) this.place = place
  }
}

/** A value was opened and is authentic, but is not of the kind that was asked for: no UTF-8 text, or no JSON. */
export class ContentError extends EaasBaseError {
  override readonly name = 'ContentError'
  readonly code = 'E_CONTENT'
  /** Set where the value is one of a record, by `decryptMany` and models: which value of which record. */
  declare readonly place?: RecordPlace

  constructor(message: string, hint: string, place?: RecordPlace) {
    super(placed(message, place), hint)
    if (place) this.place = place
  }
}

/** The platform gives no secure randomness, and so nothing can be encrypted. */
export class RandomnessError extends EaasBaseError {
  override readonly name = 'RandomnessError'
  readonly code = 'E_RANDOMNESS'

  constructor(message: string) {
    super(message, 'Run where crypto.getRandomValues works: Node 20.19 or later, or a current browser.')
  }
}

/** Any error of the SDK; `code` tells them apart, for TypeScript too. */
export type EaasError =
  | InvalidInputError
  | ApiError
  | NetworkError
  | TimeoutError
  | AbortedError
  | ProtocolError
  | DecryptionError
  | ContentError
  | RandomnessError

/**
 * Tells whether a caught value is an error of the SDK, of this copy of the package or of another one in the same program.
 * Does not use the network.
 *
 * @example
 * ```ts
 * try {
 *   await eaas.keys.create({ name: 'users' })
 * } catch (error) {
 *   if (isEaasError(error) && error.code === 'E_API' && error.status === 409) console.log('the name is taken')
 *   else throw error
 * }
 * ```
 */
export function isEaasError(value: unknown): value is EaasError {
  // By its tag: an error of another realm, a frame or the context of a test runner, is not an `instanceof Error` here.
  return Object.prototype.toString.call(value) === '[object Error]' && (value as { [BRAND]?: unknown })[BRAND] === true
}

/** An error that arose without a place, such as one that the service noticed, with the place of the value. */
export function placedAt(error: EaasError, place: RecordPlace): EaasError {
  return error.code === 'E_DECRYPTION' && !error.place ? new DecryptionError(place, error) : error
}

function placed(message: string, place: RecordPlace | undefined): string {
  return place ? `record ${place.index}, field ${JSON.stringify(place.field)}: ${message}` : message
}

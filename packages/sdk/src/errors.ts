/** Every error that the SDK throws by itself: one family, told apart by a literal `code`. */

const BRAND = Symbol.for('eaas.error')

/** The codes of the SDK's errors, one for each kind. */
export type EaasErrorCode = EaasError['code']

/** Where in a list of records an error arose: the record's index in the list, and the field's name. */
export interface RecordPlace {
  index: number
  field: string
}

/**
 * What all errors of the SDK share. No message, cause or enumerable field of one ever holds an API key, a DEK or a
 * plaintext, and no error of another library is chained to it.
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

  constructor(message: string, hint: string, retryable = false) {
    super(message)
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

/** What the service answered when it refused a call: the fields of its problem document. */
export interface ApiProblem {
  /** HTTP status. */
  status: number
  title: string
  detail: string
  /** The service's own code, such as `E_NOT_FOUND` or `E_STATE`. */
  problem: string
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
  readonly problem: string
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

/** The caller's `signal` was aborted, or the client is closed. */
export class AbortedError extends EaasBaseError {
  override readonly name = 'AbortedError'
  readonly code = 'E_ABORTED'

  constructor(reason: 'signal' | 'closed') {
    const closed = reason === 'closed'
    super(
      closed ? 'the client is closed' : 'aborted by the signal that the caller passed',
      closed ? 'Create a new client.' : 'Nothing to do: the caller asked for it.',
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

/**
 * A value does not open: altered, cut, or sealed under another key. Which of them is never told, and no byte of
 * plaintext is released.
 */
export class DecryptionError extends EaasBaseError {
  override readonly name = 'DecryptionError'
  readonly code = 'E_DECRYPTION'
  /** Set where the value is one of a record, by `decryptMany` and models: which value of which record. */
  declare readonly place?: RecordPlace

  constructor(place?: RecordPlace) {
    super(
      placed('could not decrypt: altered, or sealed under another key', place),
      'Restore the envelope from a backup.',
    )
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
  return value instanceof Error && (value as { [BRAND]?: unknown })[BRAND] === true
}

function placed(message: string, place: RecordPlace | undefined): string {
  return place ? `record ${place.index}, field ${JSON.stringify(place.field)}: ${message}` : message
}

/** The errors that the SDK throws: one family, told apart by a literal `code`. */
import type { ProblemCode } from '@eaas/protocol'

const BRAND = Symbol.for('eaas.error')
/** The codes of the SDK's errors, one for each kind. */
export type EaasErrorCode = EaasError['code']

/** Which value of a list of records an error is about: the record's index in the list, from 0, and the field's name. */
export interface RecordPlace {
  /** The record's number in the list, from 0. */
  index: number
  /** The field's name in the call or the model. */
  field: string
  /** The model's name, if the call was on a model. */
  model?: string
  /** Identifies a stored row of a model: the values of its `bind` columns, or its `id`, as text by column. */
  row?: Readonly<Record<string, string>>
}

/** What all errors of the SDK share. No message, cause or enumerable field contains an API key, DEK or plaintext. */
export abstract class EaasBaseError extends Error {
  /** The name of the class, spelt out in each, since minifiers rename classes. */
  abstract override readonly name: string
  /** The kind of error. Stable: compare with this, not with the message. */
  abstract readonly code: string
  /** Whether the same call may succeed if it is repeated, and repeating it does no harm. */
  readonly retryable: boolean
  /** One sentence: what to do about it. */
  readonly hint: string

  constructor(message: string, hint: string, retryable = false, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    Object.defineProperty(this, 'message', { enumerable: true }) // JSON.stringify then shows it
    this.retryable = retryable
    this.hint = hint
  }

  /** @internal */
  get [BRAND](): true {
    return true
  }
}

/** An argument, option or stored envelope is wrong. Nearly always thrown before the network is used. */
export class InvalidInputError extends EaasBaseError {
  override readonly name = 'InvalidInputError'
  readonly code = 'E_INVALID_INPUT'
  /** Which value of which record, in `encryptMany`, `decryptMany` and models. */
  declare readonly place?: RecordPlace
  /** The name of the wrong option or argument, as passed. Not every error has it. */
  declare readonly option?: string

  constructor(
    message: string,
    hint = 'Correct the value named in the message.',
    about?: RecordPlace | { option: string },
  ) {
    super(about && 'index' in about ? placed(message, about) : message, hint)
    if (about && 'index' in about) this.place = about
    else if (about) this.option = about.option
  }
}

/** The known codes of the service and of a broker. A newer service may answer with others. */
export type ServiceProblem =
  | ProblemCode
  | 'E_CROSS_SITE'
  | 'E_NOT_ALLOWED'
  | 'E_TOO_MANY_CALLS'
  | 'E_BAD_GATEWAY'
  | (string & Record<never, never>)

/**
 * The service's refusal of a call: the fields of its problem document. Where the call sends or returns keys or values,
 * `title` and `detail` are the SDK's own, except about a missing permission.
 */
export interface ApiProblem {
  /** HTTP status of the answer. Not named `status`: Express, Fastify and others would send that to their own caller. */
  httpStatus: number
  title: string
  detail: string
  /** The service's or broker's code, such as `E_NOT_FOUND` or `E_STATE`. */
  problem: ServiceProblem
  /** The `X-Request-Id` of the answer. Quote it to the service's operator. */
  requestId: string | undefined
  /** Seconds after which the call may succeed, if the service knows, as for `E_BUDGET`. */
  retryAfterSeconds?: number
}

/** The service, or a broker, refused the call, and gave the reason in a problem document. */
export class ApiError extends EaasBaseError implements ApiProblem {
  override readonly name = 'ApiError'
  readonly code = 'E_API'
  declare readonly httpStatus: number
  declare readonly title: string
  declare readonly detail: string
  declare readonly problem: ServiceProblem
  declare readonly requestId: string | undefined
  declare readonly retryAfterSeconds?: number

  constructor(call: string, answer: ApiProblem, hint: string, retryable: boolean) {
    const detail = answer.detail.replace(`${answer.problem}: `, '') // some details begin with the code
    super(`${call}: ${answer.httpStatus} ${answer.title} (${answer.problem}): ${detail}`, hint, retryable)
    Object.assign(this, answer)
  }
}

/** No attempt got an answer: the service could not be reached, or the connection broke. */
export class NetworkError extends EaasBaseError {
  override readonly name = 'NetworkError'
  readonly code = 'E_NETWORK'
}

/** The deadline for all attempts together (`timeoutMs`) passed. */
export class TimeoutError extends EaasBaseError {
  override readonly name = 'TimeoutError'
  readonly code = 'E_TIMEOUT'
}

/** The caller aborted the `signal`, and `cause` is its reason; or the client is closed. */
export class AbortedError extends EaasBaseError {
  override readonly name = 'AbortedError'
  readonly code = 'E_ABORTED'

  /** @param signal the aborted signal; without it, the error says that the client is closed */
  constructor(signal?: AbortSignal) {
    super(
      signal ? 'aborted by the signal of the caller' : 'the client is closed',
      signal ? 'Nothing to do: the caller aborted the call.' : 'Create a new client.',
      false,
      signal?.reason,
    )
  }
}

/** The answer violates the API's contract: a proxy's page, a redirect, a service of another version, or an attack. */
export class ProtocolError extends EaasBaseError {
  override readonly name = 'ProtocolError'
  readonly code = 'E_PROTOCOL'
  declare readonly httpStatus: number

  constructor(message: string, httpStatus: number, retryable = false) {
    super(message, 'Check the base URL, the version of the service, and that no proxy answers.', retryable)
    this.httpStatus = httpStatus
  }
}

/** What a DecryptionError may say besides the fact that a value does not open. */
export interface DecryptionFailure {
  message?: string
  hint?: string | undefined
  cause?: unknown
}

const CONTEXT_HINT =
  'Pass the context that it was encrypted with, decrypt it by its model, or restore the envelope from a backup.'

const ROW_HINT =
  'Pass the row that it was encrypted with, use the old name of a model, field or column, or restore the envelope from a backup.'

/**
 * A value does not open: it was altered, truncated, moved, or sealed under another key or with another context. This
 * process or the service noticed it. The error never says which part is wrong, and no plaintext is released.
 */
export class DecryptionError extends EaasBaseError {
  override readonly name = 'DecryptionError'
  readonly code = 'E_DECRYPTION'
  /** Which value of which record, in `decryptMany` and models. */
  declare readonly place?: RecordPlace

  constructor(place?: RecordPlace, failure: DecryptionFailure = {}) {
    const { message = 'could not decrypt: altered, moved, or encrypted under another key' } = failure
    super(placed(message, place), failure.hint ?? CONTEXT_HINT, false, failure.cause)
    if (place) this.place = place
  }
}

/** A value opened and is authentic, but has another form than requested: it is not UTF-8 text, not JSON, not a number. */
export class ContentError extends EaasBaseError {
  override readonly name = 'ContentError'
  readonly code = 'E_CONTENT'
  /** Which value of which record, in `decryptMany` and models. */
  declare readonly place?: RecordPlace

  constructor(message: string, hint: string, place?: RecordPlace) {
    super(placed(message, place), hint)
    if (place) this.place = place
  }
}

/** The platform has no secure randomness, so nothing can be encrypted. */
export class RandomnessError extends EaasBaseError {
  override readonly name = 'RandomnessError'
  readonly code = 'E_RANDOMNESS'

  constructor(message: string) {
    super(message, 'Run in Node 20.19 or later, or in a current browser.')
  }
}

/** A synchronous call would have to wait for a DEK or for the engine. See `@eaas/sdk/sync`. */
export class ColdError extends EaasBaseError {
  override readonly name = 'ColdError'
  readonly code = 'E_COLD'
}

/** The database of a backfill (`@eaas/cli/backfill`) refused a statement or did not answer. Contains no data. */
export class DatabaseError extends EaasBaseError {
  override readonly name = 'DatabaseError'
  readonly code = 'E_DATABASE'
  /** The database's code for the error, five letters or digits; undefined if it did not answer. */
  readonly sqlState: string | undefined

  constructor(message: string, sqlState: string | undefined, hint?: string) {
    super(message, hint ?? 'Look the SQLSTATE up in the manual of the database, and its log for the statement.')
    this.sqlState = sqlState
  }
}

/** Any error of the SDK. `code` tells them apart, which TypeScript understands. */
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
  | ColdError
  | DatabaseError

/**
 * Tells whether a caught value is an error of the SDK, from this copy of the package or from another in the same
 * program. Does not use the network.
 * @example
 * ```ts
 * try {
 *   await eaas.keys.create({ name: 'users' })
 * } catch (error) {
 *   if (isEaasError(error) && error.code === 'E_API' && error.httpStatus === 409) console.log('the name is taken')
 *   else throw error
 * }
 * ```
 */
export function isEaasError(value: unknown): value is EaasError {
  // Not `instanceof Error`: an error of another realm, such as a frame or a test runner's context, is none.
  return Object.prototype.toString.call(value) === '[object Error]' && (value as { [BRAND]?: unknown })[BRAND] === true
}

/** Adds a value's place to a decryption error without one, such as one that the service noticed. */
export function placedAt(error: EaasError, place: RecordPlace): EaasError {
  return error.code === 'E_DECRYPTION' && !error.place ? new DecryptionError(place, error) : error
}

/** Adds the model's name, and what identifies the row, unless the error has them. Returns the same error. */
export function nameRecord<E extends EaasError>(
  error: E,
  named: { model: string; row: RecordPlace['row'] | undefined },
): E {
  const own = placeOf(error)
  if (!own || own.model !== undefined || own.row) return error
  const { model, row } = named
  const place: RecordPlace = { ...own, ...(model && { model }), ...(row && { row }) }
  const message = placed(withoutPlace(error), place)
  const stack = String(error.stack).replace(error.message, () => message)
  Object.defineProperty(error, 'stack', { value: stack, configurable: true, writable: true })
  const hint = error.hint === CONTEXT_HINT ? ROW_HINT : error.hint
  return Object.assign(error, { message, place, hint })
}

/** Returns an error's message without the record and field in it. */
export function withoutPlace(error: { readonly message: string; readonly place?: RecordPlace }): string {
  return error.message.slice(placed('', placeOf(error)).length)
}

function placeOf(error: object): RecordPlace | undefined {
  return 'place' in error ? (error.place as RecordPlace | undefined) : undefined
}

function placed(message: string, place: RecordPlace | undefined): string {
  if (!place) return message
  const { index, field, model, row } = place
  const columns = Object.entries(row ?? {}).map(([column, value]) => `${column} ${JSON.stringify(value)}`)
  const record = columns.join(' and ') || `record ${index}`
  return `${model ? `${model}, ` : ''}${record}, field ${JSON.stringify(field)}: ${message}`
}

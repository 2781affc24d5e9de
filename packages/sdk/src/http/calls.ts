/** One call of the API as the rest of the SDK makes it: its API key, its deadline and its events. */
import { fillPath, type OperationId, type OperationWithId, ROUTES, type RouteRow, type wire } from '@eaas/protocol'
import { AbortedError, isEaasError, TimeoutError } from '../errors.js'
import { assertNotAborted } from '../input.js'
import { onAbort, requestsAreIsolated, type Soon } from '../waiting.js'
import { pageOrigin } from './base-url.js'
import type * as Environment from './environment.js'
import type * as Spans from './open-telemetry.js'
import type { OpenTelemetry, TraceHeaders } from './open-telemetry.js'
import { hintFor, nameOf, type SendOptions, send } from './send.js'

/**
 * The API key, or a function that is called for it at each request. When the service refuses the key (401), the
 * function is called once more, with the refused key, and the call is repeated if it returns another one.
 */
export type ApiKey = string | ((refused?: string) => string | Promise<string>)

export interface HttpOptions
  extends Pick<SendOptions, 'fetch' | 'retries' | 'loadSchemas' | 'loadFailures' | 'observer'> {
  /** Returns the base URL, which ends with a slash. Without it, the environment names the service and the API key. */
  findBase: (() => URL) | undefined
  allowInsecure: boolean
  apiKey: ApiKey | undefined
  /** Whether the environment's API key serves without one, outside pages. */
  fromEnv: boolean
  timeoutMs: number
  /** Ends every call when it is aborted: the client was closed. */
  closed: AbortSignal
  /** Loads what few clients need: the environment, and spans. */
  loadRare: () => Soon<typeof Environment & Pick<typeof Spans, 'withSpan'>>
  openTelemetry?: OpenTelemetry | undefined
}

export type Service = { base: URL; given: ApiKey | undefined }

export type Outcome = { value: unknown } | { error: unknown }
/** What a call resolves to: for a batch the outcomes of its `parts`, in order; undefined without a body. */
export type Answer<Id extends OperationId> = Id extends 'batch' | 'createKeys'
  ? Outcome[]
  : Id extends keyof wire.Answers
    ? wire.Answers[Id]
    : undefined

/** One call of the API: its row of the contract, and what is sent. `toCall` makes it. */
export interface Call<Id extends OperationId = OperationId> extends Omit<RouteRow, 'repeatable'> {
  operationId: Id
  repeatable: boolean
  /** Relative to the base URL, without a leading slash, with the id in it. */
  path: string
  query?: Readonly<Record<string, string | number | undefined>>
  /** Sent as JSON; without it no body and no Content-Type are sent. */
  body?: object
  parts?: readonly Call[]
  /** The id that the answer must be about: of a key, or of an API key; empty where there is none. */
  about: string
  /** Texts that must not come back in an error, whatever the other end puts in its answer. */
  secrets?: readonly string[]
  signal?: AbortSignal | undefined
}

interface Sent extends Pick<Call, 'query' | 'body' | 'parts' | 'secrets' | 'signal'> {
  /** The id of a key or of an API key: it stands for `:id` in the path, and the answer must be about it. */
  id?: string
  version?: number
}

/** An id where the path holds one, and a body exactly where the contract has one. */
type Needed<Id extends OperationId> = (Id extends OperationWithId ? { id: string } : unknown) &
  (Id extends keyof wire.Bodies ? { body: object } : { body?: never })

/** Makes the call of an operation. @throws Error where a fault of the SDK has left an id empty */
export function toCall<Id extends OperationId>(operationId: Id, sent: Sent & Needed<Id>): Call<Id> {
  const { id = '', version, ...rest }: Sent = sent
  const row: RouteRow = ROUTES[operationId]
  if (id === '' && row.path.includes(':id')) throw new Error(`internal error: ${operationId} has no id`)
  const path = fillPath(row.path.slice(1), { id, version })
  return { repeatable: false, ...row, ...rest, operationId, path, about: id }
}

export type Http = <Id extends OperationId>(call: Call<Id>) => Promise<Answer<Id>>

export function createHttp(options: HttpOptions): Http {
  return async function http(call) {
    const { openTelemetry, loadRare } = options
    if (!openTelemetry) return once(call, {})
    const { withSpan } = await loadRare()
    return withSpan(openTelemetry, call, (trace) => once(call, trace))
  }

  /** Returns where a call is sent, and with which API key; in pages and workers, the session's cookie may replace it. */
  async function findService(): Promise<Service> {
    const { findBase, apiKey, loadRare } = options
    if (findBase && (apiKey !== undefined || pageOrigin() !== undefined)) return { base: findBase(), given: apiKey }
    return (await loadRare()).findInEnvironment(options)
  }

  async function once<Id extends OperationId>(call: Call<Id>, trace: TraceHeaders): Promise<Answer<Id>> {
    const { base, given } = await findService()
    return withDeadline(call, options, async (signal) => {
      const apiKey = await readApiKey(given, options)
      const sendWith = (key: string | undefined) => {
        signal.throwIfAborted() // the API key may have come late, and not every fetch checks its signal
        return send(new URL(call.path, base), call, { ...options, apiKey: key, trace, signal })
      }
      try {
        return await sendWith(apiKey)
      } catch (error) {
        // Nothing was done: repeating it does no harm, whatever the call is.
        if (typeof given !== 'function' || !isUnauthorized(error)) throw error
        const renewed = await readApiKey(given, options, apiKey)
        if (renewed === apiKey) throw error
        return sendWith(renewed)
      }
    })
  }
}

async function readApiKey(
  apiKey: ApiKey | undefined,
  { loadRare }: HttpOptions,
  refused?: string,
): Promise<string | undefined> {
  if (apiKey === undefined) return undefined
  const value: unknown = typeof apiKey === 'function' ? await apiKey(refused) : apiKey
  // Checked here because fetch would repeat a bad header in its error.
  if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value
  throw (await loadRare()).wrongApiKey(value)
}

function isUnauthorized(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && error.httpStatus === 401
}

/** Runs until done, or until deadline, signal or `close()` end it, even when fetch ignores its signal. */
async function withDeadline<T>(call: Call, options: HttpOptions, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  assertNotAborted(call.signal)
  if (options.closed.aborted) throw new AbortedError()
  const controller = new AbortController()
  const stopped = new Promise<never>((_, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason), { once: true })
  })
  const expire = () => {
    const message = `${nameOf(call)}: no answer within ${options.timeoutMs} ms`
    controller.abort(new TimeoutError(message, hintFor(call), call.repeatable))
  }
  const ignoreSignal = onAbort(call.signal, () => controller.abort(new AbortedError(call.signal)))
  const endClosed = () => controller.abort(new AbortedError())
  // Isolated requests must not touch each other's controllers: there, close() is noticed when the answer has come.
  const ignoreClose = requestsAreIsolated() ? () => undefined : onAbort(options.closed, endClosed)
  const timer = setTimeout(expire, options.timeoutMs)
  try {
    const answer = await Promise.race([stopped, run(controller.signal)])
    if (options.closed.aborted) throw new AbortedError()
    return answer
  } finally {
    clearTimeout(timer)
    ignoreSignal()
    ignoreClose()
  }
}

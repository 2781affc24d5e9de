/** One call of the API for the rest of the SDK: its API key, its deadline and its events. */
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
 * The API key, or a function that is called for it at each request. If the service refuses the key (401), the function
 * is called once more, with the refused key, and if it returns another one, the call is repeated.
 */
export type ApiKey = string | ((refused?: string) => string | Promise<string>)

export interface HttpOptions
  extends Pick<SendOptions, 'fetch' | 'retries' | 'loadSchemas' | 'loadFailures' | 'observer'> {
  /** Returns the base URL, which ends with a slash. If undefined, the environment gives the service and the API key. */
  findBase: (() => URL) | undefined
  allowInsecure: boolean
  apiKey: ApiKey | undefined
  /** Whether the environment's API key is used if none is given, outside pages. */
  fromEnv: boolean
  timeoutMs: number
  /** Aborted once the client is closed, which ends every call. */
  closed: AbortSignal
  loadRare: () => Soon<typeof Environment & Pick<typeof Spans, 'withSpan'>>
  openTelemetry?: OpenTelemetry | undefined
}

export type Service = { base: URL; given: ApiKey | undefined }

export type Outcome = { value: unknown } | { error: unknown }
/** The result of a call: for a batch the outcomes of its `parts`, in order; undefined without a body. */
export type Answer<Id extends OperationId> = Id extends 'batch' | 'createKeys'
  ? Outcome[]
  : Id extends keyof wire.Answers
    ? wire.Answers[Id]
    : undefined

/** One call of the API: its row of the contract, and what is sent. `toCall` makes it. */
export interface Call<Id extends OperationId = OperationId> extends Omit<RouteRow, 'repeatable'> {
  operationId: Id
  repeatable: boolean
  /** Relative to the base URL, without a leading slash, with the id filled in. */
  path: string
  query?: Readonly<Record<string, string | number | undefined>>
  /** Sent as JSON. Without it, neither a body nor a Content-Type is sent. */
  body?: object
  parts?: readonly Call[]
  /** The id of the key or API key that the answer must be about; empty if there is none. */
  about: string
  /** Texts that no error may contain, whatever the other end answers. */
  secrets?: readonly string[]
  signal?: AbortSignal | undefined
}

interface Sent extends Pick<Call, 'query' | 'body' | 'parts' | 'secrets' | 'signal'> {
  /** The id of a key or API key: it replaces `:id` in the path, and the answer must be about it. */
  id?: string
  version?: number
}

type Needed<Id extends OperationId> = (Id extends OperationWithId ? { id: string } : unknown) &
  (Id extends keyof wire.Bodies ? { body: object } : { body?: never })

/** Makes the call of an operation. @throws Error if a fault of the SDK left an id empty */
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

  /** Finds where a call is sent, and the API key. In pages and workers, the session's cookie may replace the key. */
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
        signal.throwIfAborted() // getting the API key takes time, and not every fetch checks its signal
        return send(new URL(call.path, base), call, { ...options, apiKey: key, trace, signal })
      }
      try {
        return await sendWith(apiKey)
      } catch (error) {
        // The service did nothing, so any call may be repeated.
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
  // Checked here, because fetch would quote a bad header in its error.
  if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value
  throw (await loadRare()).wrongApiKey(value)
}

function isUnauthorized(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && error.httpStatus === 401
}

/** Runs until done, or until the deadline, the signal or `close()` ends it, even if fetch ignores its signal. */
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
  // Isolated requests must not touch each other's controllers, so there a call notices close() once it has its answer.
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

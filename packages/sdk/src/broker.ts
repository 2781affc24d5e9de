/**
 * `@eaas/sdk/broker`: stands between pages and the service, in an application's own backend. Pages authenticate with
 * their session; the broker holds the API key. It forwards only what the user may do, and names the user to the
 * service.
 */
import type { Holding, Purpose, WrapContext } from '@eaas/protocol'
import { foldUuid, isUuid, MAX_BATCH_BODY_BYTES, MAX_BODY_BYTES } from '@eaas/protocol'
import { answerResponse, BrokerRefusal, problemOf, refusalResponse } from './broker/problem.js'
import type { Asked, BrokerOperation, Route } from './broker/request.js'
import {
  assertJson,
  assertSameOrigin,
  BROKER_OPERATIONS,
  readBody,
  readOperations,
  readRoute,
  writeCall,
} from './broker/request.js'
import { askService, badGateway, findOwnFault, type Upstream, type UpstreamAnswer } from './broker/upstream.js'
import { createLimit, createUserHoldings, encodeUserId } from './broker/users.js'
import { InvalidInputError } from './errors.js'
import { ENVIRONMENT_HINT, readBaseUrl } from './http/base-url.js'
import type { Fetch } from './http/fetch.js'
import { type AuditContext, assertAuditContext, assertOptions, assertWhole, MAX_TIMEOUT_MS } from './input.js'

export { type NodeBrokerRequest, type NodeBrokerResponse, toNodeHandler } from './broker/node.js'
export type { BrokerOperation } from './broker/request.js'
export { UpstreamError } from './broker/upstream.js'
export { encodeUserId } from './broker/users.js'
export type { Fetch, FetchBody, FetchInit, FetchResponse } from './http/fetch.js'
export type { AuditContext } from './input.js'
export { contextRow } from './uses.js'

const DEFAULT_CALLS_PER_MINUTE = 2_000
const DEFAULT_TIMEOUT_MS = 20_000
/** How long a browser may keep the answer to its preflight, in seconds. */
const PREFLIGHT_MAX_AGE_S = 600
const OPTIONS: readonly (keyof BrokerOptions)[] = [
  ...(['baseUrl', 'apiKey', 'authenticate', 'allow', 'limits', 'basePath', 'origins'] as const),
  ...(['maxBodyBytes', 'timeoutMs', 'allowInsecure', 'fetch', 'onError', 'auditContext'] as const),
]

/** The user who is logged in. The audit log records the id: see `encodeUserId`. */
export interface BrokerUser {
  id: string
}

/** With `indexSecret` a page computes indexes without another call; with `blindHash` the broker sees no value. */
export interface BrokerCall {
  operation: BrokerOperation
  /** The `id` of the key. */
  key_id: string
  /** For wrap and unwrap: the purpose of the DEK. The service unwraps a key only for the purpose it was wrapped for. */
  purpose?: Purpose | undefined
  /** For wrap and unwrap: what the DEK seals, such as `{ model: 'customers', row: '7' }`. See `contextRow`. */
  context?: WrapContext | undefined
  /** For `indexSecret`: whose indexes it makes, such as the model `users`, or `users:2` for its generation 2. */
  name?: string | undefined
  /** For `blindHash`: the number of values, 1 to 256. */
  elements?: number | undefined
}

/**
 * By operation, the ids of the keys that every user may use. Nobody may use an operation that is missing. With
 * `indexSecret`, a page can compute the index of any value.
 */
export type AllowedKeys = { readonly [O in BrokerOperation]?: readonly string[] | undefined }

export interface BrokerOptions<U extends BrokerUser = BrokerUser> {
  /** The service's absolute URL, with its path prefix, without `/v1`. Required at the first request. */
  baseUrl: string | undefined
  /**
   * The API key, or a function that returns it for each request. It needs `audit:on_behalf_of`, and those of `wrap`,
   * `unwrap` and `hash` that `allow` permits (`unwrap` for `indexSecret`, `hash` for `blindHash`). Give it no other
   * permission and no other keys. Required at the first request, since a build may have no environment.
   */
  apiKey: string | (() => string | Promise<string>) | undefined
  /** Finds the logged-in user from the application's session; undefined if there is none. Must not read the body. */
  authenticate: (request: Request) => U | undefined | Promise<U | undefined>
  /** The same keys for all users, or a function that decides each operation; only `true` allows it. */
  allow: AllowedKeys | ((user: U, call: BrokerCall) => boolean | Promise<boolean>)
  /**
   * `callsPerMinute` per user, 2,000 by default, counted in this process's memory. Each operation of a batch counts,
   * each value of a `blindHash`, each 256 pieces of a body, and also refused ones.
   */
  limits?: { callsPerMinute?: number | undefined } | undefined
  /** The path where the broker is mounted; `/api/eaas` by default. */
  basePath?: string | undefined
  /** Other origins whose pages may call with their cookies, such as `https://app.example.org`; none by default. */
  origins?: readonly string[] | undefined
  /** The most bytes of a request's body; 1 MiB by default, 8 MiB at most. */
  maxBodyBytes?: number | undefined
  /** How long the service may take to answer, in milliseconds; 20,000 by default. */
  timeoutMs?: number | undefined
  /** Accepts `http` to another machine, although the network then sees the API key and data keys. False by default. */
  allowInsecure?: boolean | undefined
  /** Replaces the global `fetch`, for example with undici's, which takes a dispatcher. */
  fetch?: Fetch | undefined
  /** Called with each error of the broker or the service, for the application's log; `console.error` by default. */
  onError?: ((error: unknown) => void) | undefined
  /** How the audit log records contexts, as in the option of `createClient`. No page can choose it. */
  auditContext?: AuditContext | undefined
}

/** Answers one request; never rejects. */
export type Broker = (request: Request) => Promise<Response>

/**
 * Creates a broker, which handles `POST …/v1/keys/:id/wrap`, `…/unwrap`, `…/index-secret`, `…/v1/hash`,
 * `…/v1/hash/blind` and `…/v1/batch` of these five, to mount at `basePath`. Does not use the network itself. A refused
 * request is answered with a problem document: 401 without a session; 403 `E_NOT_ALLOWED`, and `E_CROSS_SITE` for
 * another site's page; 404, 405, 413, 415, 400; 429 `E_TOO_MANY_CALLS`, also when the user's open calls hold too much
 * memory; 503 when those of all users do, or when the service does not answer; and 502 `E_BAD_GATEWAY` when its answer
 * does not fit the contract. In a batch, an operation that `allow` refuses gets a 403 as its result, and the broker
 * forwards the others, if any.
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const broker = createBroker({
 *   baseUrl: 'https://eaas.example.org',
 *   apiKey: process.env.EAAS_API_KEY,
 *   authenticate: (request) => findSession(request.headers.get('cookie')),
 *   allow: (user, { operation }) => operation === 'wrap' || user.isDoctor,
 * })
 * ```
 */
export function createBroker<U extends BrokerUser>(options: BrokerOptions<U>): Broker {
  const settings = readOptions(options)
  const { basePath, origins, onError } = settings

  return async (request) => {
    const cors = corsHeaders(request, origins)
    try {
      const url = new URL(request.url)
      const isPreflight = cors !== undefined && request.method === 'OPTIONS'
      const route = readRoute(isPreflight ? 'POST' : request.method, url, basePath)
      if (isPreflight) return preflight(cors)
      assertSameOrigin(request, url, origins)
      return withHeaders(await serve(settings, route, request), cors)
    } catch (error) {
      if (!(error instanceof BrokerRefusal)) onError(error)
      else if (error.cause !== undefined) onError(error.cause)
      const refusal = error instanceof BrokerRefusal ? error : new BrokerRefusal('E_INTERNAL', 'unexpected error')
      return withHeaders(refusalResponse(refusal), cors)
    }
  }
}

async function serve<U extends BrokerUser>(settings: Settings<U>, route: Route, request: Request): Promise<Response> {
  const user = await settings.authenticate(request)
  if (!user) throw new BrokerRefusal('E_UNAUTHORIZED', 'there is no session: log in first')
  const onBehalfOf = encodeUserId(user.id)
  settings.count(onBehalfOf, 1)
  assertJson(request)
  const holding = settings.hold(onBehalfOf)
  try {
    return await forward(settings, route, { request, user, onBehalfOf, holding })
  } finally {
    holding.end()
  }
}

type Held<U> = { request: Request; user: U; onBehalfOf: string; holding: Holding }

async function forward<U extends BrokerUser>(
  settings: Settings<U>,
  route: Route,
  { request, user, onBehalfOf, holding }: Held<U>,
): Promise<Response> {
  const count = (calls: number) => settings.count(onBehalfOf, calls)
  const asked = readOperations(route, await readBody(request, { maxBytes: settings.maxBodyBytes, holding, count }))
  count(asked.reduce((sum, { op, argument }) => sum + (op === 'blindHash' ? argument.length : 1), -1))
  const verdicts = await Promise.all(asked.map(async (one) => (await settings.allow(user, callOf(one))) === true))
  const allowed = asked.filter((_, at) => verdicts[at])
  if (allowed.length === 0) throw notAllowed(asked)
  const apiKey = await readApiKey(settings.apiKey)
  const answer = await askService(settings.upstream, {
    ...writeCall(route, allowed, settings.auditContext),
    apiKey,
    onBehalfOf,
    signal: request.signal,
  })
  const isBatch = route.name === 'batch' && answer.status === 200
  const text = isBatch ? merge(answer, { asked, verdicts, onError: settings.onError }) : answer.text
  return answerResponse({ ...answer, text }, answer.requestId === undefined ? {} : { 'x-request-id': answer.requestId })
}

function callOf({ op, key_id, argument, use }: Asked): BrokerCall {
  if (op === 'blindHash') return { operation: op, key_id, elements: argument.length }
  return { operation: op, key_id, ...(op === 'indexSecret' ? { name: argument as string } : use) }
}

type Merging = { asked: readonly Asked[]; verdicts: readonly boolean[]; onError: (error: unknown) => void }

/** Merges the results with a refusal for each operation that was not allowed. Reports the first fault of the broker's own API key. */
function merge({ body }: UpstreamAnswer, { asked, verdicts, onError }: Merging): string {
  if (!Array.isArray(body.results)) throw badGateway('the answer to a batch has no results')
  if (body.results.length !== verdicts.filter(Boolean).length)
    throw badGateway('the number of results differs from the number of operations')
  const ownFaults: BrokerRefusal[] = []
  const results: unknown[] = body.results.map((result: unknown) => {
    const ownFault = findOwnFault(result)
    if (ownFault) ownFaults.push(ownFault)
    return ownFault ? problemOf(ownFault) : result
  })
  if (ownFaults[0]) onError(ownFaults[0].cause)
  const all = asked.map((one, at) => (verdicts[at] ? results.shift() : problemOf(notAllowed([one]))))
  return JSON.stringify({ results: all })
}

function notAllowed(asked: readonly Asked[]): BrokerRefusal {
  const operations = [...new Set(asked.map(({ op }) => op))].join(' and ')
  return new BrokerRefusal('E_NOT_ALLOWED', `this user may not ${operations} with this key`)
}

async function readApiKey(apiKey: BrokerOptions['apiKey']): Promise<string> {
  const value: unknown = typeof apiKey === 'function' ? await apiKey() : apiKey
  // Checked here, because fetch would quote a bad header in its error.
  if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value
  if (value === undefined)
    throw new InvalidInputError('apiKey is missing', `Pass an API key to createBroker(). ${ENVIRONMENT_HINT}`)
  const hint = 'Check where the API key is read from.'
  throw new InvalidInputError('apiKey must be text of visible ASCII characters, without spaces', hint)
}

function corsHeaders(request: Request, origins: ReadonlySet<string>): Record<string, string> | undefined {
  const origin = request.headers.get('origin')
  if (origin === null || !origins.has(origin)) return undefined
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers': 'x-request-id, retry-after',
    vary: 'Origin',
  }
}

function preflight(cors: Record<string, string>): Response {
  const asked = { 'access-control-allow-methods': 'POST', 'access-control-allow-headers': 'content-type, traceparent' }
  const headers = { ...cors, ...asked, 'access-control-max-age': String(PREFLIGHT_MAX_AGE_S) }
  return new Response(null, { status: 204, headers })
}

function withHeaders(response: Response, headers: Record<string, string> | undefined): Response {
  for (const [name, value] of Object.entries(headers ?? {})) response.headers.set(name, value)
  return response
}

interface Settings<U extends BrokerUser> {
  upstream: Upstream
  apiKey: BrokerOptions['apiKey']
  authenticate: BrokerOptions<U>['authenticate']
  allow: (user: U, call: BrokerCall) => boolean | Promise<boolean>
  count: ReturnType<typeof createLimit>
  hold: ReturnType<typeof createUserHoldings>
  basePath: string
  origins: ReadonlySet<string>
  maxBodyBytes: number
  onError: (error: unknown) => void
  auditContext: AuditContext | undefined
}

function readOptions<U extends BrokerUser>(options: BrokerOptions<U>): Settings<U> {
  assertOptions('createBroker()', options, OPTIONS)
  assertOptions('limits', options.limits ?? {}, ['callsPerMinute'])
  const { apiKey, authenticate, basePath = '/api/eaas', origins = [] } = options
  const { maxBodyBytes = MAX_BODY_BYTES, timeoutMs = DEFAULT_TIMEOUT_MS } = options
  const { callsPerMinute = DEFAULT_CALLS_PER_MINUTE } = options.limits ?? {}
  // A missing API key or baseUrl is reported by the first request, since builds also load this module.
  if (apiKey !== undefined && typeof apiKey !== 'string' && typeof apiKey !== 'function')
    throw new InvalidInputError('apiKey must be a string or a function')
  if (typeof authenticate !== 'function') throw new InvalidInputError('authenticate must be a function')
  if (!/^(?:\/[\w.~-]+)*$/.test(basePath) || /\/\.{1,2}(?:\/|$)/.test(basePath))
    throw new InvalidInputError('basePath must be a path such as /api/eaas, without a slash at its end')
  if (!Array.isArray(origins)) throw new InvalidInputError('origins must be an array')
  for (const origin of origins) assertOrigin(origin)
  for (const [name, value] of Object.entries({ fetch: options.fetch, onError: options.onError })) {
    if (value !== undefined && typeof value !== 'function') throw new InvalidInputError(`${name} must be a function`)
  }
  assertAuditContext(options.auditContext)
  assertWhole('maxBodyBytes', maxBodyBytes, 1, MAX_BATCH_BODY_BYTES)
  assertWhole('timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS)
  assertWhole('limits.callsPerMinute', callsPerMinute, 1, Number.MAX_SAFE_INTEGER)
  const send: Fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init))
  return {
    upstream: { findBase: readBaseUrl(options.baseUrl, options.allowInsecure === true), fetch: send, timeoutMs },
    apiKey,
    authenticate,
    allow: readAllow(options.allow),
    count: createLimit(callsPerMinute, () => performance.now()),
    hold: createUserHoldings(),
    basePath,
    origins: new Set(origins),
    maxBodyBytes,
    auditContext: options.auditContext,
    onError: reportTo(options.onError ?? ((error) => console.error(error))),
  }
}

/** Wraps `onError` so that neither a throw nor a rejection from it fails the request: the page still gets its answer. */
function reportTo(onError: (error: unknown) => unknown): (error: unknown) => void {
  return (error) => {
    new Promise((resolve) => resolve(onError(error))).catch(() => undefined)
  }
}

function readAllow<U extends BrokerUser>(allow: BrokerOptions<U>['allow']): Settings<U>['allow'] {
  if (typeof allow === 'function') return allow
  assertOptions('allow', allow, BROKER_OPERATIONS)
  const keys = new Map<BrokerOperation, ReadonlySet<string>>()
  for (const operation of BROKER_OPERATIONS) {
    const ids: unknown = allow[operation] ?? []
    if (
      allow[operation] === null ||
      !Array.isArray(ids) ||
      !ids.every((id) => typeof id === 'string' && isUuid(foldUuid(id)))
    ) {
      throw new InvalidInputError(`allow.${operation} must be an array of key ids, which are UUIDs`)
    }
    keys.set(operation, new Set(ids.map(foldUuid)))
  }
  return (_, { operation, key_id }) => keys.get(operation)?.has(key_id) === true
}

function assertOrigin(origin: string): void {
  if (/^https?:/.test(origin) && URL.canParse(origin) && new URL(origin).origin === origin) return
  throw new InvalidInputError('origins must contain origins such as https://app.example.org, without a path')
}

/**
 * Sends one call, and checks the answer. If the first attempt fails in a way that may pass, ky is loaded: it gets the
 * outcome of that attempt, makes the further ones and waits between them. It never holds a header, a body or an answer,
 * so none of its errors can show one. `calls.ts` sets the deadline: it includes the time to get the API key, whereas
 * ky's is per attempt.
 */
import { type OperationId, PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import type * as wire from '@eaas/protocol/answers'
import { AnswerError, isPageCall, readBatchResults, readPageAnswer, readProblem } from '@eaas/protocol/page-answers'
import { ApiError, isEaasError, NetworkError, ProtocolError } from '../errors.js'
import { loadOnce, loadPart, type Soon } from '../waiting.js'
import { apiHint, hintFor, nameOf, shownOf } from './call-errors.js'
import type { Answer, Call, Outcome } from './calls.js'
import type { RetryEvent } from './events.js'
import { type Fetch, type FetchInit, type FetchResponse, readText } from './fetch.js'
import type { TraceHeaders } from './open-telemetry.js'
import { causeOf, hide, spellingsOf, toPrintable } from './secrets.js'

/** The longest answer that is read, decompressed. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** The longest answer of a call whose row says `isLong`. */
const MAX_LONG_ANSWER_BYTES = 16 * MAX_ANSWER_BYTES
/** The most characters kept of a text from the other end. */
const MAX_TEXT = 1_000
/** So many letters and digits in a row may be a key of 32 bytes: in base64 it has 43, in hexadecimal digits 64. */
const KEY_LIKE = /[\w+/-]{43,}/g
const KEY_LIKE_MARGIN = 100
/** The types of an answer that an error names; a service could write a secret into any other. */
const SHOWN_TYPES = ['application/json', PROBLEM_CONTENT_TYPE, 'text/html', 'text/plain']

/**
 * Statuses of failures that may pass within seconds. Not 429, which lasts longer than retries take, so the caller
 * decides whether to wait: the server's quota lasts until the month ends, a budget for up to a minute or a day, as
 * the error says, and a broker's limit (`E_TOO_MANY_CALLS`) for up to 60 s, as its Retry-After and the error's detail
 * state.
 */
const RETRY_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504])
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000

const loadKy = /* @__PURE__ */ loadOnce(() => import('ky'))

/** The schemas of all answers. Loaded for the calls that a page that seals and opens does not make, since they need zod. */
export type Schemas = Pick<typeof wire, 'ANSWERS' | 'BASE64_ANSWERS' | 'readAnswer'>

/** Reads the answer of a call; undefined where the call has none. @throws AnswerError */
type Read = (id: OperationId, json: unknown) => { value: unknown } | undefined

/** Returns what reads the answer of a call and of its parts. Loaded before anything is sent, so that what was done can be read. */
async function readerFor({ operationId, parts = [] }: Call, loadSchemas: SendOptions['loadSchemas']): Promise<Read> {
  const ids = parts.length > 0 ? parts.map((part) => part.operationId) : [operationId]
  if (ids.every(isPageCall)) return (id, json) => (isPageCall(id) ? { value: readPageAnswer(id, json) } : undefined)
  const { ANSWERS, BASE64_ANSWERS, readAnswer } = await loadSchemas()
  const schemas: Partial<Record<OperationId, wire.Answer>> = { ...ANSWERS, ...BASE64_ANSWERS }
  return (id, json) => {
    const schema = schemas[id]
    return schema && { value: readAnswer(schema, json) }
  }
}

export interface SendOptions {
  /** Undefined where a session authenticates the caller: the call is then sent with the page's cookies. */
  apiKey: string | undefined
  /** With which the service continues the caller's trace. */
  trace?: TraceHeaders
  fetch: Fetch | undefined
  loadSchemas: () => Soon<Schemas>
  /** How often a repeatable call is tried again. */
  retries: number
  /** Ends all attempts. Its reason is the error that the caller gets. */
  signal: AbortSignal
  /** Called after an attempt that failed, before the next one. */
  onRetry(failed: Pick<RetryEvent, 'attempt' | 'status' | 'durationMs'>): void
}

/** Returns the spellings of everything that no error may show. Called only for an error. */
type Spellings = () => readonly string[]

/** How an answer is read, and what no error about it may show. */
interface Reading {
  read: Read
  secrets: Spellings
}

interface RawAnswer {
  status: number
  contentType: string
  requestId: string | undefined
  text: string
}

/**
 * Sends one call, and sends it again where that is safe and may succeed. Returns the parsed answer.
 *
 * @throws ApiError, NetworkError, ProtocolError, or the reason of the signal
 */
export async function send<Id extends OperationId>(
  url: URL,
  call: Call<Id>,
  options: SendOptions,
): Promise<Answer<Id>> {
  const { apiKey } = options
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  let hidden: readonly string[] | undefined
  const secrets = () => {
    hidden ??= spellingsOf([...(apiKey === undefined ? [] : [apiKey]), ...(call.secrets ?? [])])
    return hidden
  }
  const read = await readerFor(call, options.loadSchemas)
  const answer = await attempt(url, call, options).catch((error: unknown) => {
    throw isEaasError(error) ? error : networkError(url, call, { error, secrets })
  })
  return readAnswer(call, answer, { read, secrets })
}

/**
 * Sends a call, and sends it again after a failure that may pass or without an answer, if its row in `ROUTES` is
 * repeatable. Returns the last answer. Waits a random time before the next attempt: up to 100 ms after the first, up
 * to twice as long after each further one, up to 2 s at most. It is random even at that limit, so that clients that
 * failed together do not retry together. Ignores Retry-After, which could delay a caller for an hour.
 *
 * @throws what the last attempt threw, or the signal's reason
 */
async function attempt(url: URL, call: Call, options: SendOptions): Promise<RawAnswer> {
  const { fetch = globalThis.fetch, retries, signal, onRetry } = options
  let answer: RawAnswer | undefined
  let durationMs = 0
  const retryStatus = (status: number) => status !== call.alsoStatus && mayPass(call, status)
  const sendOnce = async () => {
    const startedAt = performance.now()
    answer = undefined
    try {
      answer = await receive(call, await fetch(url.href, requestInit(call, options)))
    } finally {
      durationMs = performance.now() - startedAt
    }
    return new Response(null, { status: retryStatus(answer.status) ? answer.status : 200 })
  }
  const beforeRetry = ({ retryCount }: { retryCount: number }) =>
    onRetry({ attempt: retryCount, status: answer?.status, durationMs })
  const limit = call.repeatable ? retries : 0
  let first: { response: Response } | { error: unknown } | undefined = await sendOnce().then(
    (response) => ({ response }),
    (error: unknown) => ({ error }),
  )
  const isOver = limit === 0 || ('error' in first ? isEaasError(first.error) : first.response.ok)
  const loaded = isOver ? undefined : await loadPart(async () => loadKy()).catch(() => undefined) // without ky, this attempt is the last
  if (!loaded && 'error' in first) throw first.error
  if (!loaded && answer) return answer
  try {
    await loaded?.default(url.href, {
      method: call.method,
      async fetch() {
        const outcome = first
        first = undefined
        if (outcome && 'error' in outcome) throw outcome.error
        return outcome ? outcome.response : sendOnce()
      },
      signal,
      timeout: false,
      throwHttpErrors: retryStatus,
      hooks: { beforeRetry: [beforeRetry] },
      retry: {
        limit,
        methods: [call.method],
        delay: (attempt) => Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), MAX_DELAY_MS),
        jitter: true,
        // An error of the SDK means that another attempt would fail the same way.
        shouldRetry: ({ error }) => !isEaasError(error),
      },
    })
  } catch (error) {
    if (!loaded?.isHTTPError(error)) throw error
  }
  if (!answer) throw new TypeError('fetch returned nothing')
  return answer
}

/** Tells whether a call that failed with this status may succeed if it is sent again, and does no harm. */
export function mayPass(call: Call, status: number): boolean {
  return call.repeatable && RETRY_STATUSES.has(status)
}

/** Plain options, which the fetch of another library takes too. */
function requestInit({ method, body }: Call, { apiKey, trace, signal }: SendOptions): FetchInit {
  takesCache ??= isCacheTaken()
  return {
    method,
    headers: {
      accept: `application/json, ${PROBLEM_CONTENT_TYPE}`,
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...trace,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // Never followed, since that would send the body, with its DEK, to another server: `receive` refuses a
    // redirect.
    redirect: 'manual',
    ...(takesCache ? { cache: 'no-store' } : {}),
    credentials: apiKey === undefined ? 'include' : 'omit', // for a broker of another origin, which names the page's
    referrerPolicy: 'no-referrer',
    signal,
  }
}

let takesCache: boolean | undefined

/**
 * Tells whether the platform knows `cache`, which workerd lacks before its compatibility date 2024-11-11:
 * there, it throws.
 */
function isCacheTaken(): boolean {
  try {
    return new Request('https://eaas.invalid', { cache: 'no-store' }).method === 'GET'
  } catch {
    return false
  }
}

async function receive(call: Call, response: FetchResponse): Promise<RawAnswer> {
  if (response.redirected || response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400)) {
    response.body?.cancel().catch(() => undefined) // the answer is refused already, so an error here changes nothing
    throw new ProtocolError(`${nameOf(call)}: a redirect, which is never followed`, response.status)
  }
  const requestId = response.headers.get('x-request-id') ?? ''
  const most = call.isLong ? MAX_LONG_ANSWER_BYTES : MAX_ANSWER_BYTES
  const refuse = (fault: string) => new ProtocolError(`${nameOf(call)}: the answer is ${fault}`, response.status)
  return {
    status: response.status,
    contentType: response.headers.get('content-type') ?? '',
    requestId: /^[\x21-\x7e]{1,128}$/.test(requestId) ? requestId : undefined,
    text: await readText(response.body, most, refuse),
  }
}

function readAnswer<Id extends OperationId>(call: Call<Id>, answer: RawAnswer, reading: Reading): Answer<Id> {
  const { status, contentType } = answer
  const mediaType = contentType.replace(/;.*$/s, '').trim().toLowerCase()
  // A response with `alsoStatus` has an answer or a problem.
  const succeeded = isSuccess(status) || (status === call.alsoStatus && mediaType !== PROBLEM_CONTENT_TYPE)
  if (call.status === 204 && status === 204 && answer.text === '') return undefined as Answer<Id>
  const expected = succeeded ? 'application/json' : PROBLEM_CONTENT_TYPE
  if (mediaType !== expected) {
    const got = contentType === '' ? 'no content type' : SHOWN_TYPES.includes(mediaType) ? mediaType : 'another'
    throw new ProtocolError(
      `${nameOf(call)}: status ${status} must have the type ${expected}, got ${got}`,
      status,
      mayPass(call, status),
    )
  }
  return readBody(call, { ...answer, succeeded, json: parseJson(call, answer) }, reading)
}

interface ParsedAnswer {
  status: number
  /** Whether it must be the answer of the call, and not a problem. */
  succeeded: boolean
  requestId: string | undefined
  json: unknown
}

function readBody<Id extends OperationId>(call: Call<Id>, answer: ParsedAnswer, reading: Reading): Answer<Id> {
  const { read, secrets } = reading
  const { status, succeeded, requestId } = answer
  if (succeeded) {
    if (call.parts) return readResults(call, answer, reading) as Answer<Id>
    const parsed = parse(call, (json) => read(call.operationId, json), answer, secrets)
    if (!parsed) throw new ProtocolError(`${nameOf(call)}: expected 204 and no body`, status)
    assertAbout(call, parsed.value, status)
    return parsed.value as Answer<Id>
  }
  const problem = parse(call, readProblem, answer, secrets)
  if (problem.status !== status) {
    throw new ProtocolError(`${nameOf(call)}: status ${status} has a problem of status ${problem.status}`, status)
  }
  const { title, detail, code } = problem
  const texts = shownOf(call, { title, detail, problem: code })
  const shown = {
    httpStatus: status,
    title: clean(texts.title, secrets),
    detail: clean(texts.detail, secrets),
    problem: clean(texts.problem, secrets),
    requestId: requestId && clean(requestId, secrets),
    ...(problem.retry_after === undefined ? {} : { retryAfterSeconds: problem.retry_after }),
  }
  throw new ApiError(nameOf(call), shown, apiHint(shown), mayPass(call, status))
}

/** Reads each result of a batch as the answer of its own call, so that a failed one fails alone. */
function readResults(call: Call, answer: ParsedAnswer, reading: Reading): Outcome[] {
  const { status, requestId } = answer
  const { results } = parse(call, readBatchResults, answer, reading.secrets)
  const { parts = [] } = call
  if (results.length !== parts.length) {
    const counts = `expected ${parts.length} results, got ${results.length}`
    throw new ProtocolError(`${nameOf(call)}: the answer violates the contract: ${counts}`, status)
  }
  return parts.map((part, at) => {
    const { status, body } = results[at] ?? { status: 0, body: undefined }
    try {
      return { value: readBody(part, { status, succeeded: isSuccess(status), json: body, requestId }, reading) }
    } catch (error) {
      if (!isEaasError(error)) throw error
      return { error }
    }
  })
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function parseJson(call: Call, answer: RawAnswer): unknown {
  try {
    return JSON.parse(answer.text)
  } catch {
    // The parser's message quotes the text, which may hold a DEK.
    throw new ProtocolError(`${nameOf(call)}: the answer is not JSON`, answer.status)
  }
}

function parse<T>(call: Call, read: (json: unknown) => T, { json, status }: ParsedAnswer, secrets: Spellings): T {
  try {
    return read(json)
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error
    const what = clean(error.message, secrets) // it may hold a name that the other end chose
    throw new ProtocolError(`${nameOf(call)}: the answer violates the contract: ${what}`, status)
  }
}

/** Refuses a valid answer that is about another id than the call, or has another name than was sent. */
function assertAbout(call: Call, value: unknown, status: number): void {
  const { about, body = {} } = call
  const answer = value as { id?: unknown; key_id?: unknown; name?: unknown }
  const sent = body as { name?: unknown }
  // Each answer about an id has one of them or both; one with a name repeats the one that was sent, if any.
  const { id = about, key_id = about, name = sent.name } = answer
  if ((about === '' || (id === about && key_id === about)) && name === (sent.name ?? name)) return
  throw new ProtocolError(`${nameOf(call)}: the answer is about another id or name`, status)
}

/** Makes text of the other end fit for an error: without secrets and control characters, and not too long. */
function clean(text: string, secrets: Spellings): string {
  const hidden = secrets()
  const [longest = ''] = hidden
  // Made printable before secrets are hidden, since that may create the spelling of one, and again because slicing
  // may cut a character in half. Any secret that begins within the first MAX_TEXT characters is whole in `start`.
  const start = toPrintable(text.slice(0, MAX_TEXT + Math.max(longest.length, KEY_LIKE_MARGIN)))
  const shown = hide(start, hidden).replace(KEY_LIKE, '[removed]') // also the secrets of other calls
  // Without what was removed, a secret that is cut at the end of `start` would move into what is kept.
  if (shown !== start && start.length < text.length) return '[removed]'
  return toPrintable(shown.slice(0, MAX_TEXT))
}

function networkError(url: URL, call: Call, { error, secrets }: { error: unknown; secrets: Spellings }): NetworkError {
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code
  const reason = typeof cause === 'string' && /^[A-Z][A-Z0-9_]{1,40}$/.test(cause) ? ` (${cause})` : ''
  const message = `${nameOf(call)}: no answer from ${url.origin}${reason}`
  return new NetworkError(message, hintFor(call), call.repeatable, causeOf(error, secrets()))
}

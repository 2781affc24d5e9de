/** Sends one call and checks the answer. `calls.ts` sets the deadline, which includes getting the API key. */
import { type OperationId, PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import { AnswerError, isPageCall, readBatchResults, readPageAnswer } from '@eaas/protocol/page-answers'
import { isEaasError, NetworkError, ProtocolError } from '../errors.js'
import type { Soon } from '../waiting.js'
import type { Answer, Call } from './calls.js'
import type { Observer } from './events.js'
import type { recover } from './failures.js'
import { type Fetch, type FetchInit, type FetchResponse, readText } from './fetch.js'
import type { TraceHeaders } from './open-telemetry.js'

/** The longest answer that is read, after decompression. */
const MAX_ANSWER_BYTES = 1024 * 1024
const MAX_LONG_ANSWER_BYTES = 16 * MAX_ANSWER_BYTES
/** Reads all answers with their schemas. Loaded only for calls that pages which seal and open do not make: schemas need zod. */
export type Schemas = { readAnyAnswer: Read }

/** Reads a call's answer; undefined if the call has none. @throws AnswerError */
export type Read = (id: OperationId, json: unknown) => { value: unknown } | undefined

/** Returns the reader for the answers of a call and its parts. Loaded before anything is sent: the answer must be readable. */
async function readerFor(
  { operationId, parts = [] }: Call,
  { loadSchemas, loadFailures }: Pick<SendOptions, 'loadSchemas' | 'loadFailures'>,
): Promise<Read> {
  const ids = parts.length > 0 ? parts.map((part) => part.operationId) : [operationId]
  if (ids.every(isPageCall)) return (id, json) => (isPageCall(id) ? { value: readPageAnswer(id, json) } : undefined)
  await loadFailures() // the failure of a call that may not be repeated must be readable
  return (await loadSchemas()).readAnyAnswer
}

export interface SendOptions {
  /** Undefined where a session authenticates the caller: the call is then sent with the page's cookies. */
  apiKey: string | undefined
  /** Headers with which the service continues the caller's trace. */
  trace?: TraceHeaders
  fetch: Fetch | undefined
  loadSchemas: () => Soon<Schemas>
  loadFailures: () => Soon<{ recover: typeof recover }>
  retries: number
  /** Ends all attempts. The caller gets its reason as the error. */
  signal: AbortSignal
  observer?: Observer | undefined
}

export interface RawAnswer {
  status: number
  contentType: string
  mediaType: string
  requestId: string | undefined
  text: string
}

export type Attempt = { answer?: RawAnswer; error?: unknown; durationMs: number }

/** Sends a call, repeatedly where that is safe. @throws ApiError, NetworkError, ProtocolError, or the signal's reason */
export async function send<Id extends OperationId>(
  url: URL,
  call: Call<Id>,
  options: SendOptions,
): Promise<Answer<Id>> {
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  const { fetch = globalThis.fetch, loadFailures } = options
  const read = await readerFor(call, options)
  const sendOnce = async () => receive(call, await fetch(url.href, requestInit(call, options)))
  const startedAt = performance.now()
  const outcome = await sendOnce().then(
    (answer) => ({ answer }),
    (error: unknown) => ({ error }),
  )
  const first: Attempt = { ...outcome, durationMs: performance.now() - startedAt }
  if ('answer' in outcome) {
    try {
      return readAnswer(call, outcome.answer, read) as Answer<Id>
    } catch (error) {
      if (!(error instanceof AnswerError)) throw error // `recover` reads it again, and says what is wrong
    }
  } else if (isEaasError(outcome.error)) throw outcome.error
  const failures = await (async () => loadFailures())().catch((error: unknown) => {
    if ('answer' in outcome) throw error
    throw new NetworkError(`${nameOf(call)}: no answer from ${url.origin}`, hintFor(call), call.repeatable)
  })
  return failures.recover({ url, call, options, read, first, sendOnce }) as Promise<Answer<Id>>
}

/** Returns plain options, which other libraries' fetch also takes. */
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
    // A redirect is never followed: it would send the body, with its DEK, to another server.
    redirect: 'manual',
    ...(takesCache ? { cache: 'no-store' } : {}),
    credentials: apiKey === undefined ? 'include' : 'omit', // for a broker of another origin, which names the page's
    referrerPolicy: 'no-referrer',
    signal,
  }
}

let takesCache: boolean | undefined

/** Whether the platform takes `cache`: workerd throws before its compatibility date 2024-11-11. */
function isCacheTaken(): boolean {
  try {
    return new Request('https://eaas.invalid', { cache: 'no-store' }).method === 'GET'
  } catch {
    return false
  }
}

export function nameOf(call: Call): string {
  return `${call.method} /${call.path}`
}

export function hintFor(call: Call): string {
  if (call.repeatable) return 'Check the base URL and the network, then try again.'
  return 'The service may have done it: check before you try again.'
}

async function receive(call: Call, response: FetchResponse): Promise<RawAnswer> {
  if (response.redirected || response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400)) {
    response.body?.cancel().catch(() => undefined) // the answer is already refused, so an error here changes nothing
    throw new ProtocolError(`${nameOf(call)}: a redirect, which is never followed`, response.status)
  }
  const requestId = response.headers.get('x-request-id') ?? ''
  const contentType = response.headers.get('content-type') ?? ''
  const most = call.isLong ? MAX_LONG_ANSWER_BYTES : MAX_ANSWER_BYTES
  const refuse = (fault: string) => new ProtocolError(`${nameOf(call)}: the answer is ${fault}`, response.status)
  return {
    status: response.status,
    contentType,
    mediaType: contentType.replace(/;.*$/s, '').trim().toLowerCase(),
    requestId: /^[\x21-\x7e]{1,128}$/.test(requestId) ? requestId : undefined,
    text: await readText(response.body, most, refuse),
  }
}

/** Tells whether it should be the call's answer. A response with `alsoStatus` has an answer or a problem. */
export function isSuccess(call: Call, { status, mediaType }: RawAnswer): boolean {
  return isGood(status) || (status === call.alsoStatus && mediaType !== PROBLEM_CONTENT_TYPE)
}

function isGood(status: number): boolean {
  return status >= 200 && status < 300
}

function readAnswer(call: Call, answer: RawAnswer, read: Read): unknown {
  if (call.status === 204 && answer.status === 204 && answer.text === '') return undefined
  if (!isSuccess(call, answer) || answer.mediaType !== 'application/json') throw new AnswerError()
  const json = parseJson(answer)
  if (!call.parts) return readValue(call, json, read)
  return readResults(call, json).map(({ part, status, body }) => {
    if (!isGood(status)) throw new AnswerError()
    return { value: readValue(part, body, read) }
  })
}

export function readResults({ parts = [] }: Call, json: unknown): { part: Call; status: number; body: unknown }[] {
  const { results } = violating(() => readBatchResults(json))
  if (results.length === parts.length)
    return parts.map((part, at) => ({ ...(results[at] ?? { status: 0, body: undefined }), part }))
  throw new AnswerError(`${VIOLATES}expected ${parts.length} results, got ${results.length}`)
}

const VIOLATES = 'the answer violates the contract: '

function violating<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof AnswerError ? new AnswerError(VIOLATES + error.message) : error
  }
}

export function parseJson({ text }: RawAnswer): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Without the parser's message, which quotes the text and may contain a DEK.
    throw new AnswerError('the answer is not JSON')
  }
}

/** Reads an answer. Refuses one about another id or name than the call's. @throws AnswerError */
export function readValue(call: Call, json: unknown, read: Read): unknown {
  const parsed = violating(() => read(call.operationId, json))
  if (!parsed) throw new AnswerError('expected 204 and no body')
  const { about, body = {} } = call
  const answer = parsed.value as { id?: unknown; key_id?: unknown; name?: unknown }
  const sent = body as { name?: unknown }
  // Each answer about an id has `id`, `key_id` or both. An answer with a name repeats the name that was sent, if any.
  const { id = about, key_id = about, name = sent.name } = answer
  if ((about === '' || (id === about && key_id === about)) && name === (sent.name ?? name)) return parsed.value
  throw new AnswerError('the answer is about another id or name')
}

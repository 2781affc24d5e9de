/** After a failed first attempt: retries with ky, and makes the error. ky gets nothing that an error must not show. */
import { PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import { AnswerError, readProblem } from '@eaas/protocol/page-answers'
import ky, { isHTTPError } from 'ky'
import { ApiError, isEaasError, NetworkError, ProtocolError } from '../errors.js'
import type { Queued } from './batcher.js'
import type { Call, Outcome } from './calls.js'
import { apiHint, asTampering, shownOf } from './refusals.js'
import { causeOf, hide, spellingsOf, toPrintable } from './secrets.js'
import type { Attempt, RawAnswer, Read, SendOptions } from './send.js'
import { hintFor, isSuccess, nameOf, parseJson, readResults, readValue } from './send.js'

const MAX_TEXT = 1_000
/** This many letters and digits in a row may be a key of 32 bytes, which has 43 in base64 and 64 in hexadecimal digits. */
const KEY_LIKE = /[\w+/-]{43,}/g
const KEY_LIKE_MARGIN = 100
/** The media types that an error names. A service could write a secret into any other. */
const SHOWN_TYPES = ['application/json', PROBLEM_CONTENT_TYPE, 'text/html', 'text/plain']
/** Without 429: quotas, budgets and a broker's limits last longer, and the caller decides whether to wait. */
const RETRY_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504])
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000

type Reading = { read: Read; secrets: Spellings }

/** Returns the spellings of everything that no error may show. Only called for an error. */
type Spellings = () => readonly string[]

interface Failed {
  url: URL
  call: Call
  options: SendOptions
  read: Read
  first: Attempt
  sendOnce: () => Promise<RawAnswer>
}

/** Repeats the call where that is safe. @throws ApiError, NetworkError, ProtocolError, or the signal's reason */
export async function recover(failed: Failed): Promise<unknown> {
  const { url, call, read } = failed
  let hidden: readonly string[] | undefined
  const secrets = () => {
    const { apiKey } = failed.options
    hidden ??= spellingsOf([...(apiKey === undefined ? [] : [apiKey]), ...(call.secrets ?? [])])
    return hidden
  }
  const answer = await sendAgain(failed).catch((error: unknown) => {
    throw isEaasError(error) ? error : networkError(url, call, { error, secrets })
  })
  return readAnswer(call, answer, { read, secrets })
}

/**
 * Repeats a repeatable call after a random delay, first up to 100 ms, then doubling up to 2 s, so that clients that
 * failed together do not retry together. Ignores Retry-After, which could mean an hour. @throws what the last attempt
 * threw
 */
async function sendAgain({ url, call, options, first, sendOnce }: Failed): Promise<RawAnswer> {
  const { retries, signal, observer } = options
  let { answer, durationMs } = first
  const retryStatus = (status: number) => status !== call.alsoStatus && mayPass(call, status)
  const toResponse = ({ status }: RawAnswer) => new Response(null, { status: retryStatus(status) ? status : 200 })
  const tryOnce = async () => {
    const startedAt = performance.now()
    answer = undefined
    try {
      answer = await sendOnce()
    } finally {
      durationMs = performance.now() - startedAt
    }
    return toResponse(answer)
  }
  const beforeRetry = ({ retryCount }: { retryCount: number }) =>
    observer?.retried(call, { attempt: retryCount, status: answer?.status, durationMs })
  const limit = call.repeatable ? retries : 0
  const isOver = limit === 0 || (answer ? !retryStatus(answer.status) : isEaasError(first.error))
  if (isOver && answer) return answer
  if (isOver) throw first.error
  let isFirst = true
  try {
    await ky(url.href, {
      method: call.method,
      async fetch() {
        if (!isFirst) return tryOnce()
        isFirst = false
        if (answer) return toResponse(answer)
        throw first.error
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
        // After an error of the SDK, another attempt would fail in the same way.
        shouldRetry: ({ error }) => !isEaasError(error),
      },
    })
  } catch (error) {
    if (!isHTTPError(error)) throw error
  }
  if (!answer) throw new TypeError('fetch returned nothing')
  return answer
}

/** Tells whether a call that failed with this status may succeed, and does no harm, if it is sent again. */
export function mayPass(call: Call, status: number): boolean {
  return call.repeatable && RETRY_STATUSES.has(status)
}

/** Reads an answer that is not, or not completely, a success. @throws the error that it means */
function readAnswer(call: Call, answer: RawAnswer, reading: Reading): unknown {
  const { status, contentType, mediaType, text } = answer
  const succeeded = isSuccess(call, answer)
  if (call.status === 204 && status === 204 && text === '') return undefined
  const expected = succeeded ? 'application/json' : PROBLEM_CONTENT_TYPE
  if (mediaType !== expected) {
    const got = contentType === '' ? 'no content type' : SHOWN_TYPES.includes(mediaType) ? mediaType : 'another'
    const message = `${nameOf(call)}: status ${status} must have the type ${expected}, got ${got}`
    throw new ProtocolError(message, status, mayPass(call, status))
  }
  const parsed = { ...answer, succeeded, json: parse(call, () => parseJson(answer), status, reading) }
  if (!succeeded || !call.parts) return readBody(call, parsed, reading)
  const parts = parse(call, () => readResults(call, parsed.json), status, reading)
  return parts.map(({ part, status, body }): Outcome => {
    try {
      const isGood = status >= 200 && status < 300
      return { value: readBody(part, { ...answer, status, succeeded: isGood, json: body }, reading) }
    } catch (error) {
      if (!isEaasError(error)) throw error
      return { error }
    }
  })
}

interface ParsedAnswer extends Pick<RawAnswer, 'status' | 'requestId'> {
  succeeded: boolean
  json: unknown
}

function readBody(call: Call, { status, succeeded, requestId, json }: ParsedAnswer, reading: Reading): unknown {
  const { read, secrets } = reading
  if (succeeded) return parse(call, () => readValue(call, json, read), status, reading)
  const problem = parse(call, () => readProblem(json), status, reading)
  if (problem.status !== status)
    throw new ProtocolError(`${nameOf(call)}: status ${status} has a problem of status ${problem.status}`, status)
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
  throw asTampering(call.operationId, new ApiError(nameOf(call), shown, apiHint(shown), mayPass(call, status)))
}

function parse<T>(call: Call, read: () => T, status: number, { secrets }: Reading): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error
    const what = clean(error.message, secrets) // it may contain a name that the other end chose
    throw new ProtocolError(`${nameOf(call)}: ${what}`, status)
  }
}

/** Makes the other end's text fit for an error: without secrets and control characters, and not too long. */
function clean(text: string, secrets: Spellings): string {
  const hidden = secrets()
  const [longest = ''] = hidden
  // Made printable before secrets are hidden, since that may create a secret's spelling, and again afterwards, since
  // slicing may halve a character. Any secret that begins within the first MAX_TEXT characters is whole in `start`.
  const start = toPrintable(text.slice(0, MAX_TEXT + Math.max(longest.length, KEY_LIKE_MARGIN)))
  const shown = hide(start, hidden).replace(KEY_LIKE, '[removed]') // also secrets of other calls
  // If something was removed, a secret cut off at the end of `start` could move into the text that is kept.
  if (shown !== start && start.length < text.length) return '[removed]'
  return toPrintable(shown.slice(0, MAX_TEXT))
}

function networkError(url: URL, call: Call, { error, secrets }: { error: unknown; secrets: Spellings }): NetworkError {
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code
  const reason = typeof cause === 'string' && /^[A-Z][A-Z0-9_]{1,40}$/.test(cause) ? ` (${cause})` : ''
  const message = `${nameOf(call)}: no answer from ${url.origin}${reason}`
  return new NetworkError(message, hintFor(call), call.repeatable, causeOf(error, secrets()))
}

/** Settles or requeues the operations of a refused part. Returns the most units of the next part; 0 without batches. */
export function settleRefused(
  part: readonly Queued[],
  waiting: Set<Queued>,
  { error, maxUnits }: { error: unknown; maxUnits: number },
): number {
  const [first] = part
  if (part.length > 1 && first) {
    const isTooLarge = httpStatusOf(error) === 413
    if (isTooLarge || isNoSuchRoute(error)) {
      for (const one of part) waiting.add(one)
      return isTooLarge ? Math.min(maxUnits, part.reduce((sum, { units }) => sum + units, 0) / 2) : 0
    }
  }
  for (const one of part) one.settle({ error })
  if (part.length > 1 || !first) return maxUnits
  for (const other of waiting) {
    if (!holdsFor(error, first, other)) continue
    waiting.delete(other)
    other.settle({ error })
  }
  return maxUnits
}

/** Refusals about one value or version, and about one key. Any other refusal applies to all keys. */
const OF_ONE = /^E_(?:VALIDATION|WRAPPED_KEY|VERSION_.*)$/
const OF_ONE_KEY = /^E_(?:NOT_FOUND|STATE|KEY_DESTROYED|LIMIT|TAMPERED)$/

function holdsFor(error: unknown, { call, units }: Queued, other: Queued): boolean {
  if (call.operationId !== other.call.operationId || call.signal?.aborted) return false
  if (httpStatusOf(error) === 413) return other.units >= units
  const problem = isEaasError(error) && error.code === 'E_API' ? error.problem : ''
  if (OF_ONE_KEY.test(problem)) return call.about === other.call.about
  return !OF_ONE.test(problem)
}

/** Returns a refusal's status: the service's (E_API), or that of a proxy's page (E_PROTOCOL). */
function httpStatusOf(error: unknown): number | undefined {
  return isEaasError(error) && 'httpStatus' in error ? error.httpStatus : undefined
}

// A service without batches. A proxy's page does not count, since other routes would fail in the same way.
function isNoSuchRoute(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && [404, 405].includes(error.httpStatus)
}

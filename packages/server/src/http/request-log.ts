/** Writes one log line per request. The line of a failure has at most 300 bytes, and of equal failures in a row one a second is written. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { clientAddress } from './credentials.js'

/** Most bytes of a failure's line with its line feed, as `loggerOptions` writes it. */
const LINE_BYTES = 300
/** Between two lines of equal failures, in milliseconds. */
const BETWEEN_LINES_MS = 1_000
/** Pino's number of `error`. */
const ERROR = 50

/** Answers whose log line contains the client's address, so that an operator can find who guesses API keys or calls too often. */
const REFUSALS: ReadonlySet<number> = new Set([401, 403, 429])

/** The log's message for an unexpected error. */
export const UNEXPECTED = 'unexpected error'

interface Failure {
  error: unknown
  msg: string
}

const failures = new WeakMap<FastifyRequest, Failure>()

/** Records why a request failed, for its log line. Of several errors, as the items of a batch may have, the first is logged. */
export function noteFailure(request: FastifyRequest, error: unknown, msg: string): void {
  if (!failures.has(request)) failures.set(request, { error, msg })
}

/** Logs each request when it is answered, with the route rather than the URL, which may contain a secret by mistake. */
export function logRequests(app: FastifyInstance): void {
  const sampler = createSampler()
  app.addHook('onResponse', (request, reply, done) => {
    const failure = failures.get(request)
    if (failure) logFailure(request, reply, { failure, sampler })
    else if (reply.statusCode >= 500) {
      sampler.take(`${reply.statusCode} ${request.routeOptions.url}`, (leftOut) =>
        request.log.info(describeRequest(request, reply, leftOut), 'request'),
      )
    } else request.log.info(describeRequest(request, reply), 'request')
    done()
  })
  app.addHook('onClose', (_, done) => {
    sampler.close()
    done()
  })
}

function logFailure(
  request: FastifyRequest,
  reply: FastifyReply,
  { failure: { error, msg }, sampler }: { failure: Failure; sampler: Sampler },
): void {
  // An unexpected error is a defect, which is found by its stack: one line with it is enough. Errors of the driver have no frame of their
  // caller, so the route distinguishes them too.
  const isDefect = msg === UNEXPECTED
  const stack = isDefect && error instanceof Error ? error.stack?.match(/^\s+at .*$/gm) : undefined
  const place = isDefect ? [request.routeOptions.url, stack] : []
  const line = describeRequest(request, reply)
  sampler.take(JSON.stringify([msg, kindsOf(error), place]), (leftOut, isFirst) => {
    if (isFirst && isDefect) request.log.error({ err: error }, msg)
    const fields = { ...line, ...leftOutOf(leftOut), error: '' }
    const others = { level: ERROR, time: Date.now(), reqId: request.id, ...fields, msg }
    const room = LINE_BYTES - Buffer.byteLength(JSON.stringify(others)) - 1
    request.log.error({ ...fields, error: shorten(describeError(error), room) }, msg)
  })
}

function describeRequest(request: FastifyRequest, reply: FastifyReply, leftOut = 0): Record<string, unknown> {
  return {
    method: request.method,
    route: request.routeOptions.url ?? null,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    ...(REFUSALS.has(reply.statusCode) ? { ip_address: clientAddress(request.ip) } : {}),
    ...leftOutOf(leftOut),
  }
}

function leftOutOf(count: number): { left_out?: number } {
  return count > 0 ? { left_out: count } : {}
}

/** Names and codes, from the error to its first cause, then the message of that cause, which says most. */
function describeError(error: unknown): string {
  let first = error
  while (first instanceof Error && first.cause !== undefined) first = first.cause
  return `${kindsOf(error)}: ${first instanceof Error ? first.message : String(first)}`
}

function kindsOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const { code } = error as { code?: unknown }
  const own = typeof code === 'string' ? `${error.name} ${code}` : error.name
  return error.cause === undefined ? own : `${own} < ${kindsOf(error.cause)}`
}

// Counts the bytes in JSON, where escapes are longer than the characters that they encode.
function shorten(text: string, bytes: number): string {
  let kept = ''
  let left = bytes
  for (const character of text) {
    left -= Buffer.byteLength(JSON.stringify(character)) - 2
    if (left < 0) break
    kept += character
  }
  return kept
}

type Write = (leftOut: number, isFirst: boolean) => void

interface Sampler {
  /** Writes the first of a kind at once; of the following ones one a second, with the number of lines that were left out before it. */
  take(kind: string, write: Write): void
  /** Writes the lines that wait. */
  close(): void
}

function createSampler(): Sampler {
  interface Kind {
    timer: NodeJS.Timeout
    count: number
    last?: Write
  }
  const kinds = new Map<string, Kind>()

  function flush(name: string, kind: Kind): void {
    clearTimeout(kind.timer)
    kinds.delete(name)
    kind.last?.(kind.count - 1, false)
  }

  function open(name: string): void {
    const timer = setTimeout(() => {
      flush(name, kind)
      if (kind.count > 0) open(name)
    }, BETWEEN_LINES_MS)
    timer.unref()
    const kind: Kind = { timer, count: 0 }
    kinds.set(name, kind)
  }

  return {
    take(name, write) {
      const kind = kinds.get(name)
      if (kind) {
        kind.count += 1
        kind.last = write
        return
      }
      open(name)
      write(0, true)
    },
    close() {
      for (const [name, kind] of kinds) flush(name, kind)
    },
  }
}

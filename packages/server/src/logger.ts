/** The log: JSON lines on standard error, one event a line. Standard output is for people. */
import type { FastifyServerOptions } from 'fastify'
import type { LogLevel } from './config.js'

/** Fastify's logger options. Errors are cut down to what can't hold data: no query, no parameters, no database detail. */
export function loggerOptions(
  level: LogLevel,
  stream: { write(line: string): unknown } = { write: writeOrDrop },
): FastifyServerOptions['logger'] {
  return { level, stream, base: null, serializers: { err: describeError } }
}

/** What may wait for a reader of the log that has stopped reading, in bytes: lines beyond it are dropped. */
const MOST_WAITING_BYTES = 1_048_576

function writeOrDrop(line: string): void {
  if (process.stderr.writableLength < MOST_WAITING_BYTES) process.stderr.write(line)
}

/**
 * Has neither a log nor a standard output that cannot be written end the process or hold it up: what cannot be written is dropped. Node
 * blocks on a pipe that is full unless it is told not to, and tells of a disk that is full by an `error` that nobody else listens to.
 */
export function outliveOutput(): void {
  for (const stream of [process.stdout, process.stderr] as NodeJS.WriteStream[]) {
    stream.on('error', () => undefined)
    const { _handle: handle } = stream as { _handle?: { setBlocking?(isBlocking: boolean): unknown } }
    if (!stream.isTTY) handle?.setBlocking?.(false)
  }
}

/** Pino's number of `warn`. */
const WARN = 40

/** Logs a warning before there is an application, and so a logger. */
export function logWithoutApp(level: LogLevel, details: { err: unknown; [name: string]: unknown }, msg: string): void {
  if (['fatal', 'error', 'silent'].includes(level)) return
  const err = details.err instanceof Error ? describeError(details.err) : undefined
  process.stderr.write(`${JSON.stringify({ level: WARN, time: Date.now(), ...details, err, msg })}\n`)
}

interface ErrorDescription {
  [part: string]: unknown
  type: string
  message: string
  stack: string
}

function describeError(error: Error & { code?: unknown }): ErrorDescription {
  const { name, message, stack = '', code, cause } = error
  return {
    type: name,
    ...(typeof code === 'string' ? { code } : {}),
    message,
    stack,
    ...(cause instanceof Error ? { cause: describeError(cause) } : {}),
  }
}

/** The log: JSON lines on standard error, one event a line. Standard output is for people. */
import type { FastifyServerOptions } from 'fastify'
import type { LogLevel } from './config.js'

/**
 * Fastify's logger options; errors are reduced to fields that cannot contain data: no query, no parameters,
 * no database detail.
 */
export function loggerOptions(
  level: LogLevel,
  stream: { write(line: string): unknown } = { write: writeOrDrop },
): FastifyServerOptions['logger'] {
  return { level, stream, base: null, serializers: { err: describeError } }
}

/**
 * Most bytes that may wait for a reader of the log that has stopped reading: lines beyond that are dropped.
 */
const MOST_WAITING_BYTES = 1_048_576

export function writeOrDrop(line: string): void {
  if (process.stderr.writableLength < MOST_WAITING_BYTES) process.stderr.write(line)
}

/**
 * Makes the process survive a log or standard output that cannot be written, without waiting for it: the
 * output is dropped. By default Node blocks on a full pipe, and reports a full disk by an `error` event,
 * which ends the process if it has no listener.
 */
export function outliveOutput(): void {
  for (const stream of [process.stdout, process.stderr] as NodeJS.WriteStream[]) {
    stream.on('error', () => undefined)
    const { _handle: handle } = stream as { _handle?: { setBlocking?(isBlocking: boolean): unknown } }
    if (!stream.isTTY) handle?.setBlocking?.(false)
  }
}

/** Pino's levels, as far as they are written without it, and what each configured level shows. */
const NUMBERS = { info: 30, warn: 40, error: 50, fatal: 60 }
const SHOWN_FROM: Record<LogLevel, number> = { debug: 20, info: 30, warn: 40, error: 50, fatal: 60, silent: 70 }

/**
 * Logs where there is no application with its logger. `configured` is the level from which on lines are
 * written.
 */
export function logWithoutApp(
  configured: LogLevel,
  level: keyof typeof NUMBERS,
  details: { err?: unknown; [name: string]: unknown },
  msg: string,
): void {
  if (NUMBERS[level] < SHOWN_FROM[configured]) return
  const err = details.err instanceof Error ? describeError(details.err) : undefined
  writeOrDrop(`${JSON.stringify({ level: NUMBERS[level], time: Date.now(), ...details, err, msg })}\n`)
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

/** The log: JSON lines on standard error, one event a line. Standard output is for people. */
import { createLog, type Log, type LogLevel, writeOrDrop } from '@eaas/audit/node'
import type { FastifyServerOptions } from 'fastify'

/** Fastify's logger options. Errors are reduced to fields without queries, parameters or database details. */
export function loggerOptions(
  level: LogLevel,
  stream: { write(line: string): unknown } = { write: writeOrDrop },
): FastifyServerOptions['logger'] {
  return { level, stream, base: null, serializers: { err: describeError } }
}

/** Logs without an application. Skips lines below the level `configured`. */
export function logWithoutApp(
  configured: LogLevel,
  level: keyof Log,
  details: { err?: unknown; [name: string]: unknown },
  msg: string,
): void {
  const err = details.err instanceof Error ? describeError(details.err) : undefined
  createLog(configured)[level]({ ...details, err }, msg)
}

type ErrorDescription = Record<'type' | 'message' | 'stack', string> & Record<string, unknown>

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

/** The log: JSON lines on standard error, one event a line. Standard output is for people. */
import type { FastifyServerOptions } from 'fastify'
import type { LogLevel } from './config.js'

/** Fastify's logger options. Errors are cut down to what can't hold data: no query, no parameters, no database detail. */
export function loggerOptions(level: LogLevel): FastifyServerOptions['logger'] {
  return { level, stream: process.stderr, base: null, serializers: { err: describeError } }
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

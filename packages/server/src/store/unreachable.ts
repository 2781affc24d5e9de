/** Whether an error says that the database does not answer, rather than that it refused a statement. */
import { DatabaseDeadlineError } from './deadline.js'

/** Of the patched driver (patches/postgres.ts): none of the hosts takes writes. */
const NOT_PRIMARY = 'NOT_PRIMARY'

/** Of Node's sockets, and of the driver: the connection could not be made, or went. */
const CONNECTION = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'CONNECT_TIMEOUT',
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  NOT_PRIMARY,
])
/** PostgreSQL's: connection exceptions, too many connections, shut down by its operator, crashed, not up yet. */
const SQLSTATE = /^(?:08...|53300|57P0[123])$/

/** Of a connection that was never made: nothing was sent on it. */
const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'CONNECT_TIMEOUT',
])
/** PostgreSQL's before it takes a statement: too many connections, not up yet. */
const NOT_LET_IN = /^(?:53300|57P03)$/

/** Whether an error says that there was no connection to the database, so that nothing of what was asked can have happened. */
export function isNotConnected(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && (NEVER_CONNECTED.has(code) || NOT_LET_IN.test(code))
}

/** What was asked of the database may have happened all the same. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof DatabaseDeadlineError) return true
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && (CONNECTION.has(code) || SQLSTATE.test(code))
}

/** Whether the database was reached, and is a standby or read-only. */
export function isNotPrimary(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === NOT_PRIMARY
}

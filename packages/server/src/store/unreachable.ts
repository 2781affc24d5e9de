/** Whether an error says that the database does not answer, rather than that it refused a statement. */
import { DatabaseDeadlineError } from './deadline.js'

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
])
/** PostgreSQL's: connection exceptions, too many connections, shut down by its operator, crashed, not up yet. */
const SQLSTATE = /^(?:08...|53300|57P0[123])$/

/** What was asked of the database may have happened all the same. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof DatabaseDeadlineError) return true
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && (CONNECTION.has(code) || SQLSTATE.test(code))
}

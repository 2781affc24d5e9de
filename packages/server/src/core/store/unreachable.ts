/** Distinguishes a database that does not answer from one that refuses, and waits until it answers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type DatabaseSetting, nameSetting, readDatabaseUrl } from '../database-url.js'
import { DatabaseDeadlineError } from './deadline.js'

/** The patched driver's code (packages/postgres) if none of the hosts takes writes. */
const NOT_PRIMARY = 'NOT_PRIMARY'

/** Codes of Node's sockets and of the driver for a connection that was never made: nothing was sent on it. */
const NEVER_CONNECTED = /^(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT)$/
/** The driver's codes for a database without the TLS or the channel binding that its URL requires (packages/postgres). */
const NOT_SECURED = /^(?:NO_TLS|NO_CHANNEL_BINDING)$/
const LOST = /^(?:ECONNRESET|EPIPE|ETIMEDOUT|CONNECTION_(?:CLOSED|DESTROYED|ENDED)|NOT_PRIMARY)$/
/** SQLSTATEs: connection exceptions, a refused login, too many connections, shut down, crashed, not up yet. */
const SQLSTATE = /^(?:08...|28000|28P01|53300|57P0[123])$/
/** SQLSTATEs before PostgreSQL accepts a statement: a refused login, too many connections, not up yet. */
const NOT_ADMITTED = /^(?:28000|28P01|53300|57P03)$/
/** SQLSTATEs for a user, a password or a certificate that PostgreSQL does not accept. */
const REFUSED_LOGIN = /^(?:28000|28P01)$/

/** Whether there was no connection to the database, so that the statement cannot have taken effect. */
export function isNotConnected(error: unknown): boolean {
  return hasCode(error, NEVER_CONNECTED, NOT_SECURED, NOT_ADMITTED)
}

/** Whether an error says that the database does not answer. The statement may have taken effect nevertheless. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof DatabaseDeadlineError || hasCode(error, NEVER_CONNECTED, NOT_SECURED, LOST, SQLSTATE)
}

function hasCode(error: unknown, ...patterns: readonly RegExp[]): boolean {
  const code = codeOf(error)
  return code !== undefined && patterns.some((pattern) => pattern.test(code))
}

// While PostgreSQL does not run, its unix socket does not exist.
function codeOf(error: unknown): string | undefined {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
  if (code === 'ENOENT' && syscall === 'connect') return 'ECONNREFUSED'
  return typeof code === 'string' ? code : undefined
}

/** Whether the database was reached, but is a standby or read-only. */
export function isNotPrimary(error: unknown): boolean {
  return codeOf(error) === NOT_PRIMARY
}

export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006'
}

/** Whether the database was reached, but has no free connection at all, or none for the role or the database. */
function isWithoutConnection(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return code === '53300' || (code === '08P01' && /no more connections allowed/.test(String(message))) // pgbouncer's
}

/** The SQLSTATE of a login that the database or a pooler refused; undefined for any other error. */
export function findLoginFault(error: unknown): string | undefined {
  const code = findRefusedLogin(error) ?? codeOf(error)
  return code !== undefined && REFUSED_LOGIN.test(code) ? code : undefined
}

/** Whether waiting does not help, because the database answers and the configuration is wrong. */
function isMisconfigured(error: unknown): boolean {
  return findRefusedLogin(error) !== undefined || hasCode(error, REFUSED_LOGIN, NOT_SECURED)
}

/** pgbouncer's texts for failed logins, all with 08P01, and PostgreSQL's SQLSTATEs for them. */
const REFUSED_LOGINS = [
  [/authentication failed/i, '28P01'],
  [/no such user|role ".*" does not exist/i, '28000'],
  [/no such database|database ".*" does not exist/i, '3D000'],
  [/unsupported startup parameter/i, '08P01'],
] as const

/** The SQLSTATE of a login that a pooler refused, after which waiting does not help; undefined for any other error. */
export function findRefusedLogin(error: unknown): string | undefined {
  if (!(error instanceof Error) || codeOf(error) !== '08P01') return undefined
  return REFUSED_LOGINS.find(([text]) => text.test(error.message))?.[1]
}

/** Between two attempts to reach the database. */
export const RETRY_MS = 500

export const FREE_CONNECTIONS =
  'a server needs up to 13 connections, 3 of them at its start, and a command up to 5. Raise max_connections, or what the role or the database may have ' +
  '(alter role … connection limit …), or end what holds them'

export class UnreachableDatabaseError extends Error {
  override readonly name = 'UnreachableDatabaseError'

  /** The message contains no credentials; nor do the system's and the driver's messages about a connection. */
  constructor(setting: DatabaseSetting, seconds: number, cause: unknown) {
    const waited = seconds > 0 ? `, although the server tried for ${seconds} s (EAAS_START_WAIT_SECONDS)` : ''
    const database = describe(setting)
    super(
      isWithoutConnection(cause)
        ? `PostgreSQL at ${database} has no free connection for this role${waited}: ${FREE_CONNECTIONS}`
        : `The database at ${database} cannot be reached${waited}. Check that it runs, and that ${nameSetting(setting)} names it`,
      { cause },
    )
  }
}

export interface Wait {
  seconds: number
  /** called once, when the waiting begins; `database` contains no credentials */
  onWait: (details: { database: string; seconds: number; error: unknown }) => void
}

/** Retries while the database cannot be reached. @throws UnreachableDatabaseError, or any other error at once */
export async function untilReached<T>(open: () => Promise<T>, setting: DatabaseSetting, wait?: Wait): Promise<T> {
  const seconds = wait?.seconds ?? 0
  const until = performance.now() + seconds * 1_000
  let isReported = false
  for (;;) {
    try {
      return await open()
    } catch (thrown) {
      const error = thrown instanceof UnreachableDatabaseError ? thrown.cause : thrown
      if (!isUnreachable(error) || isMisconfigured(error) || error instanceof DatabaseDeadlineError) throw thrown
      if (performance.now() >= until) throw new UnreachableDatabaseError(setting, seconds, error)
      if (!isReported) wait?.onWait({ database: describe(setting), seconds, error })
      isReported = true
      await sleep(RETRY_MS)
    }
  }
}

function describe({ databaseUrl }: DatabaseSetting): string {
  return readDatabaseUrl(databaseUrl ?? '')?.description ?? ''
}

/** The connection: postgres.js for PostgreSQL and the embedded database alike. */
import postgres from '@eaas/postgres'
import { readDatabaseUrl } from '../database-url.js'
import { createLogin, type Login } from './login.js'
import { startupFormats } from './text-formats.js'

/**
 * Times are RFC 3339 strings with milliseconds, bigints are safe numbers. Any other value, which no server wrote, is
 * read as one that matches no MAC, so that verification reports it instead of failing.
 */
const types = {
  timestamptz: { to: 1184, from: [1184], serialize: (time: string) => time, parse: readTime },
  bigint: { to: 20, from: [20], serialize: String, parse: readInteger },
  date: { to: 1082, from: [1082], serialize: (day: string) => day, parse: (text: string) => text },
}

type Types = { timestamptz: string; bigint: number; date: string }

export type Sql = postgres.Sql<Types>
/** A transaction: every query of it runs on one connection. Code within it must not await another connection. */
export type Transaction = postgres.TransactionSql<Types>
export type Queryable = Sql | Transaction
export type Fragment = ReturnType<Queryable>

/** The next rows of a list, after one of them. */
export type PageOf<Row> = { after: Row | undefined; limit: number }

/** In milliseconds; then the database gives up a statement. */
const STATEMENT_TIMEOUT_MS = 5_000
const LOCK_TIMEOUT_MS = 4_000
/** In milliseconds; a stopped process would otherwise keep its locks. */
const IDLE_IN_TRANSACTION_MS = 5_000
/** In milliseconds; then the database closes a connection whose packets are not acknowledged. */
const TCP_USER_TIMEOUT_MS = 20_000
/** Without a packet for this long, this side sends a keep-alive probe. */
const KEEP_ALIVE_S = 10
const CONNECT_TIMEOUT_S = 5
/** After this long without an answer, the database is probed on another connection (patches/19-silent-host.diff). */
const SILENCE_S = 3
/** After this long a connection is replaced by a new one, which ends any change to its session. */
const MAX_LIFETIME_S = 600
const IDLE_TIMEOUT_S = 300
/** The driver's own delay between two attempts to connect grows to 20 s, which would prolong every outage. */
const RECONNECT_DELAY_S = 1

/** `url` is PostgreSQL's, with one host or several, and `socketPath` the unix socket of the embedded database. */
interface ConnectOptions extends Partial<Login> {
  /** called when that file cannot be used and a connection logs in with the last usable login */
  onStaleLogin?: ((error: Error) => void) | undefined
  socketPath?: string | undefined
  max: number
  /** whether a pooler gives each transaction another back end, so that sessions keep no state */
  isPooled?: boolean
  isSpread?: boolean
  /** the search path that sessions begin with, unless a pooler gives them another one; the role's by default */
  searchPath?: string | undefined
}

/**
 * Makes PostgreSQL refuse a statement from which row level security would hide rows. Through a pooler it is sent before
 * each statement outside of a transaction, so it returns no row.
 */
const WHOLE_TABLES = "select from pg_catalog.set_config('row_security', 'off', true) as s (value) where value is null"

const SESSION_LIMITS = {
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
}

/** SQLSTATEs of a statement that statement_timeout or lock_timeout ended. */
const TIMED_OUT = ['57014', '55P03']

/**
 * Runs slow statements in a session without the limits for calls. Through a pooler, sessions have the limits of the
 * role: if these are too short, the error says to run the command `directly` without the pooler.
 */
export async function withoutLimits<Result>(
  sql: Sql,
  directly: string,
  work: (session: postgres.ReservedSql<Types>) => Promise<Result>,
): Promise<Result> {
  const session = await sql.reserve()
  try {
    if (sql.options.prepare) await session`set statement_timeout = 0; set lock_timeout = 0`.simple()
    return await work(session)
  } catch (error) {
    throw sql.options.prepare ? error : explainPooled(error, directly)
  } finally {
    // Fails if the session was lost.
    if (sql.options.prepare) await session`reset statement_timeout; reset lock_timeout`.simple().catch(() => undefined)
    session.release()
  }
}

function explainPooled(error: unknown, directly: string): unknown {
  if (!(error instanceof postgres.PostgresError && TIMED_OUT.includes(error.code))) return error
  return new Error(
    `Behind a pooler the time limits of the role end statements that take long. Run ${directly} with a URL that reaches PostgreSQL directly`,
    { cause: error },
  )
}

/** Connects lazily: the first query opens the first connection. */
export function connect(given: ConnectOptions): Sql {
  const { url, socketPath, isPooled = false, searchPath } = given
  const options: postgres.Options<Record<string, postgres.PostgresType>> = {
    max: given.max,
    types,
    connect_timeout: CONNECT_TIMEOUT_S,
    idle_timeout: IDLE_TIMEOUT_S,
    max_lifetime: MAX_LIFETIME_S,
    keep_alive: KEEP_ALIVE_S,
    backoff: reconnectDelay,
    onnotice: () => undefined, // "relation exists, skipping": nothing that an operator can act on
    // Only the back end that prepared a named statement knows it.
    prepare: !isPooled,
    // pgbouncer knows application_name and a few formats, and refuses other parameters at startup.
    connection: {
      ...(socketPath ? {} : { application_name: 'eaas', ...startupFormats({ isPooled }) }),
      ...(socketPath || isPooled ? {} : { ...SESSION_LIMITS, tcp_user_timeout: TCP_USER_TIMEOUT_MS }),
      ...(searchPath === undefined || isPooled ? {} : { search_path: searchPath }),
    },
  }
  const sql = url
    ? postgres(
        ...target(url, {
          ...options,
          silence: SILENCE_S,
          ...(isPooled ? { before: WHOLE_TABLES } : {}),
          credentials: createLogin({ ...given, url }, given.onStaleLogin),
        } as typeof options),
      )
    : postgres({ ...options, path: socketPath, user: 'postgres', database: 'postgres' } as typeof options)
  if (isPooled) beforeWork(sql, setLimits)
  if (given.isSpread) beforeWork(markSpread(sql), markSpread)
  return sql as unknown as Sql
}

// Chooses, among several hosts, the one that takes writes. Refuses a standby even as the only host: its data may be
// old, so that a revoked API key would still work, and a log would seem to have gone back.
function target(url: string, options: postgres.Options<Record<string, postgres.PostgresType>>) {
  const { first, hosts, socketPath, database } = readDatabaseUrl(url) ?? { first: url, hosts: [], database: '' }
  const target_session_attrs = hosts.length > 1 ? ('read-write' as const) : ('primary' as const)
  // The driver decodes the user's name, but not the database's. It takes arrays, although its types don't say so.
  const lists = { host: hosts.map(({ host }) => host), port: hosts.map(({ port }) => port) } as object
  const place = socketPath === undefined ? (hosts.length > 0 ? lists : {}) : { path: socketPath }
  return [first, { ...options, target_session_attrs, database, ...place }] as const
}

/** Makes each transaction run `act` before its work, in the same round trip. */
function beforeWork(sql: postgres.Sql, act: (transaction: postgres.TransactionSql) => unknown): void {
  const begin = sql.begin.bind(sql) as (...args: unknown[]) => unknown
  const beginAfter = (...args: unknown[]) => {
    const work = args.pop() as typeof act
    return begin(...args, (transaction: postgres.TransactionSql) => {
      act(transaction)
      return work(transaction)
    })
  }
  Object.assign(sql, { begin: beginAfter })
}

function markSpread<Marked extends object>(sql: Marked): Marked {
  return Object.assign(sql, { isSpread: true })
}

/** Whether the tables are spread: a few statements then name the tenant, which would worsen their plans elsewhere. */
export function isSpread(sql: Queryable): boolean {
  return 'isSpread' in sql
}

/** Whether Citus spreads the tables over machines (docs/scaling.md). Only a superuser can create the table that says so. */
export async function areTablesSpread(sql: Queryable): Promise<boolean> {
  if (!(await hasTable(sql, 'pg_catalog.pg_dist_partition'))) return false
  return exists(sql, sql`select from pg_catalog.pg_dist_partition where logicalrelid = pg_catalog.to_regclass('heads')`)
}

// SESSION_LIMITS and WHOLE_TABLES as text, since parameters would have to be prepared. If it fails, the driver rolls back.
function setLimits(transaction: postgres.TransactionSql): void {
  transaction`
    set local statement_timeout = 5000; set local lock_timeout = 4000; set local idle_in_transaction_session_timeout = 5000;
    set local row_security = off`
    .simple()
    .execute()
}

/** The patched driver's code (packages/postgres) for a COMMIT that the database answered with the tag ROLLBACK. */
const COMMIT_ROLLED_BACK = 'COMMIT_ROLLED_BACK'
/** SQLSTATEs of the connection. A pooler answers with one after it lost its own connection to the database. */
const CONNECTION_EXCEPTION = /^08/

/**
 * Whether the database refused a statement of the transaction, or answered COMMIT with ROLLBACK. After any other error,
 * such as a closed connection, the transaction may have been committed.
 */
export function isRolledBack(error: unknown): boolean {
  if (error instanceof postgres.PostgresError) return error.severity === 'ERROR' && !isPartUnreachable(error)
  if (error instanceof DroppedRowsError) return true
  return error instanceof Error && 'code' in error && error.code === COMMIT_ROLLED_BACK
}

/** Whether a machine of a database that spans machines is missing: only statements about rows on that machine fail. */
export function isPartUnreachable(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.severity === 'ERROR' && CONNECTION_EXCEPTION.test(error.code)
}

export class DroppedRowsError extends Error {
  override readonly name = 'DroppedRowsError'
}

export function assertInserted({ count }: { count: number }, table: string, rows = 1): void {
  if (count !== rows)
    throw new DroppedRowsError(`the database dropped rows of ${table}: ${count} of ${rows} were written`)
}

/** In seconds; partly random, so that the connections of a pool do not all retry at once. */
function reconnectDelay(attempts: number): number {
  return (0.5 + Math.random() / 2) * Math.min(3 ** attempts / 100, RECONNECT_DELAY_S)
}

/** The entries of one commit share one time, so the same text is parsed many times in a row. */
let lastRead = { text: '', time: '' }

/** A time of the database in RFC 3339, UTC, milliseconds; anything else, such as `infinity`, is returned unchanged. */
export function readTime(text: string): string {
  if (text !== lastRead.text) {
    const time = new Date(text)
    lastRead = { text, time: Number.isNaN(time.getTime()) ? text : time.toISOString() }
  }
  return lastRead.time
}

/** Clamps to the last safe integer, which is larger than every id in use, and still valid in a query. */
export function readInteger(value: string | number): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number(value), Number.MAX_SAFE_INTEGER))
}

export async function exists(sql: Queryable, query: Fragment): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`select exists (${query}) as found`
  return row?.found ?? false
}

export async function hasTable(sql: Queryable, name: string): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`select pg_catalog.to_regclass(${name}) is not null as found`
  return row?.found ?? false
}

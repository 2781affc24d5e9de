/** The connection: postgres.js for PostgreSQL and the embedded database alike, with one set of types for both. */
import postgres from 'postgres'
import { readDatabaseUrl } from '../database-url.js'

/**
 * Types of the driver's values: times are RFC 3339 strings with milliseconds, bigints are safe numbers. What is neither, the server
 * never wrote: it comes as a value that no MAC agrees with, so that verification names it rather than fails over it.
 */
const types = {
  timestamptz: {
    to: 1184,
    from: [1184],
    serialize: (time: string) => time,
    parse: readTime,
  },
  bigint: { to: 20, from: [20], serialize: String, parse: readInteger },
  date: { to: 1082, from: [1082], serialize: (day: string) => day, parse: (text: string) => text },
}

type Types = { timestamptz: string; bigint: number; date: string }

export type Sql = postgres.Sql<Types>
/** A transaction: like `sql`, but every query runs in it. Within one, no other connection may be awaited. */
export type Transaction = postgres.TransactionSql<Types>
/** Where a query may run. */
export type Queryable = Sql | Transaction

/** How long one statement may take before the database gives up, in milliseconds. */
export const STATEMENT_TIMEOUT_MS = 5_000
const LOCK_TIMEOUT_MS = 4_000
/** How long a transaction may stand still: one of a process that was stopped in it holds what it has locked for all the others. */
const IDLE_IN_TRANSACTION_MS = 5_000
/** How long the database waits for packets to be received before it takes this side for gone. */
const TCP_USER_TIMEOUT_MS = 20_000
/** After how long without a packet this side asks whether the database is still there. */
const KEEP_ALIVE_S = 10
const CONNECT_TIMEOUT_S = 5
const IDLE_TIMEOUT_S = 300
/** Between two attempts to connect at most. The driver's own delay grows to 20 s: so long would an outage outlast itself. */
const RECONNECT_DELAY_S = 1

export interface ConnectOptions {
  /** PostgreSQL's URL with one host or several, or the unix socket of the embedded database */
  url?: string | undefined
  socketPath?: string | undefined
  /** connections held at most; the embedded database serves them over one back end, so it gets 1 */
  max: number
  /** whether a pooler gives each transaction another back end, so that nothing may be left in a session */
  isPooled?: boolean
}

const SESSION_LIMITS = {
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
}

/** Connects lazily: the first query opens the first connection. */
export function connect({ url, socketPath, max, isPooled = false }: ConnectOptions): Sql {
  const options: postgres.Options<Record<string, postgres.PostgresType>> = {
    max,
    types,
    connect_timeout: CONNECT_TIMEOUT_S,
    idle_timeout: IDLE_TIMEOUT_S,
    keep_alive: KEEP_ALIVE_S,
    backoff: reconnectDelay,
    onnotice: () => undefined, // "relation exists, skipping": nothing that an operator can act on
    // A named statement is known to one back end only.
    prepare: !isPooled,
    // pgbouncer refuses parameters at startup that it does not know; it knows application_name.
    connection: {
      ...(socketPath ? {} : { application_name: 'eaas' }),
      ...(socketPath || isPooled ? {} : { ...SESSION_LIMITS, tcp_user_timeout: TCP_USER_TIMEOUT_MS }),
    },
  }
  const sql = url
    ? postgres(...target(url, options))
    : postgres({ ...options, path: socketPath, user: 'postgres', database: 'postgres' } as postgres.Options<
        typeof types
      >)
  return (isPooled ? withLocalLimits(sql) : sql) as unknown as Sql
}

// With several hosts, one that takes writes is looked for. A standby by itself is refused too: what it shows may be old, so that a
// revoked API key still counted, and a log seemed to have gone back.
function target(url: string, options: postgres.Options<Record<string, postgres.PostgresType>>) {
  const { first, hosts } = readDatabaseUrl(url) ?? { first: url, hosts: [] }
  const target_session_attrs = hosts.length > 1 ? ('read-write' as const) : ('primary' as const)
  // The driver takes arrays; its types don't say so.
  const lists = { host: hosts.map(({ host }) => host), port: hosts.map(({ port }) => port) } as object
  return [first, { ...options, target_session_attrs, ...(hosts.length > 0 ? lists : {}) }] as const
}

// SESSION_LIMITS once more, as text: a statement with parameters would have to be prepared. If it fails, the driver rolls back.
function setLimits(transaction: postgres.TransactionSql): void {
  transaction`
    set local statement_timeout = 5000; set local lock_timeout = 4000; set local idle_in_transaction_session_timeout = 5000`
    .simple()
    .execute()
}

/** Sends the limits with the first statement of each transaction, so that they cost no round trip of their own. */
function withLocalLimits(sql: postgres.Sql): postgres.Sql {
  const begin = sql.begin.bind(sql) as (
    options: string,
    work: (transaction: postgres.TransactionSql) => unknown,
  ) => Promise<unknown>
  type Work = (transaction: postgres.TransactionSql) => unknown
  const beginWithLimits = (first: string | Work, second?: Work) => {
    const [options, work] = typeof first === 'string' ? [first, second] : ['', first]
    return begin(options, (transaction) => {
      setLimits(transaction)
      return work?.(transaction)
    })
  }
  return Object.assign(sql, { begin: beginWithLimits })
}

/** The mended driver's code for a COMMIT that the database answered with the tag ROLLBACK. */
const COMMIT_ROLLED_BACK = 'COMMIT_ROLLED_BACK'
/** SQLSTATEs of the connection: a pooler answers with one when it lost its own connection to the database. */
const CONNECTION_EXCEPTION = /^08/

/**
 * Whether an error says that the transaction was rolled back: the database refused a statement of it, or answered COMMIT with
 * ROLLBACK. After any other error, such as a connection that ended, the transaction may have been committed.
 */
export function isRolledBack(error: unknown): boolean {
  if (error instanceof postgres.PostgresError)
    return error.severity === 'ERROR' && !CONNECTION_EXCEPTION.test(error.code)
  return error instanceof Error && 'code' in error && error.code === COMMIT_ROLLED_BACK
}

/** In seconds, longer with each failed attempt, and drawn, so that the connections of a pool do not all come at once. */
function reconnectDelay(attempts: number): number {
  return (0.5 + Math.random() / 2) * Math.min(3 ** attempts / 100, RECONNECT_DELAY_S)
}

/** Entries of one commit have one time: most are read again and again. */
let lastRead = { text: '', time: '' }

/** A time of the database in RFC 3339, UTC, milliseconds; `infinity`, say, stays as it is. */
export function readTime(text: string): string {
  if (text !== lastRead.text) {
    const time = new Date(text)
    lastRead = { text, time: Number.isNaN(time.getTime()) ? text : time.toISOString() }
  }
  return lastRead.time
}

/** Beyond 2^53 it is the last number before: larger than all that there are, and still one that can be asked for. */
export function readInteger(value: string | number): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number(value), Number.MAX_SAFE_INTEGER))
}

import {
  findRunningEmbedded,
  hasEmbeddedDatabase,
  openEmbedded,
  type RunningEmbedded,
} from '../../embedded/database.js'
import { type DatabaseSetting, readDatabaseUrl } from '../database-url.js'
import type { Queryable } from './db.js'
import { areTablesSpread, connect, type Sql } from './db.js'
import type { Login } from './login.js'
import { assertFormats, EMBEDDED_PATH } from './text-formats.js'
import { untilReached } from './unreachable.js'
import { type Durability, findDurability } from './writability.js'

/** For PostgreSQL. The embedded database serves every client over one back end and gets one connection. */
const POSTGRES_CONNECTIONS = 10
const CLOSE_TIMEOUT_S = 5
/** For a server's first jobs, the comparison of each second, and the installation's log. */
const START_CONNECTIONS = 3

type Location = DatabaseSetting & { databasePooler: Pooler; dataDir: string }

type Pooler = 'auto' | 'transaction' | 'none'

/** An opened database; the properties hold at its opening. */
export interface Store {
  sql: Sql
  isEmbedded: boolean
  isPooled: boolean
  isSpread: boolean
  /** the search path that its sessions begin with */
  searchPath: string | undefined
  /** undefined beside a server of the embedded database, if that server does not report it */
  durability: Durability | undefined
  findDurability(): Promise<Durability>
  description: string
  close(): Promise<void>
}

/** Thrown if there is no database where one is expected, for example in a wrong directory. */
export class NoDatabaseError extends Error {
  override readonly name = 'NoDatabaseError'
}

/** In any other encoding, some characters are errors or come back changed, and the MAC of their row fails. */
const LOSSLESS_ENCODINGS = ['UTF8', 'SQL_ASCII']

export class DatabaseEncodingError extends Error {
  override readonly name = 'DatabaseEncodingError'

  /** `database` contains no credentials. */
  constructor(database: string, encoding: string | undefined) {
    super(
      `The database at ${database} has the encoding ${encoding}, in which not every name is stored as it is given, and eaas needs UTF8: create another ` +
        "one with create database … encoding 'UTF8' locale 'C' template template0, and move an installation that exists there with pg_dump and psql",
    )
  }
}

interface OpenStoreOptions {
  /** connect to the process that holds the embedded database, if one runs */
  beside: boolean
  mayCreate: boolean
  /** open as many connections to PostgreSQL as a server needs at its start, instead of one */
  serves?: boolean
  /** called when the embedded database fails while open, and no longer serves; by default the process ends */
  onFailure?: ((error: Error) => void) | undefined
  /** called when the file of PostgreSQL's URL is no longer usable; connections log in as before */
  onStaleLogin?: ((error: Error) => void) | undefined
}

/**
 * Opens the database that the configuration names: PostgreSQL, or the embedded one, which is locked for this process.
 *
 * @throws NoDatabaseError, UnreachableDatabaseError, DataDirectoryInUseError, ForeignDataDirectoryError,
 * UnusableDataDirectoryError, DatabaseEncodingError, WrongFormatError, or the database's own error
 */
export async function openStore(
  config: Location,
  { beside, mayCreate, serves = false, onFailure, onStaleLogin }: OpenStoreOptions,
): Promise<Store> {
  const { databaseUrl: url, databaseUrlFile: urlFile, databaseUrlOption: urlOption, databasePooler } = config
  if (url !== undefined) {
    const connections = serves ? START_CONNECTIONS : 1
    return untilReached(
      () => openPostgres({ url, urlFile, urlOption, onStaleLogin }, databasePooler, connections),
      config,
    )
  }
  const running = beside ? await findRunningEmbedded(config.dataDir) : undefined
  if (running) return embeddedStore(config, running, async () => undefined)
  if (!mayCreate && !hasEmbeddedDatabase(config.dataDir)) {
    throw new NoDatabaseError(
      `There is no database in ${config.dataDir}. Set EAAS_DATA_DIR to its directory, or create one: eaas start`,
    )
  }
  const embedded = await openEmbedded({ dataDir: config.dataDir, ...(onFailure && { onFailure }) })
  return embeddedStore(config, embedded, () => embedded.close())
}

const DURABILITIES = { fsync: 'synchronous', none: 'asynchronous' } as const

async function embeddedStore(
  { dataDir }: Location,
  { socketPath, durability: found }: Pick<RunningEmbedded, 'socketPath' | 'durability'>,
  close: () => Promise<void>,
): Promise<Store> {
  const durability = found && DURABILITIES[found]
  const sql = connect({ socketPath, max: 1 })
  const store: Store = {
    sql,
    isEmbedded: true,
    isPooled: false,
    isSpread: false,
    searchPath: EMBEDDED_PATH,
    durability,
    // Its settings do not show what its file system does with a commit.
    findDurability: () => sql`select 1`.then(() => durability ?? 'asynchronous'),
    description: `embedded, in ${dataDir}`,
    close: () => end(sql).then(close),
  }
  try {
    await assertFormats(sql)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

async function openPostgres(
  login: Login & Pick<OpenStoreOptions, 'onStaleLogin'>,
  pooler: Pooler,
  connections: number,
): Promise<Store> {
  const { url } = login
  const reached = await findReached(login)
  const { searchPath, encoding, isSpread } = reached
  const { description } = readDatabaseUrl(url) ?? { description: '' }
  if (!LOSSLESS_ENCODINGS.includes(encoding ?? '')) throw new DatabaseEncodingError(description, encoding)
  const isPooled = pooler === 'auto' ? reached.isPooled : pooler === 'transaction'
  const sql = connect({ ...login, max: POSTGRES_CONNECTIONS, isPooled, isSpread, searchPath })
  try {
    await openConnections(sql, connections)
    await assertFormats(sql)
    const durability = await findDurability(sql)
    return {
      sql,
      isEmbedded: false,
      isPooled,
      isSpread,
      searchPath,
      durability,
      findDurability: () => findDurability(sql),
      description: `PostgreSQL at ${description}${isPooled ? ', through a pooler' : ''}`,
      close: () => end(sql),
    }
  } catch (error) {
    await end(sql)
    throw error
  }
}

// The pool keeps them open for later statements.
async function openConnections(sql: Sql, count: number): Promise<void> {
  const opening = await Promise.allSettled(Array.from({ length: count }, () => sql.reserve()))
  for (const opened of opening) if (opened.status === 'fulfilled') opened.value.release()
  for (const opened of opening) if (opened.status === 'rejected') throw opened.reason
}

function end(sql: Sql): Promise<void> {
  return sql.end({ timeout: CLOSE_TIMEOUT_S })
}

/** How a database is reached. `searchPath` is undefined if the role's path leads to no schema. */
type Reached = Pick<Store, 'isPooled' | 'isSpread' | 'searchPath'> & { encoding: string | undefined }

/**
 * Detects a pooler, where our tables are and how text is stored. When a client connects, PostgreSQL sends the id of its
 * back end, for cancel requests; a pooler sends an id of its own, because the back end changes. Connects once.
 *
 * @throws the database's own error
 */
export async function findReached(login: Login): Promise<Reached> {
  const sql = connect({ ...login, max: 1, isPooled: true })
  try {
    const { 0: row, state } = await sql<{ pid: number; path: string | null; encoding: string }[]>`
      select pg_catalog.pg_backend_pid() as pid, ${ownPath(sql)} as path,
             pg_catalog.current_setting('server_encoding') as encoding`
    const isSpread = await areTablesSpread(sql)
    return { isPooled: row?.pid !== state.pid, searchPath: row?.path ?? undefined, encoding: row?.encoding, isSpread }
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/**
 * The path that a session begins with; null if it leads nowhere. Whatever the settings of the role or the database,
 * unqualified names then lead to one schema, that of our tables, after PostgreSQL's own catalog and before temporary
 * tables. A pooler in transaction mode does not pass the path on. A function that runs in our session can change it
 * there (session-watch.ts). So the statement names everything with its schema, and uses no operator of another schema.
 */
function ownPath(sql: Queryable) {
  return sql`(
    select pg_catalog.concat(pg_catalog.quote_ident(coalesce(
      (select n.nspname from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) c.relnamespace
       where c.oid operator(pg_catalog.=) pg_catalog.to_regclass('schema_version')::pg_catalog.oid),
      pg_catalog.current_schema()
    )::pg_catalog.text), ', pg_temp')
    where pg_catalog.current_schema() is not null
  )`
}

/** Opening the database, whichever it is. */
import { connect, type Sql } from './db.js'
import { findRunningEmbedded, hasEmbeddedDatabase, openEmbedded } from './embedded.js'
import { type Durability, findDurability } from './settings.js'

/** Connections to PostgreSQL. The embedded database serves every client over one back end and gets one. */
const POSTGRES_CONNECTIONS = 10
const CLOSE_TIMEOUT_S = 5

/** Where the database is: on PostgreSQL, or else in the data directory. */
export interface Location {
  databaseUrl: string | undefined
  dataDir: string
}

/** A database, opened. */
export interface Store {
  sql: Sql
  isEmbedded: boolean
  /** when it was opened */
  durability: Durability
  /** Asks the database for the one in force, which its operator may have changed. */
  findDurability(): Promise<Durability>
  description: string
  close(): Promise<void>
}

/** Thrown where a database was expected and none is, as in a wrong directory. */
export class NoDatabaseError extends Error {
  override readonly name = 'NoDatabaseError'
}

export interface OpenStoreOptions {
  /** connect to the process that holds the embedded database, where there is one */
  beside: boolean
  /** whether an embedded database is made where there is none */
  mayCreate: boolean
}

/**
 * Opens the database that the configuration names: PostgreSQL, or the embedded one, which is locked for this process.
 *
 * @throws NoDatabaseError, DataDirectoryInUseError, ForeignDataDirectoryError, or the database's own error
 */
export async function openStore(config: Location, { beside, mayCreate }: OpenStoreOptions): Promise<Store> {
  if (config.databaseUrl !== undefined) return openPostgres(config.databaseUrl)
  const running = beside ? await findRunningEmbedded(config.dataDir) : undefined
  if (running) return embeddedStore(config, running, { durability: 'synchronous', close: async () => undefined })
  if (!mayCreate && !hasEmbeddedDatabase(config.dataDir)) {
    throw new NoDatabaseError(
      `There is no database in ${config.dataDir}. Name its directory in EAAS_DATA_DIR, or make one there: eaas start`,
    )
  }
  const embedded = await openEmbedded({ dataDir: config.dataDir })
  const durability = embedded.durability === 'fsync' ? 'synchronous' : 'asynchronous'
  return embeddedStore(config, embedded, { durability, close: () => embedded.close() })
}

function embeddedStore(
  { dataDir }: Location,
  { socketPath }: { socketPath: string },
  { durability, close }: { durability: Durability; close: () => Promise<void> },
): Store {
  const sql = connect({ socketPath, max: 1 })
  return {
    sql,
    isEmbedded: true,
    durability,
    findDurability: () => sql`select 1`.then(() => durability), // its settings don't tell what its files do
    description: `embedded, in ${dataDir}`,
    async close() {
      await end(sql)
      await close()
    },
  }
}

async function openPostgres(url: string): Promise<Store> {
  const sql = connect({ url, max: POSTGRES_CONNECTIONS })
  try {
    const { host, pathname } = new URL(url)
    const durability = await findDurability(sql)
    return {
      sql,
      isEmbedded: false,
      durability,
      findDurability: () => findDurability(sql),
      description: `PostgreSQL at ${host}${pathname}`,
      close: () => end(sql),
    }
  } catch (error) {
    await end(sql)
    throw error
  }
}

function end(sql: Sql): Promise<void> {
  return sql.end({ timeout: CLOSE_TIMEOUT_S })
}

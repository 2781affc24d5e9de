// The application's database: PostgreSQL if DATABASE_URL names one, otherwise PGlite: PostgreSQL in this process.
import { UsageError } from '../lib/usage-error.mjs'

/**
 * Runs one statement, with its parameters; an object or a list is passed as JSON if the statement takes JSON.
 *
 * @typedef {(text: string, parameters?: unknown[]) => Promise<any[]>} Query
 */

/**
 * @typedef {object} Database
 * @property {string} name for people
 * @property {Query} query always on the same connection: only it sees temporary tables, which end with it
 * @property {(text: string) => Promise<void>} execute runs several statements
 * @property {<T>(work: (query: Query) => Promise<T>) => Promise<T>} transaction
 * @property {() => Promise<void>} close
 */

/**
 * @param {string | undefined} url
 * @param {AbortSignal} signal ends the connection
 * @returns {Promise<Database>}
 * @throws {UsageError} when it cannot be reached
 */
export async function openDatabase(url, signal) {
  return url === undefined ? openEmbedded() : connect(url, signal)
}

/** @returns {Promise<Database>} */
async function openEmbedded() {
  const { PGlite } = await import('@electric-sql/pglite')
  const pglite = await PGlite.create() // in memory
  return {
    name: 'PGlite, in this process and in memory',
    query: async (text, parameters) => (await pglite.query(text, parameters)).rows,
    execute: async (text) => void (await pglite.exec(text)),
    transaction: (work) =>
      pglite.transaction((within) => work(async (text, parameters) => (await within.query(text, parameters)).rows)),
    close: () => pglite.close(),
  }
}

/**
 * @param {string} url
 * @param {AbortSignal} signal
 * @returns {Promise<Database>}
 */
async function connect(url, signal) {
  const { default: postgres } = await import('postgres')
  const sql = openPostgres(postgres, url)
  const giveUp = () => void sql.end({ timeout: 0 })
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    const [row] = await sql`select current_setting('server_version') as version, current_database() as name`
    /** @param {import('postgres').Sql | import('postgres').TransactionSql} on @returns {Query} */
    const queryOn =
      (on) =>
      (text, parameters = []) =>
        on.unsafe(text, /** @type {import('postgres').ParameterOrJSON<never>[]} */ (parameters), { prepare: true })
    return {
      name: `PostgreSQL ${row?.version}, database ${row?.name}`,
      query: queryOn(sql),
      execute: async (text) => void (await sql.unsafe(text)),
      transaction: async (work) => {
        /** @type {any} */
        const result = await sql.begin((within) => work(queryOn(within)))
        return result
      },
      async close() {
        signal.removeEventListener('abort', giveUp)
        await sql.end({ timeout: 5 })
      },
    }
  } catch (error) {
    await sql.end({ timeout: 0 })
    throw unusable(error)
  }
}

/**
 * @param {typeof import('postgres')} postgres
 * @param {string} url
 */
function openPostgres(postgres, url) {
  try {
    return postgres(url, { max: 1, max_lifetime: null, connect_timeout: 10, onnotice: () => undefined })
  } catch (error) {
    throw unusable(error)
  }
}

/** @param {unknown} error its message names no password */
function unusable(error) {
  return new UsageError(`DATABASE_URL cannot be used: ${error instanceof Error ? error.message : error}`)
}

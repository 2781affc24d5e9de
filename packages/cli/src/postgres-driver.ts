/** Opens the PostgreSQL database of `DATABASE_URL` with the application's own driver. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { PostgresQuery } from './backfill.js'
import { CommandError, type Io, UsageError } from './io.js'

export const DRIVERS = ['pg', 'postgres'] as const
export type Driver = (typeof DRIVERS)[number]

export const DATABASE_HELP = `  DATABASE_URL            URL of the database, as in
                          postgres://app@db.example.org/app, and nowhere else,
                          since other users can read arguments`

const APPLICATION_NAME = 'eaas-cli'
const CONNECT_SECONDS = 10

export interface Database {
  query: PostgresQuery
  /** The database's name and address, as the server reports them. */
  identity: string
  close(): Promise<void>
}

type Connection = Omit<Database, 'identity'>

interface Pg {
  Pool: new (
    options: object,
  ) => {
    query(text: string, parameters: string[]): Promise<{ rows: object[] }>
    on(event: 'error', listener: () => void): unknown
    end(): Promise<void>
  }
}

type PostgresJs = (
  url: string,
  options: object,
) => { unsafe(text: string, parameters: string[]): Promise<object[]>; end(options: { timeout: number }): Promise<void> }

const OPENERS: Readonly<Record<Driver, (loaded: unknown, url: string) => Connection>> = {
  pg(loaded, url) {
    const pool = new (loaded as Pg).Pool({
      connectionString: url,
      max: 1,
      connectionTimeoutMillis: CONNECT_SECONDS * 1_000,
      keepAlive: true,
      application_name: APPLICATION_NAME,
    })
    pool.on('error', () => undefined) // from an idle connection: the next statement opens another one
    return { query: async (text, parameters) => (await pool.query(text, parameters)).rows, close: () => pool.end() }
  },
  postgres(loaded, url) {
    const sql = (loaded as PostgresJs)(url, {
      max: 1,
      connect_timeout: CONNECT_SECONDS,
      onnotice: () => undefined, // a trigger's notice may quote a row
      connection: { application_name: APPLICATION_NAME },
    })
    return { query: (text, parameters) => sql.unsafe(text, parameters), close: () => sql.end({ timeout: 1 }) }
  },
}

/** Connects with a driver installed for the module's package or the current folder. @throws UsageError, CommandError */
export async function openDatabase(io: Io, modulePath: string, wanted: Driver | undefined): Promise<Database> {
  const url = io.env.DATABASE_URL
  if (!url) throw new UsageError('no database: set DATABASE_URL')
  const { name, loaded } = loadDriver([modulePath, join(io.folder, 'here')], wanted)
  let connection: Connection | undefined
  try {
    connection = OPENERS[name](loaded, url)
    const [row] = await connection.query(
      'select json_build_array(current_database(), inet_server_addr()::text, inet_server_port())::text as r',
      [],
    )
    return { ...connection, identity: String(Object.values(row ?? {})[0]) }
  } catch (error) {
    await connection?.close().catch(() => undefined)
    throw new CommandError(`no connection to the database of DATABASE_URL: ${describeError(error, url)}`)
  }
}

function loadDriver(places: readonly string[], wanted: Driver | undefined): { name: Driver; loaded: unknown } {
  for (const name of wanted === undefined ? DRIVERS : [wanted]) {
    for (const place of places) {
      const load = createRequire(place)
      let path: string
      try {
        path = load.resolve(name)
      } catch {
        continue // not installed there
      }
      return { name, loaded: load(path) }
    }
  }
  throw new UsageError(
    `the application has no driver of PostgreSQL: run npm install ${wanted ?? 'pg'} where its package.json is`,
  )
}

function describeError(error: unknown, url: string): string {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  if (code === 'ERR_INVALID_URL') return 'it is no URL'
  const [, password = ''] = /^[^/]*\/\/[^:@/]*:([^@]*)@/.exec(url) ?? []
  const secrets = [url, password, decodeLeniently(password)].filter((secret) => secret !== '')
  const cleaned = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), message)
  return [cleaned, code].filter((part) => typeof part === 'string' && part !== '').join(', ') || 'no reason was given'
}

function decodeLeniently(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

// Gives each test file an empty database of its own, on the back end of the running vitest project.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { inject } from 'vitest'
import { copyFolder } from '../run/copy-folder.js'
import { copyDatabase, MIGRATED } from './postgres.js'

export type Backend = 'embedded' | 'postgres'

declare module 'vitest' {
  export interface ProvidedContext {
    backend: Backend
    /** Whether databases are reached through pgbouncer in transaction mode (project `pgbouncer`). */
    isPooled: boolean
    /** Where pgbouncer listens on 127.0.0.1; 0 if there is none. */
    poolerPort: number
    /** Superuser's URL of the PostgreSQL of this run; '' on the embedded back end. */
    postgresUrl: string
    /**
     * Folder for embedded databases, removed after the run; '' on PostgreSQL. Its `empty/postgres` is a newly created database, and
     * `migrated/postgres` one with the server's tables.
     */
    embeddedDir: string
  }
}

export type TestDatabase =
  /** `url` may lead through pgbouncer; `directUrl` never does, so that checks read the database itself. */
  | { backend: 'postgres'; url: string; directUrl: string; drop: () => Promise<void> }
  | { backend: 'embedded'; dataDir: string; drop: () => Promise<void> }

/** Returns a database of PostgreSQL as another role reaches it, with the password `secret`. */
export function asRole(database: TestDatabase, role: string): TestDatabase {
  if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
  const [url = '', directUrl = ''] = [database.url, database.directUrl].map((text) => {
    const named = new URL(text)
    return Object.assign(named, { username: encodeURIComponent(role), password: 'secret' }).href
  })
  return { ...database, url, directUrl }
}

/** Returns the back end of the running project. */
export function backend(): Backend {
  return inject('backend')
}

/** The databases that the running test file made. */
const made: TestDatabase[] = []

/**
 * Makes a new database: the URL of one on PostgreSQL, or a data folder for an embedded one. Dropping it is optional: it is
 * dropped when the test file ends.
 * @param name distinguishes it from other databases while debugging; letters, digits and `_`
 * @param created whether an embedded database is copied into the folder, which is ten times faster than creating one;
 * `false` leaves the folder empty, as it is before the first start
 * @param migrated whether it has the server's tables, without rows, so that a test need not make them; otherwise it
 * is empty
 * @param copyOf the `originalOf` an unused database whose content to copy
 */
export async function freshDatabase(name = 'test', content: DatabaseContent = {}): Promise<TestDatabase> {
  const database = await databaseOfRun(name, content)
  made.push(database)
  return database
}

/** Drops the databases that the running test file made: those of a whole run would fill the memory of a machine. */
export async function dropDatabases(): Promise<void> {
  for (const database of made.splice(0)) await database.drop()
}

export interface DatabaseContent {
  created?: boolean
  migrated?: boolean
  copyOf?: string
}

/** Makes a new database as `freshDatabase` does, which stays until the run ends. */
export async function databaseOfRun(
  name: string,
  { created = true, migrated = false, copyOf }: DatabaseContent,
): Promise<TestDatabase> {
  if (backend() === 'embedded') {
    const dataDir = await mkdtemp(join(inject('embeddedDir'), `${name}-`))
    if (created) {
      const original = copyOf ?? join(inject('embeddedDir'), migrated ? 'migrated' : 'empty')
      copyFolder(join(original, 'postgres'), join(dataDir, 'postgres'))
    }
    return { backend: 'embedded', dataDir, drop: () => rm(dataDir, { recursive: true, force: true }) }
  }
  const adminUrl = inject('postgresUrl')
  const unique = `${name}_${randomBytes(6).toString('hex')}`
  await copyDatabase(adminOf(adminUrl), unique, copyOf ?? (migrated ? MIGRATED : 'template1'))
  const directUrl = withName(adminUrl, unique)
  const url = isPooled() ? withPort(directUrl, inject('poolerPort')) : directUrl
  return { backend: 'postgres', url, directUrl, drop: () => dropDatabase(adminUrl, unique) }
}

/** Returns what `freshDatabase` copies: the name of a database on PostgreSQL, or the data folder of an embedded one. */
export function originalOf(database: TestDatabase): string {
  return database.backend === 'embedded' ? database.dataDir : new URL(database.directUrl).pathname.slice(1)
}

/** Whether the `url` of a database leads through pgbouncer. */
export function isPooled(): boolean {
  return inject('isPooled')
}

/** The same URL with another port. */
function withPort(databaseUrl: string, port: number): string {
  const url = new URL(databaseUrl)
  url.port = String(port)
  return url.href
}

function withName(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** The superuser's connections of this worker, by URL: a connection for each database would take as long as the database. */
const admins = new Map<string, postgres.Sql>()

function adminOf(adminUrl: string): postgres.Sql {
  const admin = admins.get(adminUrl) ?? postgres(adminUrl, { max: 1, onnotice: () => undefined })
  admins.set(adminUrl, admin)
  return admin
}

async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  const admin = adminOf(adminUrl)
  try {
    // Waits for the sessions that are about to end: a client reports a forced end, even after it has closed its pool.
    if (!isPooled()) return void (await admin`drop database if exists ${admin(name)}`)
  } catch (error) {
    if (!(error instanceof postgres.PostgresError && error.code === '55006')) throw error // a session is in use
  }
  await admin`drop database if exists ${admin(name)} with (force)`
}

/** Migrates the database to this version's schema: applies the missing SQL files in order, in one transaction. */
import { readdir, readFile } from 'node:fs/promises'
import type { Sql, Transaction } from './db.js'
import { withDeadline } from './deadline.js'

const FILE_NAME = /^(\d{3})-[a-z0-9-]+\.sql$/
/** Two processes that create the lock table at once: PostgreSQL reports the loser as a unique violation, or that the table or its type exists. */
const CREATED_MEANWHILE = ['23505', '42710', '42P07']

/** How long a process waits while another one migrates. */
const TURN_TIMEOUT = '10min'
/** How long a migration waits for a table lock, behind which every other process waits. Its statements themselves have no limit. */
const TABLE_TIMEOUT = '10s'
/** How long the database may take to acknowledge a commit, in milliseconds: it never does while its synchronous standby is missing. */
const COMMIT_DEADLINE_MS = 30_000

/** Thrown when the database was written by a newer version of the server. */
export class NewerSchemaError extends Error {
  override readonly name = 'NewerSchemaError'
}

/**
 * Applies the missing migrations; returns their numbers. Processes that start together take turns on the lock row. Writes nothing if
 * none is missing, so that a command that only reads works on a database that takes no writes.
 *
 * @throws NewerSchemaError, DatabaseDeadlineError
 */
export async function migrate(sql: Sql, directory: URL, complete?: Complete): Promise<number[]> {
  const { version, newest } = await compareSchemas(sql, directory)
  if (version === newest) return []
  await withDeadline(ensureTable(sql), COMMIT_DEADLINE_MS)
  return acknowledged((workIsDone) => applyMissing(sql, { directory, complete, workIsDone }))
}

// The deadline begins after the statements, which may take long.
function acknowledged<T>(transaction: (workIsDone: () => void) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const committed = transaction(() => void withDeadline(committed, COMMIT_DEADLINE_MS).catch(reject))
    committed.then(resolve, reject)
  })
}

/** Work of the server in the transaction of the migrations; `from` is the version before, 0 in a new database. */
export type Complete = (transaction: Transaction, versions: { from: number; to: number }) => Promise<void>

async function applyMissing(
  sql: Sql,
  { directory, complete, workIsDone }: { directory: URL; complete: Complete | undefined; workIsDone: () => void },
): Promise<number[]> {
  const migrations = await readMigrations(directory)
  return sql.begin(async (transaction) => {
    // The session's limits are meant for calls.
    await transaction`
      select pg_catalog.set_config('lock_timeout', ${TURN_TIMEOUT}, true), pg_catalog.set_config('statement_timeout', '0', true)`
    const [lock] = await transaction<{ version: number }[]>`select version from schema_version where id = 1 for update`
    const version = lock?.version ?? 0
    const newest = newestVersion(migrations)
    assertKnown(version, newest)
    const missing = migrations.filter((migration) => migration.version > version)
    if (missing.length > 0) await transaction`select pg_catalog.set_config('lock_timeout', ${TABLE_TIMEOUT}, true)`
    for (const migration of missing) await transaction.unsafe(migration.text)
    if (missing.length > 0) await transaction`update schema_version set version = ${newest} where id = 1`
    if (missing.length > 0) await complete?.(transaction, { from: version, to: newest })
    workIsDone()
    return missing.map((migration) => migration.version)
  })
}

/** The schema of the database and the newest that this version of the server knows. @throws NewerSchemaError */
export async function compareSchemas(sql: Sql, directory: URL): Promise<{ version: number; newest: number }> {
  const version = await findSchemaVersion(sql)
  const newest = newestVersion(await readMigrations(directory))
  assertKnown(version, newest)
  return { version, newest }
}

/** The number of the last migration that was applied; 0 for a new database. */
export async function findSchemaVersion(sql: Sql): Promise<number> {
  if (!(await hasTable(sql))) return 0
  const [row] = await sql<{ version: number }[]>`select version from schema_version where id = 1`
  return row?.version ?? 0
}

function newestVersion(migrations: readonly { version: number }[]): number {
  return migrations.at(-1)?.version ?? 0
}

function assertKnown(version: number, newest: number): void {
  if (version <= newest) return
  throw new NewerSchemaError(
    `The database has schema ${version}, this server knows ${newest} at most. Start the newer version of the server.`,
  )
}

async function hasTable(sql: Sql): Promise<boolean> {
  const [table] = await sql<{ found: boolean }[]>`select pg_catalog.to_regclass('schema_version') is not null as found`
  return table?.found ?? false
}

// PostgreSQL requires the right to create tables even if `if not exists` finds one, and a role without that right must be able to start.
async function ensureTable(sql: Sql): Promise<void> {
  try {
    if (!(await hasTable(sql)))
      await sql`create table if not exists schema_version (id integer primary key check (id = 1), version integer not null)`
  } catch (error) {
    if (!CREATED_MEANWHILE.includes((error as { code?: string }).code ?? '')) throw error
  }
  await sql`insert into schema_version (id, version) values (1, 0) on conflict (id) do nothing`
}

async function readMigrations(directory: URL): Promise<{ version: number; text: string }[]> {
  const names = (await readdir(directory)).filter((name) => FILE_NAME.test(name)).sort()
  return Promise.all(
    names.map(async (name) => ({
      version: Number(name.slice(0, 3)),
      text: await readFile(new URL(name, directory), 'utf8'),
    })),
  )
}

/**
 * Migrates the database to this version's schema. Builds the indexes of the missing SQL files while calls continue,
 * then applies these files in order, in one transaction.
 */
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasTable, type Queryable, type Sql, type Transaction, withoutLimits } from './db.js'
import { withDeadline } from './deadline.js'
import { describeHolders, findHoldersBefore, watchHolders } from './lock-holders.js'
import { assertWhole } from './tampered-row.js'

/**
 * Matches an index that is built before the transaction, which then finds it. In a new database, and in the embedded one,
 * the transaction builds it. Its name must be new: an index that an earlier migration gave that name is taken for it.
 */
const BUILT_BEFORE = /^create index if not exists (\w+) (on [^;]+)/gm

const FILE_NAME = /^(\d{3})-[a-z0-9-]+\.sql$/
/** Errors of a process that creates the lock table while another one does: a unique violation, or the table or type exists. */
const CREATED_MEANWHILE = ['23505', '42710', '42P07']
const LOCK_NOT_AVAILABLE = '55P03'
const DEADLOCK = '40P01'
/** A session that holds locks on the tables may wait for this process; a busy PostgreSQL detects that deadlock first. */
const HELD_BY_OTHERS = [LOCK_NOT_AVAILABLE, DEADLOCK]
/** The function of PostgreSQL that reports that a row of its catalog changed ("tuple concurrently updated"). */
const CHANGED_MEANWHILE = 'simple_heap_update'

const OTHERS_TIMEOUT = '10min'
/** How long one try waits for a table lock, while every call waits behind it. Its statements themselves have no limit. */
const TABLE_TIMEOUT_MS = 200
/** Between two tries: the calls that waited behind the last one are answered meanwhile. */
const PAUSE_MS = 1_000
/** In total for all tries to get the locks. */
const LOCKED_MS = 300_000
/** Between two reports of who holds the locks. */
const REPORT_MS = 10_000
/** How long a commit may wait for its acknowledgement, which never comes while the synchronous standby is missing. */
const COMMIT_DEADLINE_MS = 30_000

export class SchemaVersionError extends Error {
  override readonly name = 'SchemaVersionError'
}

/** Thrown when others held locks on the tables until the migration gave up. Nothing was changed. */
export class LockedTablesError extends Error {
  override readonly name = 'LockedTablesError'

  constructor(who: string, ms: number) {
    super(
      `The migration got no locks on the tables for ${Math.round(ms / 1_000)} s, because they were held by ${who}. Nothing was changed. ` +
        'Wait until that has ended, or end it with pg_terminate_backend, and repeat',
    )
  }
}

interface MigrateOptions {
  complete?: Complete | undefined
  /** called now and then while others hold locks on the tables; `message` names them */
  onLocked?: ((message: string) => void) | undefined
  lockedMs?: number
}

/** Work in the transaction of the migrations, repeated with it; `from` is 0 in a new database. */
export type Complete = (transaction: Transaction, versions: { from: number; to: number }) => Promise<void>

/**
 * Applies the missing migrations; returns their numbers. Processes that start together take turns on the lock row.
 * Writes nothing if none is missing, so that commands that only read work on a database that takes no writes. Calls
 * queue behind a transaction that waits for a table's lock, so each try waits briefly and then releases all its locks.
 *
 * @throws SchemaVersionError, LockedTablesError, DatabaseDeadlineError
 */
export async function migrate(
  sql: Sql,
  directory: URL,
  { complete, onLocked, lockedMs = LOCKED_MS }: MigrateOptions = {},
): Promise<number[]> {
  const { version, newest } = await compareSchemas(sql, directory)
  if (version === newest) return []
  await withDeadline(ensureTable(sql), COMMIT_DEADLINE_MS)
  const migrations = await readMigrations(directory)
  await buildIndexes(sql, migrations)
  const from = performance.now()
  let reportedAt = Number.NEGATIVE_INFINITY
  for (;;) {
    const holders = watchHolders(sql)
    try {
      return await acknowledged((workIsDone) => applyMissing(sql, { migrations, complete, holders, workIsDone }))
    } catch (error) {
      const seen = holders.found() // undefined while this process waits for the lock row: another one migrates
      if (!seen || !HELD_BY_OTHERS.includes((error as { code?: string }).code ?? '')) throw error
      const found = seen.length > 0 ? seen : await findHoldersBefore(sql, TABLE_TIMEOUT_MS).catch(() => [])
      const who = describeHolders(found)
      const now = performance.now()
      if (now - from >= lockedMs) throw new LockedTablesError(who, lockedMs)
      if (now - reportedAt >= REPORT_MS) {
        onLocked?.(`the migration waits for locks on the tables, which are held by ${who}; calls go on meanwhile`)
        reportedAt = now
      }
    } finally {
      holders.stop()
    }
    await sleep(PAUSE_MS)
  }
}

/**
 * Builds the indexes of the missing migrations while calls run, in one process at a time, since two builds on one table
 * would wait for each other. The others poll: a build would wait for a statement that waits for the lock row.
 */
async function buildIndexes(sql: Sql, migrations: readonly Migration[]): Promise<void> {
  if (sql.options.max === 1) return // the embedded database, which no calls use yet
  const building = sql.begin(async (transaction) => {
    await transaction`select pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)`
    // The index build waits for all earlier snapshots, and a statement of the extended protocol would keep its snapshot.
    const [lock] = await transaction<{ version: number }[]>`
      select version from schema_version where id = 1 for update skip locked`.simple()
    if (!lock) return false
    const missing = migrations.filter(({ version }) => lock.version > 0 && version > lock.version)
    const indexes = missing.flatMap(({ text }) => [...text.matchAll(BUILT_BEFORE)])
    for (const [, name = '', on = ''] of indexes) await buildIndex(sql, name, on)
    return true
  })
  const isDone = await building.catch((error) => {
    // The database still builds an index for a process that was killed, or has just stopped doing so.
    const { code, routine } = error as { code?: string; routine?: string }
    if (code !== DEADLOCK && routine !== CHANGED_MEANWHILE) throw error
    return false
  })
  if (isDone) return
  await sleep(PAUSE_MS)
  return buildIndexes(sql, migrations)
}

async function buildIndex(sql: Sql, name: string, on: string): Promise<void> {
  await withoutLimits(sql, '"eaas migrate"', async (session) => {
    const [index] = await session<{ is_valid: boolean }[]>`
      select indisvalid as is_valid from pg_index where indexrelid = pg_catalog.to_regclass(${name})`
    if (index?.is_valid) return
    if (index) await session.unsafe(`drop index concurrently ${name}`) // left by an interrupted build
    await session.unsafe(`create index concurrently ${name} ${on}`)
  })
}

// The deadline begins once the statements, which may take long, are done.
function acknowledged<T>(transaction: (workIsDone: () => void) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const committed = transaction(() => void withDeadline(committed, COMMIT_DEADLINE_MS).catch(reject))
    committed.then(resolve, reject)
  })
}

interface Applying {
  migrations: readonly Migration[]
  complete: Complete | undefined
  holders: { watch: (pid: number) => void }
  workIsDone: () => void
}

async function applyMissing(sql: Sql, { migrations, complete, holders, workIsDone }: Applying): Promise<number[]> {
  return sql.begin(async (transaction) => {
    await transaction`
      select pg_catalog.set_config('lock_timeout', ${OTHERS_TIMEOUT}, true), pg_catalog.set_config('statement_timeout', '0', true)`
    const [lock] = await transaction<{ version: number; pid: number }[]>`
      select version, pg_catalog.pg_backend_pid() as pid from schema_version where id = 1 for update`
    const version = lock?.version ?? 0
    const newest = newestVersion(migrations)
    assertMigrated(version, migrations)
    const missing = migrations.filter((migration) => migration.version > version)
    if (missing.length > 0) {
      await transaction`select pg_catalog.set_config('lock_timeout', ${`${TABLE_TIMEOUT_MS}ms`}, true)`
      if (lock) holders.watch(lock.pid)
    }
    for (const migration of missing) await transaction.unsafe(migration.text)
    if (missing.length > 0) await transaction`update schema_version set version = ${newest} where id = 1`
    if (missing.length > 0) await complete?.(transaction, { from: version, to: newest })
    workIsDone()
    return missing.map((migration) => migration.version)
  })
}

/** The version of the database's schema, and the newest version. @throws SchemaVersionError */
export async function compareSchemas(sql: Sql, directory: URL): Promise<{ version: number; newest: number }> {
  // In this order: a process that migrates meanwhile commits both together.
  const hasInstance = await hasTable(sql, 'instance')
  const version = await findSchemaVersion(sql)
  const migrations = await readMigrations(directory)
  if (version === 0 && hasInstance) {
    throw new SchemaVersionError(
      'The database has the tables of eaas, but schema_version does not say of which schema: somebody changed it. Set it to the version that it had, or restore a backup.',
    )
  }
  assertMigrated(version, migrations)
  return { version, newest: newestVersion(migrations) }
}

/** The number of the last migration that was applied; 0 for a new database. */
export async function findSchemaVersion(sql: Queryable): Promise<number> {
  if (!(await hasTable(sql, 'schema_version'))) return 0
  const [row] = await sql<{ version: number }[]>`select version from schema_version where id = 1`
  if (!row) await assertWhole(sql)
  return row?.version ?? 0
}

function newestVersion(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0
}

/** The first file creates the tables of the first release. Every schema since then is migrated; no earlier one was released. */
function assertMigrated(version: number, migrations: readonly Migration[]): void {
  const newest = newestVersion(migrations)
  if (version > newest) {
    throw new SchemaVersionError(
      `The database has schema ${version}, this server knows ${newest} at most. Start the newer version of the server.`,
    )
  }
  const oldest = migrations[0]?.version ?? 0
  if (version === 0 || version >= oldest) return
  throw new SchemaVersionError(
    `The database has schema ${version}, which a version of eaas from before the first release made; this one serves and migrates those from ` +
      `${oldest} on. Nothing was changed. With that version, decrypt what is to be kept and export the audit logs (eaas audit export), and start ` +
      'anew in an empty database. Unless such a version was the last to serve here, somebody changed schema_version: set it to the version that it had',
  )
}

/**
 * Creates the tables of a schema, by default the newest, in a database that has none.
 * @throws SchemaVersionError if this version does not migrate that schema
 */
export async function makeTables(transaction: Transaction, directory: URL, schema?: number): Promise<void> {
  const migrations = await readMigrations(directory)
  const version = schema ?? newestVersion(migrations)
  if (!migrations.some((migration) => migration.version === version)) {
    throw new SchemaVersionError(
      `The rows are of schema ${version}, which no migration of this server ends with: its newest is ${newestVersion(migrations)}. Use the version of eaas that wrote them.`,
    )
  }
  await createVersionTable(transaction)
  for (const migration of migrations) if (migration.version <= version) await transaction.unsafe(migration.text)
  await transaction`update schema_version set version = ${version} where id = 1`
}

// `if not exists` also requires the right to create tables, and a role without that right must be able to start.
async function ensureTable(sql: Sql): Promise<void> {
  try {
    if (!(await hasTable(sql, 'schema_version'))) await createVersionTable(sql)
  } catch (error) {
    if (!CREATED_MEANWHILE.includes((error as { code?: string }).code ?? '')) throw error
  }
  await insertVersion(sql)
}

async function createVersionTable(sql: Queryable): Promise<void> {
  await sql`create table if not exists schema_version (id integer primary key check (id = 1), version integer not null)`
  await insertVersion(sql)
}

async function insertVersion(sql: Queryable): Promise<void> {
  await sql`insert into schema_version (id, version) values (1, 0) on conflict (id) do nothing`
}

type Migration = { version: number; text: string }

async function readMigrations(directory: URL): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => FILE_NAME.test(name)).sort()
  const read = (name: string) => readFile(new URL(name, directory), 'utf8')
  return Promise.all(names.map(async (name) => ({ version: Number(name.slice(0, 3)), text: await read(name) })))
}

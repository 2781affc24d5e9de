// Once per database project: starts PostgreSQL (projects `postgres` and `pgbouncer`), and provides what `freshDatabase` needs.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { connect } from '../../../packages/server/src/core/store/db.js'
import { migrate } from '../../../packages/server/src/core/store/migrations.js'
import { openStore } from '../../../packages/server/src/core/store/open-store.js'
import { distributeTables } from '../../../packages/server/src/operate/store/distribute.js'
import { MIGRATIONS_DIRECTORY } from '../../../packages/server/src/package-directory.js'
import { copyCreatedCluster } from '../database/created-cluster.js'
import type {} from '../database/database.js'
import { findPgbouncer } from '../database/find-pgbouncer.js'
import { findPostgres } from '../database/find-postgres.js'
import { startPgbouncer } from '../database/pgbouncer.js'
import { createDatabase, MIGRATED, startPostgres } from '../database/postgres.js'
import { copyFolder } from './copy-folder.js'
import { guardedDir } from './guarded-dir.js'

/** PostgreSQL starts a process for each database once a minute, to find nothing to vacuum: a run makes hundreds of databases. */
const NO_VACUUM = { autovacuum: 'off' }
/** Whether the tables are spread over shards, on one machine: test/slow/distributed.test.ts. */
const IS_DISTRIBUTED = process.env.EAAS_TEST_DISTRIBUTED === '1'
const CITUS = { shared_preload_libraries: 'citus', 'citus.shard_count': '4', max_prepared_transactions: '200' }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { backend, isPooled } = project.config.provide
  project.provide('postgresUrl', '')
  project.provide('poolerPort', 0)
  project.provide('embeddedDir', '')
  if (backend === 'postgres') {
    const bin = findPostgres()
    if (!bin) throw new Error('PostgreSQL was there when the configuration was read and is gone now: run again')
    const settings = { ...NO_VACUUM, ...(IS_DISTRIBUTED && CITUS) }
    const server = await startPostgres({ bin, runDir: project.getProvidedContext().runDir, settings })
    const databaseUrl = await createDatabase(server.url, MIGRATED)
    await migrateDatabase({ databaseUrl, dataDir: '' })
    if (IS_DISTRIBUTED) await distributeDatabase(databaseUrl)
    project.provide('postgresUrl', server.url)
    if (!isPooled) return server.remove
    const program = findPgbouncer()
    if (!program) throw new Error('pgbouncer was there when the configuration was read and is gone now: run again')
    const pooler = await startPgbouncer({ program, postgresUrl: server.url })
    project.provide('poolerPort', pooler.port)
    return async () => {
      await pooler.remove()
      await server.remove()
    }
  }
  const dir = guardedDir('eaas-test-embedded')
  const [empty, migrated] = [join(dir.path, 'empty'), join(dir.path, 'migrated')]
  await mkdir(empty)
  await copyCreatedCluster(project.getProvidedContext().runDir, join(empty, 'postgres'))
  copyFolder(empty, migrated)
  await migrateDatabase({ databaseUrl: undefined, dataDir: migrated })
  project.provide('embeddedDir', dir.path)
  return dir.remove
}

/** Makes the server's tables. */
async function migrateDatabase(location: { databaseUrl: string | undefined; dataDir: string }): Promise<void> {
  const store = await openStore({ ...location, databasePooler: 'none' }, { beside: false, mayCreate: false })
  try {
    await migrate(store.sql, MIGRATIONS_DIRECTORY)
  } finally {
    await store.close()
  }
}

/** Spreads the tables over shards of this machine, and ends what the extension keeps running: a database in use can't be copied. */
async function distributeDatabase(databaseUrl: string): Promise<void> {
  const { port, password } = new URL(databaseUrl)
  const sql = connect({ url: databaseUrl, max: 1 })
  try {
    await sql`create extension citus`
    await sql`select citus_set_coordinator_host('127.0.0.1', ${Number(port)}::integer)`
    await sql`insert into pg_dist_authinfo values (0, 'postgres', ${`password=${password}`})`
    await sql`select citus_set_node_property('127.0.0.1', ${Number(port)}::integer, 'shouldhaveshards', true)`
    await distributeTables(sql)
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
  } finally {
    await sql.end()
  }
}

// Once per database project: starts PostgreSQL (projects `postgres` and `pgbouncer`), and provides what `freshDatabase` needs.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { migrate } from '../../../packages/server/src/core/store/migrations.js'
import { openStore } from '../../../packages/server/src/core/store/open-store.js'
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

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { backend, isPooled } = project.config.provide
  project.provide('postgresUrl', '')
  project.provide('poolerPort', 0)
  project.provide('embeddedDir', '')
  if (backend === 'postgres') {
    const bin = findPostgres()
    if (!bin) throw new Error('PostgreSQL was there when the configuration was read and is gone now: run again')
    const server = await startPostgres({ bin, runDir: project.getProvidedContext().runDir, settings: NO_VACUUM })
    await migrateDatabase({ databaseUrl: await createDatabase(server.url, MIGRATED), dataDir: '' })
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

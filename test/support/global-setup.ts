// Once per database project: starts PostgreSQL (projects `postgres` and `pgbouncer`), and provides what `freshDatabase` needs.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { createClusterIfAbsent } from '../../packages/server/src/store/embedded/cluster.js'
import type {} from './database.js'
import { findPgbouncer } from './find-pgbouncer.js'
import { findPostgres } from './find-postgres.js'
import { guardedDir } from './guarded-dir.js'
import { startPgbouncer } from './pgbouncer.js'
import { startPostgres } from './postgres.js'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { backend, isPooled } = project.config.provide
  project.provide('postgresUrl', '')
  project.provide('poolerPort', 0)
  project.provide('embeddedDir', '')
  if (backend === 'postgres') {
    const bin = findPostgres()
    if (!bin) throw new Error('PostgreSQL was there when the configuration was read and is gone now: run again')
    const server = await startPostgres({ bin })
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
  const template = join(dir.path, 'template')
  await mkdir(template)
  await createClusterIfAbsent(join(template, 'postgres'))
  project.provide('embeddedDir', dir.path)
  return dir.remove
}

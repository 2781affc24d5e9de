// An embedded database as the server creates it, but without its tables, made once in a run and copied unless a test is about its creation.
import { execFile } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { PGlite } from '@electric-sql/pglite'
import { createClusterIfAbsent } from '../../../packages/server/src/embedded/cluster.js'
import { copyFolder } from '../run/copy-folder.js'
import { madeOnce } from '../run/made-once.js'

const run = promisify(execFile)
const IN_MEMORY = new URL('created-in-memory.mjs', import.meta.url).href

/** The server's own setting. With PGlite's default of 160 MB, the buffers take half of the CPU time of opening. */
const FEW_BUFFERS = ['-c', 'shared_buffers=16MB']

/** Drops all tables. */
const DROP_TABLES = `do $$ begin
  execute (select 'drop table ' || string_agg(tablename, ', ') from pg_tables where schemaname = 'public');
end $$`

/**
 * Returns a folder of the run whose `postgres` is a newly created database without tables.
 * @param runDir the folder of the run
 */
export function createdCluster(runDir: string): Promise<string> {
  return madeOnce(runDir, 'created', async (folder) => {
    const directory = join(folder, 'postgres')
    await createClusterIfAbsent(directory)
    const database = await openCluster(directory)
    await database.exec(DROP_TABLES)
    await database.close()
  })
}

async function openCluster(directory: string): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite')
  return PGlite.create(directory, { startParams: [...PGlite.defaultStartParams, ...FEW_BUFFERS] })
}

/** Copies the created database to `directory`, which need not exist. */
export async function copyCreatedCluster(runDir: string, directory: string): Promise<void> {
  copyFolder(join(await createdCluster(runDir), 'postgres'), directory)
}

/** Opens a copy of the created database in this process. The end of the run removes the copy. */
export async function openCreatedCluster(runDir: string): Promise<PGlite> {
  const directory = mkdtempSync(join(runDir, 'copy-'))
  await copyCreatedCluster(runDir, directory)
  return openCluster(directory)
}

/** Returns a value of NODE_OPTIONS that makes a child process's database in memory a copy, where PGlite would create one. */
export async function copiesInMemoryBelow(runDir: string): Promise<string> {
  const cluster = join(await createdCluster(runDir), 'postgres')
  const folder = await madeOnce(runDir, 'created-archive', (draft) =>
    run('tar', ['-C', cluster, '-cf', join(draft, 'postgres.tar'), '.']),
  )
  const archive = encodeURIComponent(join(folder, 'postgres.tar'))
  return `--import="${IN_MEMORY}?${archive}"`
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { copyCreatedCluster } from '../../../../test/support/database/created-cluster.js'
import { commitsReachTheDisk, DURABLE_START_PARAMS, DurableNodeFS, EmbeddedStoppedError } from './fsync.js'

const COMMITS = 20

describe('fsync of the embedded database', () => {
  let directory: string
  let cluster: string

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'eaas-fsync-'))
    cluster = join(directory, 'postgres')
    await copyCreatedCluster(inject('runDir'), cluster)
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  it('happens on the host for each commit', async () => {
    const fs = new DurableNodeFS(cluster)
    const database = await PGlite.create({ fs, startParams: [...DURABLE_START_PARAMS] })
    expect(await commitsReachTheDisk(database, fs)).toBe(true)

    await database.exec('create table committed (i int)')
    const before = fs.hostFsyncs
    for (let i = 0; i < COMMITS; i++) await database.query('insert into committed values ($1)', [i])
    expect(fs.hostFsyncs - before).toBeGreaterThanOrEqual(COMMITS)
    await database.close()
  })

  it('is found missing at start where PostgreSQL does not ask for it', async () => {
    const fs = new DurableNodeFS(cluster)
    const database = await PGlite.create({ fs, startParams: PGlite.defaultStartParams })
    expect(await commitsReachTheDisk(database, fs)).toBe(false)
    await database.close()
  })

  it('stops PostgreSQL when it fails, and the failure is known', async () => {
    const fs = new DurableNodeFS(cluster)
    const database = await PGlite.create({ fs, startParams: [...DURABLE_START_PARAMS] })
    const { FS } = database.Module
    FS.filesystems.NODEFS.stream_ops.fsync = () => {
      throw new FS.ErrnoError(29) // EIO
    }
    // Query message: its length counts itself, the text and its NUL.
    await database.execProtocolRaw(new TextEncoder().encode('Q\0\0\0\x16create table t ()\0'), { syncToFs: false })
    expect(fs.failure).toBeInstanceOf(EmbeddedStoppedError)
    expect(fs.failure?.message).toMatch(/^The embedded PostgreSQL stopped \(.+\)/)
  })
})

// Whether commits reach the disk, as the process that holds the database finds out and others read. A file of
// its own: it mocks fsync.ts.
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lockDataDirectory } from '@eaas/audit/node'
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest'
import { copyCreatedCluster } from '../../../../test/support/database/created-cluster.js'
import { openStore } from '../core/store/open-store.js'
import { examineDurability } from '../operate/cli/examine-database.js'
import { type Embedded, openEmbedded } from './database.js'

vi.mock(import('./fsync.js'), async (original) => ({
  ...(await original()),
  DURABLE_START_PARAMS: PGlite.defaultStartParams, // PostgreSQL then asks for no fsync
}))

describe('an embedded database whose commits do not reach the disk', () => {
  let dataDir: string
  let embedded: Embedded

  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'eaas-durability-'))
    await copyCreatedCluster(inject('runDir'), join(dataDir, 'postgres'))
    embedded = await openEmbedded({ dataDir })
  })
  afterAll(async () => {
    await embedded.close()
    rmSync(dataDir, { recursive: true, force: true })
  })

  async function examineBeside(directory: string) {
    const location = { databaseUrl: undefined, databasePooler: 'none', dataDir: directory } as const
    const store = await openStore(location, { beside: true, mayCreate: false })
    await store.close()
    return examineDurability(store)
  }

  it('is found so by the process that opens it', () => {
    expect(embedded.durability).toBe('none')
  })

  it('is reported so by a command beside that process', async () => {
    const detail = expect.stringContaining('a power cut can lose acknowledged audit entries')
    expect(await examineBeside(dataDir)).toEqual({ ok: false, detail })
  })

  it('is not reported as durable if the process does not say, as one of an older version', async () => {
    const older = mkdtempSync(join(tmpdir(), 'eaas-durability-'))
    const lock = await lockDataDirectory(older) // which says nothing of durability until it is told
    symlinkSync(embedded.socketPath, join(older, '.s.PGSQL.5432'))
    expect(await examineBeside(older)).toEqual({ warning: true, detail: expect.stringContaining('/health') })
    await lock.release()
    rmSync(older, { recursive: true })
  })
})

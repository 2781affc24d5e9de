// Whether commits reach the disk, as the process that holds the database finds out and others read. A file of its own: it mocks fsync.ts.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest'
import { copyCreatedCluster } from '../../../../../test/support/created-cluster.js'
import { examineDurability } from '../../cli/examine-database.js'
import { openStore } from '../open-store.js'
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

  async function examineBeside() {
    const location = { databaseUrl: undefined, databasePooler: 'none', dataDir } as const
    const store = await openStore(location, { beside: true, mayCreate: false })
    await store.close()
    return examineDurability(store)
  }

  it('is found so by the process that opens it', () => {
    expect(embedded.durability).toBe('none')
  })

  it('is reported so by a command beside that process', async () => {
    const detail = expect.stringContaining('a power cut can lose acknowledged audit entries')
    expect(await examineBeside()).toEqual({ ok: false, detail })
  })

  it('is not reported as durable if the process does not say, as one of an older version', async () => {
    const [name = ''] = readdirSync(dataDir).filter((name) => name.startsWith('server.lock.'))
    const file = join(dataDir, name)
    const { durability: _, ...older } = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify(older))
    expect(await examineBeside()).toEqual({ warning: true, detail: expect.stringContaining('/health') })
  })
})

// eaas move-to-postgres: the embedded database's installation goes on in PostgreSQL, and the old one is refused from then on.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { copyCreatedCluster } from '../support/database/created-cluster.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'

describe.skipIf(backend() === 'embedded' || isPooled())('eaas move-to-postgres', { timeout: 240_000 }, () => {
  let folder: string
  let from: TestDatabase & { backend: 'embedded' }
  let to: TestDatabase & { backend: 'postgres' }
  let urlFile: string
  let secret: string
  const checkpoints = () => join(folder, 'checkpoints')
  const move = (environment = {}) =>
    runCommand(['move-to-postgres', urlFile], {
      database: from,
      rootKey: null,
      environment: { EAAS_CHECKPOINT_FILE: checkpoints(), ...environment },
    })
  const onNew = (...args: string[]) =>
    runCommand(args, {
      database: to,
      rootKey: null,
      environment: { EAAS_ROOT_KEY_FILE: join(from.dataDir, 'root.key'), EAAS_CHECKPOINT_FILE: checkpoints() },
    })
  const tables = async () => {
    const sql = connectTo(to)
    const rows = await sql`select tablename from pg_tables where schemaname = 'public'`
    await sql.end()
    return rows.length
  }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-move-'))
    from = { backend: 'embedded', dataDir: join(folder, 'data'), drop: async () => undefined }
    await copyCreatedCluster(inject('runDir'), join(from.dataDir, 'postgres'))
    const environment = { EAAS_CHECKPOINT_FILE: checkpoints() }
    const { api_key } = await createTenantByCli({ database: from, rootKey: null, environment }, 'acme')
    secret = api_key.secret
    const server = await startServer({ database: from, rootKey: null, environment })
    for (const name of ['a', 'b']) await callsOf(secret)(server.url, 'POST', '/v1/keys', { name })
    await server.stop()
    to = (await freshDatabase('moved')) as typeof to
    urlFile = join(folder, 'url')
    await writeFile(urlFile, to.url, { mode: 0o600 })
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  it('copies and verifies all; servers go on there, and none starts on the old one', async () => {
    const { code, stdout } = await move()
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^\d+ rows were copied to .*; 2 logs with \d+ entries verify/),
    ])
    expect((await onNew('audit', 'verify', '--all')).code).toBe(0)
    const environment = { EAAS_ROOT_KEY_FILE: join(from.dataDir, 'root.key'), EAAS_CHECKPOINT_FILE: checkpoints() }
    const server = await startServer({ database: to, rootKey: null, environment })
    const { body } = await callsOf(secret)(server.url, 'GET', '/v1/keys')
    expect((body as { keys: unknown[] }).keys).toHaveLength(2)
    await server.stop()
    for (const args of [
      ['start'],
      ['tenant', 'list'],
      ['backup', join(folder, 'old'), '--plain'],
      ['move-to-postgres', urlFile],
    ]) {
      const old = await runCommand(args, { database: from, rootKey: null })
      expect([old.code, old.stderr]).toEqual([1, expect.stringContaining('The installation was moved to')])
      expect(old.stderr).not.toContain('interrupted')
    }
  })

  it('is refused while a server runs on the embedded database', async () => {
    const server = await startServer({ database: from, rootKey: null })
    const { code, stderr } = await move()
    await server.stop()
    expect([code, stderr]).toEqual([1, expect.stringMatching(/in use|another process/i)])
    expect(await tables()).toBe(0)
  })

  it('is refused where the settings name PostgreSQL already', async () => {
    const { code, stderr } = await runCommand(['move-to-postgres', urlFile], { database: to })
    expect([code, stderr]).toEqual([1, expect.stringContaining('only the embedded database can be moved')])
  })

  it('refuses a database with another installation, and one with an earlier state of this one', async () => {
    await createTenantByCli({ database: to }, 'other')
    const other = await move()
    expect([other.code, other.stderr]).toEqual([
      1,
      expect.stringContaining('of another installation or an earlier state'),
    ])
    to = (await freshDatabase('earlier')) as typeof to
    await writeFile(urlFile, to.url)
    expect((await move()).code).toBe(0)
    await rm(join(from.dataDir, 'moved'))
    await createTenantByCli({ database: from, rootKey: null }, 'later')
    const earlier = await move({ EAAS_CHECKPOINT_FILE: 'none' })
    expect([earlier.code, earlier.stderr]).toEqual([
      1,
      expect.stringContaining('of another installation or an earlier state'),
    ])
  })

  it('that is given up leaves nothing behind that the embedded installation would take for a loss', async () => {
    expect((await move()).code).toBe(0)
    await rm(join(from.dataDir, 'moved'))
    const environment = { EAAS_CHECKPOINT_FILE: checkpoints() }
    const doctor = await runCommand(['doctor'], { database: from, rootKey: null, environment })
    expect([doctor.code, doctor.stdout]).toEqual([0, expect.stringMatching(/alarms +none/)])
    await createTenantByCli({ database: from, rootKey: null, environment }, 'later')
  })

  it('is finished by a second run if the first one ended between the copy and the mark', async () => {
    expect((await move()).code).toBe(0)
    await rm(join(from.dataDir, 'moved'))
    const again = await move()
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('The rows had been copied before')])
    expect((await move()).stderr).toContain('The installation was moved to')
  })

  it('marks nothing if a log does not verify in the new database', async () => {
    expect((await move()).code).toBe(0)
    await rm(join(from.dataDir, 'moved'))
    const sql = connectTo(to)
    await sql`update audit_log set actor = 'nobody' where action = 'key.create'`
    await sql.end()
    const { code, stderr } = await move()
    expect([code, stderr]).toEqual([1, expect.stringContaining('1 log does not verify in the new database')])
    expect((await runCommand(['tenant', 'list'], { database: from, rootKey: null })).code).toBe(0)
  })
})

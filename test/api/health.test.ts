// GET /health and eaas doctor while writes fail: they report it, and which part failed.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { INSTALLATION_ID } from '@eaas/protocol'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { dek, ELEMENT } from '../support/audit/audit-scene.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type PostgresServer, startPostgres } from '../support/database/postgres.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, EAAS, environmentOf } from '../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const TIMEOUT_MS = 120_000
const SOON = { timeout: 30_000 }

let service: Service
let owner: Caller
let key_id: string

async function open(database: TestDatabase): Promise<void> {
  service = await startService({ database })
  owner = await service.createTenant()
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.key_id
}

const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: Buffer.alloc(32, 1).toString('base64') })

/** Gets the health without the fields that are the same in each answer. */
async function health() {
  const { status, body } = await owner.call('GET', '/health')
  const { cache, hsm, durability, ...rest } = body
  expect([cache, hsm, durability]).toEqual(['up', 'none', 'synchronous'])
  return { http: status, ...rest }
}

const degraded = (database: string, detail: RegExp) => ({
  http: 503,
  status: 'degraded',
  database,
  title: 'Service Unavailable',
  detail: expect.stringMatching(detail),
})
const HEALTHY = { http: 200, status: 'healthy', database: 'up' }

async function metric(name: string): Promise<string | undefined> {
  const text = await (await fetch(`${service.url}/metrics`)).text()
  return new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]
}

async function doctor(database: TestDatabase, name = 'writes') {
  const { stdout } = await runCommand(['doctor', '--json'], { database, rootKey: ROOT_KEY })
  const { findings } = JSON.parse(stdout) as { findings: { check: string; ok: boolean; detail: string }[] }
  return findings.find(({ check }) => check === name)
}

describe('health, where the schema is not what it was', () => {
  beforeAll(async () => open(await freshDatabase('health')))
  afterAll(() => service?.close())

  it('is well before, and says nothing more than that', async () => {
    expect(await health()).toEqual(HEALTHY)
    expect([await metric('eaas_degraded'), await metric('eaas_durability_synchronous')]).toEqual(['0', '1'])
  })

  it('names a missing table, before and after a call has failed by it', async () => {
    const { sql } = service.services
    await sql`alter table audit_counts rename to hidden`
    expect(await health()).toEqual(degraded('schema', /audit_counts/))
    expect((await wrap()).status).toBe(500)
    expect(await health()).toEqual(degraded('schema', /audit_counts/))
    expect(await metric('eaas_degraded')).toBe('1')
    await sql`alter table hidden rename to audit_counts`
    expect((await wrap()).status).toBe(200)
    expect(await health()).toEqual(HEALTHY)
  })

  it.each([
    ['chain_alarms', 'writes'],
    ['purge_marks', 'writes'],
    ['instance', 'tables'], // it has a foreign key, which is looked at before anything is read
  ])('names %s too, which it does not touch', async (table, check) => {
    const { sql } = service.services
    await sql`alter table ${sql(table)} rename to hidden`
    expect(await health()).toEqual(degraded('schema', new RegExp(table)))
    expect(await doctor(service.database, check)).toMatchObject({ ok: false, detail: expect.stringContaining(table) })
    await sql`alter table hidden rename to ${sql(table)}`
    expect(await health()).toEqual(HEALTHY)
  })

  it('tells of commits that the database refuses, until one is done', async () => {
    const { sql } = service.services
    await sql`alter table audit_log add constraint refused check (false) not valid`
    expect((await wrap()).status).toBe(500)
    expect(await health()).toEqual(degraded('failing', /refuses to commit audit entries \(SQLSTATE 23514\)/))
    await sql`alter table audit_log drop constraint refused`
    expect((await wrap()).status).toBe(200)
    expect(await health()).toEqual(HEALTHY)
  })

  it('does not take what one tenant does wrong for a fault of the database', async () => {
    expect((await owner.call('POST', '/v1/keys', { name: 'k' })).status).toBe(409)
    expect((await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'AAAA' })).status).toBe(403)
    expect(await health()).toEqual(HEALTHY)
  })

  it('says of how many logs there are alarms', async () => {
    const alarmed = { http: 200, status: 'degraded', database: 'alarm' }
    for (const [tenant_id, said] of [
      [crypto.randomUUID(), /^the log of a tenant differs from/],
      [crypto.randomUUID(), /^the logs of 2 tenants differ from/],
      [INSTALLATION_ID, /^the installation's own log and the logs of 2 tenants differ from/],
    ] as const) {
      watchesOf(service.services.committer).get(tenant_id).learn({ reason: 'a drill', witness: undefined })
      expect(await health()).toEqual({ ...alarmed, detail: expect.stringMatching(said) })
    }
  })
})

describe.skipIf(backend() === 'embedded')('health, where PostgreSQL takes no writes', { timeout: TIMEOUT_MS }, () => {
  let server: PostgresServer
  let database: TestDatabase
  let admin: postgres.Sql

  beforeAll(async () => {
    const bin = findPostgres()
    if (!bin) throw new Error('no PostgreSQL')
    server = await startPostgres({ bin, runDir: inject('runDir') })
    const url = await server.createDatabase('health')
    database = { backend: 'postgres', url, directUrl: url, drop: async () => undefined }
    admin = postgres(server.url, { max: 1, onnotice: () => undefined })
    await open(database)
  }, TIMEOUT_MS)
  afterEach(async () => {
    await admin`alter system reset all`.catch(() => undefined)
    await admin`select pg_reload_conf()`
  })
  afterAll(async () => {
    await service?.close()
    await admin?.end()
    await server?.remove()
  })

  const set = async (name: string, value: string) => {
    await admin.unsafe(`alter system set ${name} = '${value}'`)
    await admin`select pg_reload_conf()`
  }

  it('says that a database is read-only, and so does eaas doctor', async () => {
    expect(await doctor(database)).toMatchObject({ ok: true })
    await set('default_transaction_read_only', 'on')
    await expect.poll(health, SOON).toEqual(degraded('read_only', /read-only/))
    expect(await doctor(database)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('the database is read-only: turn default_transaction_read_only off'),
    })
    await set('default_transaction_read_only', 'off')
    await expect.poll(health, SOON).toEqual(HEALTHY)
  })

  it('answers what needs no write while the database is read-only, and 503 to calls with budgets', async () => {
    const owner = await service.createTenant()
    const key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
    const { wrapped_key } = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).body
    const budgets = { hash: { per_day: 9 }, unwrap: { per_day: 9 } }
    const permissions = ['hash', 'decrypt']
    const made = await owner.call('POST', '/v1/api-keys', { name: 'b', permissions, budgets })
    const budgeted = service.caller(made.body.secret)
    await set('default_transaction_read_only', 'on')
    await expect.poll(health, SOON).toEqual(degraded('read_only', /read-only/))
    const calls = [
      ['/v1/hash', { key_id, value: 'x' }],
      ['/v1/hash/blind', { key_id, elements: [ELEMENT] }],
      ['/v1/batch', { operations: [{ op: 'blind_hash', key_id, elements: [ELEMENT] }] }],
      [`/v1/keys/${key_id}/unwrap`, { wrapped_key }],
    ] as const
    for (const [path, body] of calls) {
      const [plain, counted] = [await owner.call('POST', path, body), await budgeted.call('POST', path, body)]
      expect([path, plain.status]).toEqual([path, path.endsWith('unwrap') ? 500 : 200])
      expect([path, counted.status, counted.body.code]).toEqual([path, 503, 'E_UNAVAILABLE'])
    }
  })

  it('says that commits are not acknowledged while the synchronous standby is missing, without any call', async () => {
    await set('synchronous_standby_names', 'nobody')
    await expect.poll(health, SOON).toEqual(degraded('failing', /standby/))
    expect(await doctor(database)).toMatchObject({ ok: false, detail: expect.stringContaining('(nobody)') })

    const list = await runCommand(['tenant', 'list', '--json'], { database, rootKey: ROOT_KEY })
    const created = await runCommand(['tenant', 'create', '--name', 'late'], { database, rootKey: ROOT_KEY })
    expect([list.code, list.stdout]).toEqual([0, expect.stringContaining('"status":"active"')])
    expect([created.code, created.stdout]).toEqual([1, ''])
    expect(created.stderr).toMatch(
      /^eaas: the database did not acknowledge the tenant within 10 s; .* eaas tenant list/,
    )

    const folder = await mkdtemp(join(tmpdir(), 'eaas-health-'))
    const backup = await runCommand(['backup', join(folder, 'backup'), '--plain'], { database, rootKey: ROOT_KEY })
    expect([backup.code, backup.stdout]).toEqual([
      0,
      expect.stringMatching(/could not be noted in the database.*4000 ms/),
    ])

    const path = join(folder, 'interrupted')
    const env = environmentOf({ database, rootKey: ROOT_KEY })
    const child = spawn(process.execPath, [EAAS, 'backup', path, '--plain'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const said = text(child.stderr)
    // That of the first one still waits, and has the lock of the row.
    const noting = () => admin`
      select from pg_stat_activity where state = 'active' and query like '%update instance set backed_up_at%' and pid <> pg_backend_pid()`
    await expect.poll(noting, SOON).toHaveLength(2)
    child.kill('SIGINT')
    expect(await said).toBe('')
    expect(existsSync(path)).toBe(true)
    await rm(folder, { recursive: true })

    await set('synchronous_standby_names', '')
    await expect.poll(health, SOON).toEqual(HEALTHY)
  })

  it.each(['heads', 'audit_log', 'audit_counts'])(
    'says while calls wait for a lock on %s that they fail, and is well once it is gone',
    async (table) => {
      await wrap() // a commit of this moment
      const holder = connectTo(database)
      try {
        await holder.begin(async (transaction) => {
          await transaction`lock table ${transaction(table)} in access exclusive mode`
          const { status } = await wrap()
          expect([status, await health()]).toEqual([500, degraded('failing', /lock on a table/)])
        })
        await expect.poll(health, SOON).toEqual(HEALTHY)
      } finally {
        await holder.end()
      }
    },
  )

  it('says that a database was made a standby', async () => {
    await server.stop()
    await writeFile(join(dirname(server.logFile), 'data', 'standby.signal'), '')
    await server.start()
    await expect.poll(health, SOON).toEqual(degraded('read_only', /standby/))
    // The connection itself is refused: what a standby shows may be old.
    expect(await doctor(database, 'database')).toMatchObject({ ok: false, detail: expect.stringContaining('standby') })
  })
})

// A database that goes back to an earlier state. If any server witnessed a later one, no server serves the tenant, even after a
// restart, until an operator accepts the loss.
import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { checkTenant } from '../../independent/checker.js'
import { openAuditKey } from '../../independent/stored.js'
import { copyTables, restoreTables } from '../../support/audit/audit-scene.js'
import { backend, type TestDatabase } from '../../support/database/database.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { runCommand } from '../../support/service/command-host.js'
import {
  asOwner,
  createTenantInProcess,
  type EaasOptions,
  type EaasProcess,
  ROOT_KEY,
  startEaas,
} from '../../support/service/eaas-process.js'
import { type Calls, callsOf } from '../../support/service/load.js'
import { type RunningServer, startServer } from '../../support/service/server.js'
import { findObstacleToVerifier, verifyElsewhere } from '../verify/other-verifier.js'

const TIMEOUT_MS = 120_000
/** A server compares its logs and its alarms about once a second. */
const POLL_MS = 250
const dek = () => randomBytes(32).toString('base64')

/** A server, wherever it runs. */
type At = Pick<RunningServer, 'url'>

let folder: string
let database: TestDatabase
let tenant: Awaited<ReturnType<typeof createTenantInProcess>>
let key_id: string
let call: Calls
let servers: (EaasProcess | RunningServer)[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-rollback-'))
  ;({ database, ...tenant } = await databaseWithTenant())
  call = callsOf(tenant.api_key.secret)
  servers = []
}, TIMEOUT_MS)
afterEach(async () => {
  for (const server of servers) await server.stop()
  await rm(folder, { recursive: true, force: true })
})

/** A server; on PostgreSQL with the checkpoint file of a machine of its own. */
function newServer(machine: string, level?: string): Promise<RunningServer> {
  return startedBy(startServer, machine, level)
}

/** The same in a process of its own, which can be killed. */
function newProcess(machine: string): Promise<EaasProcess> {
  return startedBy(startEaas, machine)
}

async function startedBy<Started extends EaasProcess | RunningServer>(
  start: (options: EaasOptions) => Promise<Started>,
  machine: string,
  level = 'error',
): Promise<Started> {
  const server = await start({ database, environment: { EAAS_LOG_LEVEL: level, ...checkpointsOf(machine) } })
  servers.push(server)
  return server
}

function checkpointsOf(machine: string): Record<string, string> {
  return database.backend === 'postgres' ? { EAAS_CHECKPOINT_FILE: join(folder, machine) } : {}
}

const newKey = async ({ url }: At) => {
  key_id = (await call(url, 'POST', '/v1/keys', { name: 'k' })).body.id
}
const wrap = ({ url }: At) => call(url, 'POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
const hash = ({ url }: At) => call(url, 'POST', '/v1/hash', { key_id, value: 'x' })
const eaas = (args: string[], environment = {}) => runCommand(args, { database, environment })
/**
 * Accepts the loss for the installation's own log, which may have gone back together with the tenant's, and then for the tenant. Tries
 * again for some time: a server raises the alarms of its logs one after another, and writes each within a second.
 */
async function accept(reason = 'restored after a failover', { patienceMs = 60_000 } = {}) {
  for (const deadline = Date.now() + patienceMs; ; ) {
    await eaas(['accept', 'rollback', '--installation', '--reason', reason])
    const ended = await eaas(['accept', 'rollback', '--tenant', 'acme', '--reason', reason, '--json'])
    if (ended.code === 0 || Date.now() >= deadline) return ended
    await sleep(500)
  }
}

const withSql = <T>(work: (sql: postgres.Sql) => Promise<T>) => asOwner(database, work)

type Alarm = { tenant_id: string; mac: string }

/** Waits on one connection until the rows of alarms are such. */
function untilAlarms(areSuch: (rows: Alarm[]) => boolean): Promise<void> {
  return withSql(async (sql) => {
    while (!areSuch(await sql<Alarm[]>`select tenant_id, encode(mac, 'hex') as mac from chain_alarms`))
      await sleep(POLL_MS)
  })
}
const untilRecorded = () => untilAlarms((rows) => rows.length > 0)

/** Calls until the answer has the status 200. */
async function untilServed(ask: () => Promise<{ status: number }>): Promise<void> {
  while ((await ask()).status !== 200) await sleep(POLL_MS)
}

/** Waits for the alarm. Only calls /health, so that the server must find the rollback by itself. */
async function untilAlarm({ url }: At): Promise<void> {
  while ((await health(url)).database !== 'alarm') await sleep(POLL_MS)
}

async function health(url: string): Promise<{ status: string; database: string }> {
  return (await fetch(`${url}/health`)).json() as Promise<{ status: string; database: string }>
}

async function expectRefused(server: At): Promise<void> {
  for (const ask of [wrap, hash]) {
    const { status, body } = await ask(server)
    expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
  }
}

/** Expects that a read, a verification and the doctor report the alarm. */
async function expectAlarmReported(server: At): Promise<void> {
  const read = await call(server.url, 'GET', '/v1/keys')
  expect([read.status, read.body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
  expect(read.body.detail).toContain('reads included')
  const { body } = await call(server.url, 'GET', '/v1/audit/verify')
  expect(body).toMatchObject({ valid: false, reason: 'behind_checkpoint' })
  await untilRecorded()
  const verified = await eaas(['audit', 'verify', '--tenant', 'acme', '--json'])
  expect([verified.code, JSON.parse(verified.stdout).reason]).toEqual([1, 'behind_checkpoint'])
  const { code, stdout } = await eaas(['doctor'])
  expect([code, stdout]).toEqual([1, expect.stringMatching(/WRONG {2}alarms +acme: .*accept --help/)])
}

/** Expects that the chain verifies in place and offline, by the server and by programs that share no code with it. */
async function expectValid(server: At): Promise<void> {
  expect((await call(server.url, 'GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  const publicKey = (await call(server.url, 'GET', '/v1/audit/checkpoint')).body.public_key as string
  const headers = { authorization: `Bearer ${tenant.api_key.secret}` }
  const exported = await fetch(`${server.url}/v1/audit/export`, { headers })
  const file = Buffer.from(await exported.arrayBuffer())
  expect(await verifyExport(splitLines([file]), { publicKey })).toMatchObject({ valid: true, whole: true })
  if (findObstacleToVerifier() === undefined) {
    expect(await verifyElsewhere([{ file, publicKey }])).toMatchObject([{ valid: true }])
  }
  await withSql(async (sql) => {
    const auditKey = await openAuditKey(sql, Buffer.from(ROOT_KEY, 'base64'), tenant.tenant_id)
    const report = await checkTenant(sql, { tenant_id: tenant.tenant_id, auditKey })
    expect([report.verdict.valid, report.faults]).toEqual([true, []])
  })
}

async function acceptances(server: At) {
  const { body } = await call(server.url, 'GET', '/v1/audit?action=audit.rollback_accepted')
  return body.logs as { id: number; actor: string; metadata: Record<string, unknown> }[]
}

describe('a database that goes back under running servers', { timeout: TIMEOUT_MS }, () => {
  it('stops every one of them, also those that saw nothing of what was lost, until the loss is accepted', async () => {
    const machines = backend() === 'postgres' ? ['seer', 'other'] : ['seer']
    const all: RunningServer[] = []
    for (const machine of machines) all.push(await newServer(machine))
    const [seer] = all as [RunningServer]
    await newKey(seer)
    for (const server of all) expect((await wrap(server)).status).toBe(200)
    await withSql((sql) => copyTables(sql, 'early'))
    const kept = (await call(seer.url, 'GET', '/v1/audit')).body.total as number
    await call(seer.url, 'POST', `/v1/keys/${key_id}/rotate`)
    for (let at = 0; at < 4; at++) await wrap(seer)
    await withSql((sql) => restoreTables(sql, 'early'))
    // Nobody calls the server that knows.
    for (const server of all) await untilAlarm(server)
    for (const server of all) await expectRefused(server)

    const killable: EaasProcess[] = []
    for (const [at, machine] of machines.entries()) {
      await all[at]?.stop()
      const started = await newProcess(machine)
      killable.push(started)
      await expectRefused(started)
    }
    const [killableSeer] = killable as [EaasProcess]
    const refused = await eaas(['api-key', 'create', '--tenant', 'acme', '--name', 'x', '--permissions', 'all'])
    expect(refused.code).toBe(1)

    expect(await accept()).toMatchObject({ code: 0 })
    for (const server of killable) await untilServed(() => wrap(server))
    await expectValid(killableSeer)
    expect(await acceptances(killableSeer)).toMatchObject([
      {
        id: kept + 1,
        actor: expect.stringMatching(/^operator:.+@/),
        metadata: { witnessed_id: kept + 5, reason: 'restored after a failover' },
      },
    ])
    expect((await accept(undefined, { patienceMs: 0 })).stderr).toContain('there is no alarm')

    // What was accepted stays accepted: for files that remember the lost entries, and for whoever was killed.
    for (const [at, server] of all.entries()) {
      await killable[at]?.kill9()
      await server.start()
      expect((await wrap(server)).status).toBe(200)
    }
    for (const server of all) expect((await health(server.url)).status).toBe('healthy')
    await expectValid(seer)
  })

  it('stops them again when it goes back once more, also to within what was accepted', async () => {
    const server = await newServer('seer')
    await newKey(server)
    await withSql((sql) => copyTables(sql, 'early'))
    for (let at = 0; at < 6; at++) await wrap(server)
    await withSql((sql) => restoreTables(sql, 'early'))
    await untilAlarm(server)
    await untilRecorded() // what is accepted sooner is only what the checkpoint file beside the embedded database tells
    expect(await accept('first')).toMatchObject({ code: 0 })
    await untilServed(() => wrap(server))
    await withSql((sql) => copyTables(sql, 'accepted'))
    await wrap(server)
    await withSql((sql) => restoreTables(sql, 'accepted'))
    await untilAlarm(server)
    await expectRefused(server)
    await untilRecorded()
    expect(await accept('second')).toMatchObject({ code: 0 })
    await untilServed(() => wrap(server))
    expect((await acceptances(server)).map(({ metadata }) => metadata.reason)).toEqual(['second', 'first'])
    await expectValid(server)
  })

  it('stays an alarm where the row that says so is deleted, and where a stranger wrote it', async () => {
    const server = await newServer('seer')
    await newKey(server)
    const { tenant_id } = tenant
    await withSql((sql) => copyTables(sql, 'early'))
    await wrap(server)
    await withSql((sql) => restoreTables(sql, 'early'))
    await untilAlarm(server)
    await untilRecorded()
    await withSql((sql) => sql`delete from chain_alarms`)
    await untilRecorded()
    await withSql((sql) => sql`update chain_alarms set mac = ${Buffer.alloc(32)}`)
    await untilAlarms(([row]) => row?.mac !== '00'.repeat(32))
    await expectRefused(server)
    expect(await accept()).toMatchObject({ code: 0 })
    await untilServed(() => wrap(server))

    await withSql(
      (sql) => sql`
      insert into chain_alarms (tenant_id, reason, last_id, hash, policy_version, raised_at, mac)
      values (${tenant_id}, 'x', 77777, ${Buffer.alloc(32)}, 1, now(), ${Buffer.alloc(32)})`,
    )
    await untilAlarm(server)
    await expectRefused(server)
    expect(await accept()).toMatchObject({ code: 0 })
    await untilServed(() => wrap(server))
    expect(JSON.stringify(await acceptances(server))).not.toContain('77777')
    await expectValid(server)
  })

  it('is an alarm again after a clean stop where the database has forgotten it', async () => {
    const server = await newServer('seer')
    await newKey(server)
    await withSql((sql) => copyTables(sql, 'early'))
    await server.stop()
    const data = database.backend === 'embedded' ? join(database.dataDir, 'postgres') : ''
    if (data !== '') await cp(data, `${data}-early`, { recursive: true })
    await server.start()
    await wrap(server)
    await withSql((sql) => restoreTables(sql, 'early'))
    await untilAlarm(server)
    await expectAlarmReported(server)
    await server.stop()
    if (data === '') await withSql((sql) => sql`delete from chain_alarms`)
    else {
      await rm(data, { recursive: true })
      await cp(`${data}-early`, data, { recursive: true })
    }
    await server.start()
    await expectRefused(server)
    expect(await accept()).toMatchObject({ code: 0 })
    await untilServed(() => wrap(server))
    await server.stop()
    await server.start()
    expect((await wrap(server)).status).toBe(200)
  })

  it('ends for a tenant that is gone altogether when that is accepted by its id', async () => {
    const seer = await newServer('seer', 'warn')
    const other = backend() === 'postgres' ? await newServer('other', 'warn') : undefined
    const all = other ? [seer, other] : [seer]
    await withSql((sql) => copyTables(sql, 'early'))
    const lost = await createTenantInProcess({ database }, 'lost')
    const { tenant_id } = lost
    const callLost = callsOf(lost.api_key.secret)
    const make = async (server: At, name: string) =>
      expect((await callLost(server.url, 'POST', '/v1/keys', { name })).status).toBe(201)
    for (const [at, server] of all.entries()) {
      await make(server, `first ${at}`)
      await server.stop() // which leaves a line of the tenant in the file
      await server.start()
      await make(server, `second ${at}`)
    }
    await withSql((sql) => copyTables(sql, 'late'))
    await withSql((sql) => restoreTables(sql, 'early'))
    for (const server of all) await untilAlarm(server)
    await untilRecorded()
    const accepting = (...what: string[]) => eaas(['accept', ...what, '--reason', 'the backup is of Monday'])
    expect((await accepting('rollback', '--tenant', tenant_id)).stderr).toContain(`there is no tenant ${tenant_id}`)
    expect((await eaas(['doctor'])).stdout).toContain(`${tenant_id}: the tenant is missing from the database`)

    // A server that starts learns of it from the row.
    await seer.stop()
    await seer.start()
    expect(seer.log).not.toContain('that no server wrote')
    await accepting('rollback', '--installation')
    const { code, stdout } = await accepting('tenant', tenant_id)
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/is gone.*installation's log.*witness {2}entry \d+.*is of Monday/s),
    ])
    for (const server of all) {
      await expect.poll(async () => (await health(server.url)).status, { timeout: 20_000 }).toBe('healthy')
      expect((await callLost(server.url, 'GET', '/v1/keys')).status).toBe(401)
      expect((await call(server.url, 'GET', '/v1/keys')).status).toBe(200)
      await server.stop()
      expect(server.log).toContain('accepted that a tenant is gone')
      await server.start()
      expect([(await health(server.url)).status, server.log]).toEqual(['healthy', expect.anything()])
      expect(server.log).toMatch(
        new RegExp(`"tenant_id":"${tenant_id}","file":"[^"]+","line":\\d+.*is not in the database`),
      )
    }
    expect((await accepting('tenant', tenant_id)).stderr).toContain('no alarm')
    const doctor = await eaas(['doctor'], checkpointsOf('seer'))
    expect([doctor.code, doctor.stdout]).toEqual([
      0,
      expect.stringMatching(`WARN .*checkpoints.*${tenant_id}.*line \\d+`),
    ])

    // A newer backup has the tenant: it is served again, and compared.
    await withSql((sql) => restoreTables(sql, 'late'))
    for (const server of all) expect((await callLost(server.url, 'GET', '/v1/keys')).status).toBe(200)
  })

  it('is not accepted where what is left does not verify', async () => {
    const server = await newServer('seer')
    await newKey(server)
    await wrap(server)
    await withSql((sql) => copyTables(sql, 'early'))
    await wrap(server)
    await withSql((sql) => restoreTables(sql, 'early'))
    await untilAlarm(server)
    const { tenant_id } = tenant
    await untilAlarms((rows) => rows.some((row) => row.tenant_id === tenant_id))
    await withSql((sql) => sql`update audit_log set actor = 'x' where id = 2 and tenant_id = ${tenant_id}`)
    const { code, stderr } = await accept(undefined, { patienceMs: 0 })
    expect([code, stderr]).toEqual([1, expect.stringContaining('entry_altered, entry 2')])
    await expectRefused(server)
  })
})

describe('a database that goes back while no server runs', { timeout: TIMEOUT_MS }, () => {
  it('is found out by the checkpoints that a clean stop left, and by nothing else is it served', async () => {
    const server = await newServer('seer')
    await newKey(server)
    await server.stop()
    const data = database.backend === 'embedded' ? join(database.dataDir, 'postgres') : ''
    if (data === '') await withSql((sql) => copyTables(sql, 'early'))
    else await cp(data, `${data}-early`, { recursive: true })
    await server.start()
    for (let at = 0; at < 3; at++) await wrap(server)
    await server.stop()
    if (data === '') await withSql((sql) => restoreTables(sql, 'early'))
    else {
      await rm(data, { recursive: true })
      await cp(`${data}-early`, data, { recursive: true })
    }
    const { code, stdout } = await eaas(['doctor'], checkpointsOf('seer'))
    expect([code, stdout]).toEqual([1, expect.stringMatching(/WRONG {2}checkpoints .*acme: the audit chain went back/)])
    const killed = await newProcess('seer')
    await expectRefused(killed)
    // It is on record in the database by now: a server without the file refuses too.
    await killed.kill9()
    const stranger = await newServer('stranger')
    await expectRefused(stranger)
    expect(await accept()).toMatchObject({ code: 0 })
    await untilServed(() => wrap(stranger))
    await stranger.stop()
    await server.start()
    expect((await wrap(server)).status).toBe(200)
    await expectValid(server)
  })
})

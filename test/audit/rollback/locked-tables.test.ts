// Somebody locks a table while a log is cut off, so that a running server can't see it. On the embedded database a lock that is held would keep
// every session waiting, its own included.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import type postgres from 'postgres'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { NewTenant } from '../../../packages/server/src/operators/tenants.js'
import { copyTables } from '../../support/audit/audit-scene.js'
import { keptEntries } from '../../support/audit/checkpoint-file.js'
import { backend, type TestDatabase } from '../../support/database/database.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { connectTo, type EaasProcess, startEaas } from '../../support/service/eaas-process.js'
import { type Calls, callsOf } from '../../support/service/load.js'
import { type RunningServer, startServer } from '../../support/service/server.js'

/** What it waits for comes after ten seconds or more. */
const SOON = { timeout: 60_000, interval: 250 }

describe.skipIf(backend() === 'embedded')('a log that is cut off behind a lock', { timeout: 180_000 }, () => {
  let folder: string
  let database: TestDatabase
  let tenant: NewTenant
  let call: Calls
  let key_id: string
  let server: EaasProcess | RunningServer
  let attacker: postgres.Sql
  let holder: postgres.Sql
  let unlock: () => Promise<void>

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-locked-'))
    ;({ database, ...tenant } = await databaseWithTenant())
    call = callsOf(tenant.api_key.secret)
    attacker = connectTo(database)
    holder = connectTo(database)
    unlock = async () => undefined
  })
  afterEach(async () => {
    await unlock()
    await Promise.all([server?.stop(), attacker.end(), holder.end()])
    await rm(folder, { recursive: true, force: true })
  })

  const startHere = (EAAS_CHECKPOINT_FILE: string) =>
    startServer({ database, environment: { EAAS_LOG_LEVEL: 'error', EAAS_CHECKPOINT_FILE } })
  const start = () => prepare(startHere('none'))
  /** The same in a process of its own, whose stop ends in its time though a table is locked, and which can be killed. */
  const startProcess = (environment: Record<string, string>) =>
    prepare(startEaas({ database, environment: { EAAS_LOG_LEVEL: 'error', ...environment } }))
  /** Has a server wrap before and after the copy of its tables. */
  async function prepare<Started extends typeof server>(starting: Promise<Started>): Promise<Started> {
    const started = await starting
    server = started
    key_id = (await call(server.url, 'POST', '/v1/keys', { name: 'k' })).body.id
    await copyTables(attacker, 'early')
    for (let at = 0; at < 3; at++) expect((await wrap()).status).toBe(200)
    return started
  }
  async function startAgain(checkpointFile: string): Promise<void> {
    server = await startHere(checkpointFile)
  }
  const wrap = () => call(server.url, 'POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
  const hash = () => call(server.url, 'POST', '/v1/hash', { key_id, value: 'x' })

  /** Holds a lock that no reader passes, until `unlock`; returns the session that holds it. */
  async function lock(table: string): Promise<postgres.ReservedSql> {
    const session = await holder.reserve()
    await session.unsafe(`begin; lock table ${table} in access exclusive mode`)
    unlock = async () => {
      unlock = async () => undefined
      await session`commit`
      session.release()
    }
    return session
  }

  const cutOff = (sql: postgres.ISql) => sql`
    delete from audit_log where tenant_id = ${tenant.tenant_id}
      and id > (select last_id from early.heads where tenant_id = ${tenant.tenant_id})`
  const putHeadBack = (sql: postgres.ISql) => sql`
    update heads set last_id = h.last_id, hash = h.hash, policy_version = h.policy_version, created_at = h.created_at, mac = h.mac
    from early.heads as h where heads.tenant_id = h.tenant_id and h.tenant_id = ${tenant.tenant_id}`

  async function health() {
    const response = await fetch(`${server.url}/health`)
    const { status, database, detail } = (await response.json()) as Record<string, string>
    return { http: response.status, status, database, detail }
  }
  async function metric(name: string): Promise<number> {
    const text = await (await fetch(`${server.url}/metrics`)).text()
    return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
  }

  const expectHealth = () => expect.poll(async () => (await health()).database, SOON)
  async function expectAlarm(): Promise<void> {
    await expectHealth().toBe('alarm')
    for (const ask of [wrap, hash]) {
      const { status, body } = await ask()
      expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
    }
  }

  it.each(['heads', 'audit_log'])(
    'stops a running server, which raises its alarm by itself once it can read %s again',
    async (table) => {
      const running = await start()
      const locked = await lock(table)
      await cutOff(table === 'heads' ? attacker : locked)
      await expectHealth().toBe('unwatched')
      expect(await health()).toMatchObject({ http: 503, status: 'degraded', detail: expect.stringContaining('lock') })
      expect(await metric('eaas_audit_watch_age_seconds')).toBeGreaterThan(9)
      expect(await metric('eaas_degraded')).toBe(1)
      for (const ask of [wrap, hash]) {
        const { status, body } = await ask()
        expect([status, body.code]).toEqual([503, 'E_UNAVAILABLE'])
      }
      await expect.poll(() => running.log, SOON).toContain('it carries out no call until they can')
      await putHeadBack(locked)
      await unlock()
      await expectAlarm()
      // Without a checkpoint file, too, the row is written again for as long as a process lives that knows.
      const rows = async () => (await attacker`select from chain_alarms where tenant_id = ${tenant.tenant_id}`).length
      await expect.poll(rows, SOON).toBe(1)
      await attacker`delete from chain_alarms`
      await expect.poll(rows, SOON).toBe(1)
      await expectAlarm()
    },
  )

  it('is alarmed about while the alarms themselves are locked', async () => {
    await start()
    await lock('chain_alarms')
    await cutOff(attacker)
    await putHeadBack(attacker)
    await expectAlarm()
  })

  it('is served again as before once the lock is gone, if nothing was cut off', async () => {
    await start()
    await lock('heads')
    await expectHealth().toBe('unwatched')
    await unlock()
    await expectHealth().toBe('up')
    for (const ask of [wrap, hash]) expect((await ask()).status).toBe(200)
  })

  it.each(['heads', 'chain_alarms'])(
    'is alarmed about at the next start if %s stayed locked until the server had stopped',
    async (table) => {
      const EAAS_CHECKPOINT_FILE = join(folder, 'checkpoints')
      await startProcess({ EAAS_CHECKPOINT_FILE })
      const locked = await lock(table)
      await server.stop()
      await cutOff(attacker)
      await putHeadBack(locked)
      await unlock()
      await startAgain(EAAS_CHECKPOINT_FILE)
      await expectAlarm()
    },
  )

  it('is alarmed about within a second too if a trigger deletes the entry after it was written, at the commit', async () => {
    await start()
    await attacker.unsafe(`create function meddle() returns trigger language plpgsql as
        $$ begin delete from audit_log where tenant_id = new.tenant_id and id = new.id; return null; end $$;
      create constraint trigger meddle after insert on audit_log deferrable initially deferred
        for each row execute function meddle()`)
    expect((await wrap()).status).toBe(200)
    await attacker`drop function meddle cascade`
    await expectAlarm()
  })

  it('is alarmed about at the next start if the server was killed while it could not compare', async () => {
    const file = join(folder, 'checkpoints')
    const killed = await startProcess({ EAAS_CHECKPOINT_FILE: file })
    /** The last entry of a log that a line of the file has. */
    const kept = async (tenant_id: string) =>
      Math.max(0, ...(existsSync(file) ? await keptEntries(file, tenant_id) : []))
    const isFirstRoundOver = async () => {
      const [anchor] = await attacker`select id from audit_log where action = 'installation.anchor'`
      return anchor !== undefined && (await kept(INSTALLATION_ID)) >= Number(anchor.id) // the last line of a round
    }
    await expect.poll(isFirstRoundOver, SOON).toBe(true)
    expect((await wrap()).status).toBe(200)
    const [head] = await attacker`select last_id from heads where tenant_id = ${tenant.tenant_id}`
    const locked = await lock('heads')
    await expect.poll(() => kept(tenant.tenant_id), SOON).toBe(Number(head?.last_id))
    await killed.kill9()
    await cutOff(attacker)
    await putHeadBack(locked)
    await unlock()
    await startAgain(file)
    await expectAlarm()
  })
})

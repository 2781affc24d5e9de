// What moves leave in a database: of a tenant that is elsewhere now, and of moves that were interrupted. Operators are told of it, and can
// delete it, but never a tenant that is served there.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { encodePublicKey } from '../../packages/audit/src/formats/checkpoint.js'
import { verifyAudit } from '../../packages/server/src/core/api/audit.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { findHead } from '../../packages/server/src/core/store/audit.js'
import { acceptLostTenant, readServedHere } from '../../packages/server/src/guard/operations/accept.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { createComparisons, listUnexplained } from '../../packages/server/src/installation-comparisons.js'
import { examineMoves } from '../../packages/server/src/operate/cli/examine-logs.js'
import { deleteStray, getStray } from '../../packages/server/src/operate/operations/delete-moved.js'
import { deleteTenant, planDeletion } from '../../packages/server/src/operate/operations/delete-tenant.js'
import { moveTenant, undoMove } from '../../packages/server/src/operate/operations/move/move-tenant.js'
import { createErasure } from '../../packages/server/src/operate/store/erasure.js'
import { closeForMove, suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { anchor, compare, entries, invalid } from '../audit/installation/installation-scene.js'
import { copyTables, restoreTables, type Scene } from '../support/audit/audit-scene.js'
import { providerOf, rotateAged } from '../support/custody/rotation.js'
import { asRole, backend } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, EAAS, environmentOf } from '../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const OTHER_ROOT_KEY = Buffer.alloc(32, 9).toString('base64')
const environment = { EAAS_ROOT_KEY: OTHER_ROOT_KEY }
const ADDRESS = 'https://other.example.org'
const TIMEOUT = { timeout: 90_000 }
/** One process alone opens the embedded database. */
const itWithTwoProcesses = it.skipIf(backend() === 'embedded')

let here: Service
let there: Service
let owner: Caller
let tenant_id: string

beforeEach(async () => {
  here = await startService()
  there = await startService({ environment })
  owner = await here.createTenant({ name: 'acme' })
  tenant_id = owner.tenant.tenant_id
  await owner.call('POST', '/v1/keys', { name: 'k' })
}, 60_000)
afterEach(async () => {
  await here.close()
  await there.close()
})

const pair = (from = here, to = there) => ({ from: from.services, to: to.services, tenant_id })
async function move(from = here, to = there): Promise<number> {
  const closed = await moveTenant(pair(from, to), { address: ADDRESS, learnSeconds: 0 })
  await to.refreshStoreKeys()
  return closed
}
const publicKeyOf = ({ services }: Service) => encodePublicKey(services.signingKey)
const close = () => performAsSystem(here.services, tenant_id, closeForMove(publicKeyOf(there)))
const listKeys = async (service: Service) => (await service.caller(owner.secret).call('GET', '/v1/keys')).status
const remove = ({ services }: Service) => deleteTenant(services, tenant_id, { confirm: 'acme', reason: 'moved' })
/** Another process on the same database. */
async function commandOn({ database }: Service, more = {}): Promise<Service> {
  const command = await startService({ database, ...more })
  onTestFinished(command.close)
  return command
}
/** What servers do each second, and before an anchor. */
async function round(service: Service): Promise<void> {
  await createComparisons(service.services, async () => undefined, {}).sharedAlarms.compare({ findsUnseen: true })
  await compare(service)
}
/** The tables with rows of the tenant. */
async function tablesOf({ services: { sql } }: Service): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.columns where column_name = 'tenant_id' and table_schema = 'public' order by 1`
  const found: string[] = []
  for (const { name } of tables)
    if ((await sql`select from ${sql(name)} where tenant_id = ${tenant_id} limit 1`).length > 0) found.push(name)
  return found
}
/** Has the database refuse something, as if the process were killed there. */
async function breakAt({ services: { sql } }: Service, event: string): Promise<() => Promise<void>> {
  await sql.unsafe(`create function cut() returns trigger language plpgsql as $$ begin raise exception 'cut'; end $$;
    create trigger cut before ${event} for each statement execute function cut()`)
  return async () => void (await sql.unsafe('drop function cut cascade'))
}
/** Runs the work while statements of such an event wait in the database; resolves once they need not any more. */
async function whileHeld<T>({ services: { sql } }: Service, event: string, work: () => Promise<T>): Promise<T> {
  await sql.unsafe(`create function wait() returns trigger language plpgsql as $$ begin
    perform pg_catalog.pg_advisory_xact_lock_shared(1); return null; end $$;
    create trigger wait before ${event} for each statement execute function wait()`)
  return sql.begin(async (lock) => {
    await lock`select pg_catalog.pg_advisory_xact_lock(1)`
    return work()
  }) as Promise<T>
}
/** Resolves once so many statements wait for a lock. */
const blocked = ({ services: { sql } }: Service, statements: number) => {
  const waiting = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  return expect.poll(async () => (await waiting()).length, { timeout: 10_000 }).toBe(statements)
}
/** Copies the log, and is broken off there. */
async function interrupt(): Promise<void> {
  const mend = await breakAt(there, 'insert on tenants')
  await expect(move()).rejects.toThrow(/cut/)
  await mend()
}

describe('a tenant that is served elsewhere', TIMEOUT, () => {
  itWithTwoProcesses(
    'is deleted from the database that it left, beside a server and without an alarm, and can come back',
    async () => {
      await anchor(here)
      await move()
      expect(await listKeys(here)).toBe(421)
      await round(here)
      const left = await findHead(here.services.sql, tenant_id)
      if (!left) throw new Error('no head is left')
      const command = await commandOn(here)
      const erase = createErasure({ sql: here.services.sql, isEmbedded: false })
      await erase()
      expect(await planDeletion(command.services, tenant_id)).toMatchObject({
        tenant: { status: 'moved', moved_to: { address: ADDRESS, public_key: publicKeyOf(there) } },
        keys: 1,
        api_keys: 1,
      })
      expect(await remove(command)).toMatchObject({ tenant_id, status: 'deleted' })
      expect(await tablesOf(here)).toEqual([])
      expect((await erase()).outcome).toBe('erased')
      // What a checkpoint file has of it, up to the deletion.
      const { sql, installationKey } = here.services
      const unexplained = (last_id: number) =>
        listUnexplained(sql, installationKey, new Map([[tenant_id, { ...left, last_id }]]))
      expect([await unexplained(left.last_id), await unexplained(left.last_id + 1)]).toEqual([[], [tenant_id]])
      await round(here)
      expect([await listKeys(here), await listKeys(there)]).toEqual([401, 200])
      const [gone] = (await entries(here)).filter(({ action }) => action.endsWith('tenant_gone'))
      expect(gone?.metadata).toMatchObject({ tenant_id, status_before: 'moved', reason: 'moved' })
      expect(await invalid(here)).toEqual([])
      const restarted = await commandOn(here)
      await round(restarted)
      await rotateAged(here)
      await move(there, here)
      expect([await listKeys(here), await listKeys(there)]).toEqual([200, 421])
      for (const service of [here, there])
        expect(await performAsSystem(service.services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
      await round(here)
      expect([...here.alarms, ...there.alarms, ...restarted.alarms, ...command.alarms]).toEqual([])
    },
  )

  itWithTwoProcesses(
    'raises an alarm once its rows are put back after its deletion, as if it had not moved',
    async () => {
      const { sql } = here.services
      await copyTables(sql as unknown as Scene['sql'], 'served')
      await anchor(here)
      await move()
      const log = await sql`select * from audit_log where tenant_id = ${tenant_id}`
      const head = await sql`select * from heads where tenant_id = ${tenant_id}`
      await remove(here)
      await round(here)
      expect(here.alarms).toEqual([])
      await restoreTables(sql as unknown as Scene['sql'], 'served', ['tenants'])
      await sql`insert into audit_log ${sql(log)}`
      await sql`insert into heads ${sql(head)}`
      await expect(readServedHere(here.services.sql, tenant_id)).rejects.toThrow(/is moved/) // so nothing can be accepted
      await sql`update audit_log set action = 'key.wrap' where tenant_id = ${tenant_id} and action = 'tenant.update'`
      const command = await commandOn(here)
      await round(command)
      expect(command.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('it was put back') }])
      // The runbook: the owner deletes what was put back, and accepts the loss again.
      for (const table of await tablesOf(here))
        if (table !== 'chain_alarms') await sql`delete from ${sql(table)} where tenant_id = ${tenant_id}`
      await round(command)
      await acceptLostTenant(command.services, tenant_id, 'its rows were put back')
      await restoreTables(sql as unknown as Scene['sql'], 'served', ['tenants'])
      await expect(readServedHere(sql, tenant_id)).rejects.toThrow(/is moved/) // as before, also if this is done again
      await sql`delete from tenants where tenant_id = ${tenant_id}`
      for (const service of [command, here]) {
        await round(service)
        expect(watchesOf(service.services.committer).get(tenant_id).alarm).toBeUndefined()
      }
      expect([await tablesOf(here), await invalid(command)]).toEqual([[], []])
      await rotateAged(here)
      await move(there, here)
      await round(here)
      expect([await listKeys(here), await listKeys(there)]).toEqual([200, 421])
    },
  )

  it('keeps every row if its deletion is cut off', async () => {
    await move()
    const before = await tablesOf(here)
    for (const event of ['delete on audit_log', 'delete on anchored_heads', `insert on audit_log`]) {
      await anchor(here)
      const mend = await breakAt(here, event)
      await expect(remove(here)).rejects.toThrow(/cut|could not/)
      await mend()
    }
    expect((await tablesOf(here)).filter((name) => name !== 'anchored_heads')).toEqual(before)
    await remove(here)
    expect(await tablesOf(here)).toEqual([])
  })

  itWithTwoProcesses('is refused without an alarm by a server that has not noticed its deletion', async () => {
    await move()
    expect(await listKeys(here)).toBe(421)
    await remove(await commandOn(here))
    expect(await listKeys(here)).toBe(401)
    const watch = watchesOf(here.services.committer).get(tenant_id)
    await watch.raise(here.services.sql, 'what was read before the deletion')
    expect([here.alarms, watch.alarm]).toEqual([[], undefined])
  })

  it('is named where it is served, also to calls that would change it here', async () => {
    await move()
    await expect(performAsSystem(here.services, tenant_id, suspendTenant({}))).rejects.toThrow(
      `do this where it is now: ${ADDRESS}`,
    )
  })
})

describe('no deletion takes a tenant', TIMEOUT, () => {
  itWithTwoProcesses('that is being moved, or whose rows of before its return were put back', async () => {
    await close()
    await expect(remove(here)).rejects.toThrow(/is moving: end its move first/)
    await expect(planDeletion(here.services, tenant_id)).rejects.toThrow(/is moving: end its move first/)
    await move()
    const sql = here.services.sql as unknown as Scene['sql']
    await rotateAged(here)
    await copyTables(sql, 'before')
    await remove(here)
    await move(there, here)
    const own = await here.services.sql`select * from audit_log where tenant_id = ${INSTALLATION_ID}`
    const head = await here.services.sql`select * from heads where tenant_id = ${INSTALLATION_ID}`
    await restoreTables(sql, 'before')
    await here.services.sql`delete from audit_log where tenant_id = ${INSTALLATION_ID}`
    await here.services.sql`delete from heads where tenant_id = ${INSTALLATION_ID}`
    await here.services.sql`insert into audit_log ${here.services.sql(own)}`
    await here.services.sql`insert into heads ${here.services.sql(head)}`
    const command = await commandOn(here)
    await expect(remove(command)).rejects.toThrow(/audit chain|went back|put back/)
    expect(await tablesOf(here)).toContain('key_versions')
  })
})

describe('what an interrupted move copied', TIMEOUT, () => {
  it('is deleted there, and the tenant can then be moved there', async () => {
    await interrupt()
    const stray = await getStray(there.services, tenant_id)
    if (!stray) throw new Error('nothing was copied')
    await expect(deleteStray(there.services, stray, { confirm: 'acme' })).rejects.toThrow(/must be the tenant's id/)
    await deleteStray(there.services, stray, { confirm: tenant_id })
    expect(await tablesOf(there)).toEqual([])
    expect(await getStray(there.services, tenant_id)).toBeUndefined()
    expect(await invalid(there)).toEqual([])
    await move()
    expect(await listKeys(there)).toBe(200)
  })

  it('is not deleted if the tenant is there by now, or its row was removed by somebody', async () => {
    await interrupt()
    const stray = await getStray(there.services, tenant_id)
    if (!stray) throw new Error('nothing was copied')
    await move()
    await expect(deleteStray(there.services, stray, { confirm: tenant_id })).rejects.toThrow(/is in this installation/)
    expect(await getStray(there.services, tenant_id)).toBeUndefined()
    const { sql } = there.services
    for (const table of ['tenants', 'heads']) await sql`delete from ${sql(table)} where tenant_id = ${tenant_id}`
    await expect(getStray(there.services, tenant_id)).rejects.toThrow(/somebody removed its row; nothing was deleted/)
    expect(await examineMoves(sql)).toEqual({ detail: 'none is unfinished' }) // `audit chains` names it
    for (const _ of ['raises the alarm', 'writes it']) await round(there)
    await acceptLostTenant(there.services, tenant_id, 'its row was removed')
    await expect(getStray(there.services, tenant_id)).rejects.toThrow(/has it as lost, so no move left this/)
    expect(await examineMoves(sql)).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/^no move left \d+ entries/),
    })
  })

  itWithTwoProcesses('is waited for by its deletion while it arrives', async () => {
    await interrupt()
    const stray = await getStray(there.services, tenant_id)
    if (!stray) throw new Error('nothing was copied')
    const command = await commandOn(there, { environment })
    const ended = await whileHeld(there, 'insert on tenants', async () => {
      const moving = move()
      await blocked(there, 1)
      const deleting = expect(deleteStray(command.services, stray, { confirm: tenant_id })).rejects.toThrow(
        /is in this installation/,
      )
      await blocked(there, 2)
      return [moving, deleting]
    })
    await Promise.all(ended)
    expect(await listKeys(there)).toBe(200)
    expect(await performAsSystem(there.services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
  })

  itWithTwoProcesses('does not arrive while it is deleted, though a repeated move has counted on it', async () => {
    await interrupt()
    await there.services.sql`delete from tenant_peppers`
    const command = await commandOn(there, { environment })
    const ended = await whileHeld(there, 'insert on audit_log', async () => {
      const deleting = deleteStray(command.services, { tenant_id }, { confirm: tenant_id })
      await blocked(there, 1)
      const moving = expect(move()).rejects.toThrow(/does not have every entry of the log/)
      await blocked(there, 2)
      return [deleting, moving]
    })
    await Promise.all(ended)
    expect(await there.services.sql`select from tenants where tenant_id = ${tenant_id}`).toEqual([])
    await undoMove(pair())
    expect(await listKeys(here)).toBe(200)
  })

  itWithTwoProcesses('is deleted beside a rotation of the store key, which does not wait for that', async () => {
    await interrupt()
    await there.services.sql`delete from tenant_peppers`
    const command = await commandOn(there, { environment })
    const { deleting } = await whileHeld(there, 'delete on audit_log', async () => {
      const deleting = deleteStray(command.services, { tenant_id }, { confirm: tenant_id })
      await blocked(there, 1)
      await rotateAged(there, { provider: providerOf(OTHER_ROOT_KEY), keepsSecrets: true })
      await command.refreshStoreKeys()
      return { deleting }
    })
    expect(await deleting).toMatchObject({ tenant_id })
    expect(await tablesOf(there)).toEqual([])
  })
})

describe('a move', TIMEOUT, () => {
  it('says for how long the tenant was closed, also by a run that was interrupted', async () => {
    let time = Date.now() + 60_000
    for (const service of [here, there]) await service.close()
    here = await startService({ database: here.database, now: () => time })
    there = await startService({ database: there.database, environment, now: () => time })
    await close()
    time += 30_000
    const mend = await breakAt(here, 'update on tenants')
    await expect(move()).rejects.toThrow(/cut/)
    await mend()
    time += 20_000
    expect(await move()).toBe(30_000) // it was served there from its arrival on
    expect(await move()).toBe(0)
  })
})

describe.skipIf(backend() === 'embedded')('eaas', { timeout: 120_000 }, () => {
  const urlOf = ({ database }: Service) => (database.backend === 'postgres' ? database.url : '')
  function files(config: Record<string, string> = {}) {
    const folder = guardedDir('eaas-left')
    onTestFinished(folder.remove)
    const file = (name: string, text: string) => {
      writeFileSync(join(folder.path, name), text)
      return join(folder.path, name)
    }
    const url = file('url', urlOf(there))
    const other = { database_url_file: url, root_key_file: file('key', OTHER_ROOT_KEY), ...config }
    return { file, to: ['--to', url, '--to-config', file('other.json', JSON.stringify(other))] }
  }
  const eaas = (args: string[], { database }: Pick<Service, 'database'> = here, rootKey = ROOT_KEY) =>
    runCommand(args, { database, rootKey })
  const doctor = async (service: Service, rootKey: string) => {
    const { stdout } = await eaas(['doctor', '--json'], service, rootKey)
    return JSON.parse(stdout).findings.find(({ check }: { check: string }) => check === 'moves')
  }

  it('doctor names tenants that a move left closed, and what it left in the other database, and tenant delete removes that', async () => {
    expect(await doctor(here, ROOT_KEY)).toEqual({ check: 'moves', ok: true, detail: 'none is unfinished' })
    await here.close()
    here = await startService({ now: () => Date.now() - 6 * 60_000 })
    ;({ tenant_id } = (await here.createTenant({ name: 'acme' })).tenant)
    await interrupt()
    const found = await doctor(here, ROOT_KEY)
    expect(found).toMatchObject({
      ok: false,
      detail: expect.stringContaining('tenant acme is closed for a move since'),
    })
    expect(found.detail).toContain(`eaas tenant move ${tenant_id} --to URL-FILE --undo`)
    const stray = await doctor(there, OTHER_ROOT_KEY)
    expect(stray).toMatchObject({ ok: true, warning: true })
    expect(stray.detail).toMatch(/left \d+ entries of tenant .* eaas tenant delete /)
    const inTheOther = (...args: string[]) => eaas(['tenant', 'delete', tenant_id, ...args], there, OTHER_ROOT_KEY)
    const listed = await inTheOther()
    expect([listed.code, listed.stdout]).toEqual([1, expect.stringMatching(/left here \d+ entries and the peppers of/)])
    expect(await tablesOf(there)).toEqual(['audit_log', 'tenant_peppers'])
    expect(await inTheOther('--confirm', tenant_id)).toMatchObject({ code: 0, stderr: '' })
    expect(await doctor(there, OTHER_ROOT_KEY)).toMatchObject({ detail: 'none is unfinished' })
    expect((await inTheOther()).stderr).toContain('there is no tenant')
  })

  it('tenant delete lists what a moved tenant left and where the tenant is, as tenant show does, and deletes it', async () => {
    await move()
    expect((await eaas(['tenant', 'show', 'acme'])).stdout).toContain(
      `moved to          ${ADDRESS}, the installation with`,
    )
    const listed = await eaas(['tenant', 'delete', 'acme'])
    expect(listed.code).toBe(1)
    expect(listed.stdout).toContain(`served by ${ADDRESS}`)
    expect(listed.stdout).toContain('the other installation has the whole log')
    expect(await eaas(['tenant', 'delete', 'acme', '--confirm', 'acme'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('left here is deleted'),
      stderr: '',
    })
    expect(await tablesOf(here)).toEqual([])
  })

  it('tenant move needs the role that owns the tables in the other database alone, and closes nothing with another', async () => {
    const role = `eaas_${process.pid}_servers`
    const [admin, other] = [connectTo(here.database), connectTo(there.database)]
    await admin.unsafe(`create role ${role} login password 'secret'`)
    onTestFinished(async () => {
      for (const sql of [other, admin]) await sql.unsafe(`drop owned by ${role}`)
      await admin.unsafe(`drop role ${role}`)
      for (const sql of [other, admin]) await sql.end()
    })
    expect((await eaas(['migrate', '--role', role])).code).toBe(0)
    expect((await eaas(['migrate', '--role', role], there, OTHER_ROOT_KEY)).code).toBe(0)
    const serving = asRole(there.database, role)
    const { file, to } = files()
    const url = file('serving-url', serving.backend === 'postgres' ? serving.url : '')
    const refused = files({ database_url_file: url }).to.with(1, url)
    for (const undo of [[], ['--undo']]) {
      const { code, stderr } = await eaas(['tenant', 'move', 'acme', ...refused, ...undo])
      expect([code, stderr]).toEqual([1, expect.stringContaining('must name the role that owns the tables there')])
    }
    expect([await listKeys(here), await tablesOf(there)]).toEqual([200, []])
    const database = asRole(here.database, role)
    const { code } = await eaas(['tenant', 'move', 'acme', ...to], { database })
    expect([code, await listKeys(here)]).toEqual([0, 421])
    const { stderr } = await eaas(['tenant', 'delete', 'acme', '--confirm', 'acme'], { database })
    expect(stderr).toContain('run this command as the owner of the tables')
  })

  it('tenant move reaches the other database through a tunnel, and says once it has arrived that its address stays', async () => {
    const url = new URL(urlOf(there))
    const tunnel = createServer((socket) => {
      const onwards = connect(Number(url.port), url.hostname)
      for (const end of [socket, onwards]) end.on('error', () => undefined)
      socket.pipe(onwards).pipe(socket)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void tunnel.close())
    await once(tunnel, 'listening')
    const tunnelled = new URL(url)
    tunnelled.host = `127.0.0.1:${(tunnel.address() as AddressInfo).port}`
    const { file } = files()
    const name = file('tunnelled', tunnelled.href)
    const args = ['tenant', 'move', 'acme', ...files({ database_url_file: name }).to.with(1, name)]
    const first = await eaas([...args, '--address', ADDRESS])
    expect([first.code, first.stderr]).toEqual([0, expect.not.stringContaining('--address')])
    const again = await eaas([...args, '--address', 'https://third.example.org'])
    expect([again.code, again.stderr]).toEqual([
      0,
      `eaas: --address changes nothing: the tenant arrived before, with ${ADDRESS}\n`,
    ])
  })

  it('tenant move names its option where that leads to no database', async () => {
    const { file } = files()
    const to = file('nowhere', 'postgres://eaas@127.0.0.1:1/eaas')
    const { stderr } = await eaas(['tenant', 'move', 'acme', '--to', to])
    expect(stderr).toContain('that the file of --to names it')
    expect((await eaas(['tenant', 'move', 'acme', '--to', `${to}.none`])).stderr).toContain(
      '--to names a file that cannot be read',
    )
  })

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'tenant move that %s ends says how the tenant is served again',
    async (signal) => {
      const { to } = files()
      await close()
      const env = environmentOf({ database: here.database, rootKey: ROOT_KEY })
      const child = spawn(process.execPath, [EAAS, 'tenant', 'move', 'acme', ...to], { env })
      const stderr = text(child.stderr)
      await expect.poll(() => tablesOf(there), { timeout: 60_000 }).toContain('tenant_peppers')
      child.kill(signal)
      await once(child, 'close')
      expect(await stderr).toContain('tenant acme may be closed here')
      expect(await stderr).toContain(`eaas tenant move acme ${to.join(' ')} --undo`)
      await undoMove(pair())
      expect(await listKeys(here)).toBe(200)
    },
  )

  it('tenant move needs no other database to serve a tenant here again whose target is lost', async () => {
    await close()
    expect((await eaas(['tenant', 'move', 'acme', '--undo'])).stderr).toContain("required option '--to <url-file>'")
    const { code, stdout } = await eaas(['tenant', 'move', 'acme', '--undo-without-target'])
    expect([code, stdout, await listKeys(here)]).toEqual([0, expect.stringContaining('is served here'), 200])
  })

  it('tenant move that fails says that too, and names its steps', async () => {
    const { to } = files()
    const mend = await breakAt(there, 'insert on tenants')
    const { code, stderr } = await eaas(['tenant', 'move', 'acme', ...to])
    await mend()
    expect(code).toBe(1)
    expect(stderr.split('\n')).toEqual([
      expect.stringMatching(/^eaas: copying \d+ entries$/),
      'eaas: waiting until its API keys are known there',
      'eaas: closed here, copying the rest',
      expect.stringMatching(/^eaas: tenant acme may be closed here, .* --undo$/),
      expect.stringContaining('cut'),
      '',
    ])
    expect(await listKeys(here)).toBe(503)
    await undoMove(pair())
  })
})

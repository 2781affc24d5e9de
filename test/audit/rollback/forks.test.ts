// A fork of a tenant's log: genuine entries that a server wrote on rows that somebody had put back, with more changes than the true log has.
// It takes the place neither of what a process witnessed nor of what an anchor covers, however it is shown. The attacker has the whole database,
// can have commands run on it, and has no key.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findHead } from '../../../packages/server/src/core/store/audit.js'
import type { Sql } from '../../../packages/server/src/core/store/db.js'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { createWitnessEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { diffAudit } from '../../../packages/server/src/guard/operations/diff-audit.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { createComparisons } from '../../../packages/server/src/installation-comparisons.js'
import { examineCheckpoints } from '../../../packages/server/src/operate/cli/examine-logs.js'
import { type Server, serverOf } from '../../support/audit/audit-scene.js'
import { runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'
import {
  anchor,
  compare,
  copyAll,
  coveredHead,
  removeAll,
  setInstallationScene,
} from '../installation/installation-scene.js'

const { start, current, twoTenants } = setInstallationScene()

type Witnessing = Pick<Server, 'services'>

const addKeys = async (server: { call: Server['call'] }, { secret }: Caller, names: readonly string[]) => {
  for (const name of names) expect((await server.call(secret, 'POST', '/v1/keys', { name })).status).toBe(201)
}

const readHead = async ({ services }: Witnessing, tenant_id: string) =>
  (await findHead(services.sql, tenant_id)) ?? expect.unreachable()

/** Has a server write a fork of the tenant's log with so many keys; the true log is there again at the end. */
async function makeFork(
  running: Service,
  { victim, putBack }: { victim: Caller; putBack(): Promise<void> },
  keys: number,
) {
  const { tenant_id } = victim.tenant
  const { sql } = running.services
  const restoreTrue = await copyAll(running, tenant_id)
  await putBack()
  const forking = serverOf(running) // has witnessed nothing
  await addKeys(
    forking,
    victim,
    Array.from({ length: keys }, (_, at) => `of a fork ${at}`),
  )
  const head = await readHead(running, tenant_id)
  const restoreFork = await copyAll(running, tenant_id)
  const put = (restore: typeof restoreFork) => async () => {
    await removeAll(running, tenant_id)
    await restore(running)
  }
  const isThere = async () => (await findHead(sql, tenant_id))?.last_id === head.last_id
  return { forking, head, isThere, showFork: put(restoreFork), showTrue: put(restoreTrue) }
}

describe('what a process witnessed is not forgotten for a longer fork with more changes', () => {
  it('that another server anchored, and that is shown after the anchored heads were compared', async () => {
    const scene = await twoTenants()
    const { victim } = scene
    const { tenant_id } = victim.tenant
    const running = current()
    expect((await victim.call('POST', '/v1/keys', { name: 'acknowledged' })).status).toBe(201)
    const fork = await makeFork(running, scene, 4)
    await anchorNow(fork.forking.services)
    await fork.showTrue()
    expect(await compare(running, fork.showFork)).toEqual([])
    expect(running.alarms).toMatchObject([{ tenant_id }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
  })

  it.each<[string, (of: { process: Server; fork: Awaited<ReturnType<typeof makeFork>>; victim: string }) => unknown]>([
    ['that another server anchored, over the checkpoint file', ({ process, fork }) => compare(process, fork.showFork)],
    [
      "that an entry of the installation's log names",
      ({ process: { services }, fork, victim }) =>
        watchesOf(services.committer).get(victim).held.rememberAnchored(fork.head),
    ],
  ])('%s', async (_, tell) => {
    const scene = await twoTenants()
    const { tenant_id } = scene.victim.tenant
    const running = current()
    const witnessed = await readHead(running, tenant_id)
    const fork = await makeFork(running, scene, 4)
    await anchorNow(fork.forking.services)
    await fork.showTrue()
    const process = serverOf(running)
    const watch = watchesOf(process.services.committer).get(tenant_id)
    watch.held.remember(witnessed)
    await tell({ process, fork, victim: tenant_id })
    await fork.showFork()
    expect((await process.call(scene.victim.secret, 'GET', '/v1/keys')).status).toBe(500)
    expect(watch.alarm?.witness).toMatchObject({ last_id: witnessed.last_id, hash: witnessed.hash })
  })

  it('of which a command wrote a line into the checkpoint file before', async () => {
    const scene = await twoTenants()
    const { tenant_id } = scene.victim.tenant
    const running = current()
    const witnessed = await readHead(running, tenant_id)
    const fork = await makeFork(running, scene, 4)
    const folder = await mkdtemp(join(tmpdir(), 'eaas-forks-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const file = join(folder, 'checkpoints')
    const emit = createWitnessEmitter(running.services, file)
    for (const head of [fork.head, witnessed]) await emit([{ tenant_id, alarm: undefined, witnessed: head }])
    await fork.showFork()
    const { storeKeys, sql } = running.services
    expect(await examineCheckpoints(sql, storeKeys, file)).toMatchObject({
      ok: false,
      detail: expect.stringContaining('entry 3 of the audit chain differs'),
    })
    await running.close()
    const restarted = await startService({ database: running.database, environment: { EAAS_CHECKPOINT_FILE: file } })
    onTestFinished(() => restarted.close())
    const { alarm } = watchesOf(restarted.services.committer).get(tenant_id)
    expect(Buffer.from(alarm?.witness?.hash ?? [])).toEqual(witnessed.hash)
  })

  it('that was followed before the answer to a commit came', async () => {
    const scene = await twoTenants()
    const { tenant_id } = scene.victim.tenant
    const running = current()
    const committed = await readHead(running, tenant_id)
    const fork = await makeFork(running, scene, 4)
    const process = serverOf(running)
    const watch = watchesOf(process.services.committer).get(tenant_id)
    watch.witness(fork.head)
    watch.commit(committed)
    expect((await process.call(scene.victim.secret, 'GET', '/v1/keys')).status).toBe(500)
    expect(watch.alarm?.witness).toMatchObject({ last_id: committed.last_id, hash: committed.hash })
  })
})

describe('an anchor is not replaced by one over a fork', () => {
  it.each<[string, { keys: number; isPrepared: boolean }]>([
    ['that is longer, shown before the logs are followed', { keys: 4, isPrepared: false }],
    ['that is longer, shown once the logs were followed', { keys: 4, isPrepared: true }],
    ['that is as long, shown once the logs were followed', { keys: 1, isPrepared: true }],
  ])('of the same log, %s', async (_, { keys, isPrepared }) => {
    const scene = await twoTenants()
    const { tenant_id } = scene.victim.tenant
    await anchor(current())
    const running = await start()
    const fork = await makeFork(running, scene, keys)
    await fork.showTrue()
    const covered = (await coveredHead(running, tenant_id)) ?? expect.unreachable()
    const command = serverOf(running)
    expect(await compare(command)).toEqual([])
    const show = async () => {
      if (await fork.isThere()) await fork.showTrue()
      await fork.showFork()
      await running.services.sql`
        update audit_log set hash = ${covered.hash} where tenant_id = ${tenant_id} and id = ${covered.last_id}`
    }
    const { sql } = command.services
    const begin = async (...args: Parameters<typeof sql.begin>) => {
      await show()
      return sql.begin(...args)
    }
    const shown = isPrepared
      ? { ...command.services, sql: Object.assign(sql.bind(null), sql, { begin }) }
      : command.services
    if (!isPrepared) await show()
    await expect(anchorNow(shown as typeof command.services, { evenIfSame: true })).rejects.toThrow(
      new RegExp(`no anchor is written: .*tenant ${tenant_id}`),
    )
    expect(await coveredHead(running, tenant_id)).toMatchObject({ last_id: covered.last_id, hash: covered.hash })

    const left: string[] = []
    await anchorNow(serverOf(running).services, { evenIfSame: true, onLeft: (id) => void left.push(id) })
    expect(left).toEqual([tenant_id])
    expect(await coveredHead(running, tenant_id)).toMatchObject({ hash: covered.hash })
  })
})

describe('a copy of an anchored head whose MAC somebody changed', () => {
  it('is alarmed about: no rollback that was accepted before explains that a fork takes the place of that head', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    for (const name of ['c', 'd', 'e']) await victim.call('POST', '/v1/keys', { name })
    await anchor(current())
    await putBack()
    await acceptRollback((await start()).services, tenant_id, { reason: 'a drill' }) // entry 3, of a log that had 6
    const running = await start()
    const { sql } = running.services
    const older = await copyAll(running, tenant_id)
    await running.caller(victim.secret).call('POST', '/v1/keys', { name: 'acknowledged' })
    await anchor(running)
    const covered = (await coveredHead(running, tenant_id)) ?? expect.unreachable()
    const putOlder = async () => {
      await removeAll(running, tenant_id)
      await older(running)
    }
    const fork = await makeFork(running, { victim, putBack: putOlder }, 2)
    const change = () => sql`update anchored_heads set mac = ${Buffer.alloc(32, 1)} where tenant_id = ${tenant_id}`

    await sql`update audit_log set hash = ${covered.hash} where tenant_id = ${tenant_id} and id = ${covered.last_id}`
    await change()
    await expect(anchorNow(serverOf(running).services, { evenIfSame: true })).rejects.toThrow('changed outside')
    await fork.showFork()
    const alarmed = await start()
    expect(alarmed.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('changed outside') }])
    expect((await alarmed.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    const accepted = await acceptRollback(alarmed.services, tenant_id, { reason: 'a drill' })
    expect(accepted).toMatchObject({ witnessed_id: covered.last_id, agrees_through: 0, policy_version: 2 ** 33 })
    expect((await start()).alarms).toEqual([])
  })

  it('is alarmed about while the true log is there, once the tenant is used', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    const { sql } = current().services
    await sql`update anchored_heads set mac = ${Buffer.alloc(32, 1)} where tenant_id = ${tenant_id}`
    const command = serverOf(current())
    expect(await compare(command)).toEqual([])
    expect((await command.call(victim.secret, 'POST', '/v1/keys', { name: 'more' })).status).toBe(500)
    expect(watchesOf(command.services.committer).get(tenant_id).alarm?.reason).toContain('changed outside')
  })
})

describe('eaas audit diff of a fork that goes on past a kept checkpoint', () => {
  /** A fork of five entries; `kept` are the true ones, and the last of them is that of the checkpoint. */
  async function keptFork() {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    const folder = await mkdtemp(join(tmpdir(), 'eaas-fork-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const { database, services } = current()
    const { sql } = services
    const eaas = (...args: string[]) =>
      runCommand(['audit', ...args, '--tenant', tenant_id], {
        ...{ database, rootKey: ROOT_KEY },
        environment: { EAAS_CHECKPOINT_FILE: 'none' },
      })
    const file = join(folder, 'checkpoint')
    await writeFile(file, (await eaas('checkpoint')).stdout)
    const kept = await rowsOf(tenant_id)
    await putBack()
    await addKeys(serverOf(current()), victim, ['one', 'two', 'three'])
    const show = async (row: Partial<EntryRow> | undefined) =>
      sql`update audit_log set ${sql(row ?? {})} where tenant_id = ${tenant_id} and id = ${kept.length}`
    const diff = async () => {
      const { code, stdout } = await eaas('diff', '--checkpoint', file, '--json')
      return { code, ...JSON.parse(stdout) }
    }
    const forked = (await rowsOf(tenant_id)).slice(kept.length - 1)
    return { tenant_id, kept, last: kept.at(-1), forked, show, diff, file, eaas }
  }
  type EntryRow = { id: number; hash: Uint8Array; mac: Uint8Array }
  const rowsOf = (tenant_id: string) =>
    current().services.sql<EntryRow[]>`select * from audit_log where tenant_id = ${tenant_id} order by id`

  it('tells the difference whatever of the true entry the database shows in its place', async () => {
    const { kept, last, forked, show, diff, file, eaas } = await keptFork()
    const id = kept.length
    expect(await diff()).toMatchObject({ code: 1, differs_at: id, agrees_through: 0 })
    await show({ hash: last?.hash ?? new Uint8Array() })
    const altered = { code: 1, agrees_through: 0, entry_fault: 'entry_altered', head_fault: null }
    expect(await diff()).toMatchObject({ ...altered, differs_at: id })
    await show(last && { hash: last.hash, mac: last.mac })
    expect(await diff()).toMatchObject({ ...altered, differs_at: id })
    await show(last)
    expect(await diff()).toMatchObject({ ...altered, agrees_through: id, differs_at: id + 1 })
    const { stdout } = await eaas('diff', '--checkpoint', file)
    expect(stdout).toContain(`But entry ${id + 1} does not follow from the entry before it (entry_altered).`)
    await show(forked[0])
    expect(await diff()).toMatchObject({ code: 1, differs_at: id, entry_fault: null })
  })

  it('tells that the head is another one if the true entries alone are shown while it reads them', async () => {
    const { tenant_id, kept, last, forked, show } = await keptFork()
    const { services } = current()
    const { sql } = services
    const remove = (from: number) => sql`delete from audit_log where tenant_id = ${tenant_id} and id >= ${from}`
    const showTrue = async () => {
      await remove(kept.length + 1)
      await show(last)
    }
    const showFork = async () => {
      await remove(kept.length)
      await sql`insert into audit_log ${sql(forked)}`
    }
    // The first snapshot has the head and what else is compared, the last one compares the head with its entry.
    let snapshots = 0
    const begin = async (...given: Parameters<Sql['begin']>) => {
      snapshots += 1
      if (snapshots > 1) await showFork()
      const read = await sql.begin(...given)
      if (snapshots === 1) await showTrue()
      return read
    }
    const lying = new Proxy(sql, { get: (target, name) => (name === 'begin' ? begin : Reflect.get(target, name)) })
    const checkpoints = [{ last_id: kept.length, hash: last?.hash ?? new Uint8Array(), policy_version: 1 }]
    const diff = await diffAudit({ ...services, sql: lying }, tenant_id, { checkpoints })
    expect(diff).toMatchObject({ differs_at: null, entry_fault: null, head_fault: { reason: 'head_mismatch' } })
    expect(snapshots).toBe(2)
  })
})

describe('a fork whose true log is lost', () => {
  it.each([
    ['', 1],
    [', twice if its head was missing, since the first acceptance knew only the fork', 2],
  ])(
    'is accepted for a process that saw less of the true log than an anchor covers of the fork%s',
    async (_, acceptances) => {
      const scene = await twoTenants()
      const { secret, tenant } = scene.victim
      const running = current()
      const { sql } = running.services
      expect((await scene.victim.call('POST', '/v1/keys', { name: 'acknowledged' })).status).toBe(201)
      const fork = await makeFork(running, scene, 4)
      await fork.showFork()
      await anchorNow(fork.forking.services)
      const round = (server: Witnessing) =>
        createComparisons(server.services, async () => undefined, {}).sharedAlarms.compare({ findsUnseen: true })
      const status = async () => (await running.caller(secret).call('GET', '/v1/keys')).status
      expect(await status()).toBe(500)
      await round(running)
      if (acceptances > 1) await sql`delete from heads where tenant_id = ${tenant.tenant_id}`
      for (let at = 0; at < acceptances; at++) {
        expect([await status(), await sql`select from chain_alarms`]).toEqual([500, [{}]])
        const command = serverOf(running)
        await compare(command)
        await round(command)
        await acceptRollback(command.services, tenant.tenant_id, { reason: 'the true log is lost' })
        await round(running)
      }
      expect([await status(), await status()]).toEqual([200, 200])
      expect(running.alarms).toHaveLength(1)
    },
  )
})

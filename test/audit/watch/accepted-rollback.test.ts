// What an operator's acceptance of a rollback ends: alarms about what was lost, in every process, and no other one.
import { createSecretKey } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AuditKey } from '../../../packages/server/src/core/audit/formats/chain.js'
import {
  type Head,
  NO_MARK_MAC,
  type PurgeMark,
  purgeMarkMac,
  type Witness,
} from '../../../packages/server/src/core/audit/formats/chain.js'
import { findEntryHash } from '../../../packages/server/src/core/store/audit.js'
import type { Transaction } from '../../../packages/server/src/core/store/db.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { writeAlarm } from '../../../packages/server/src/guard/store/alarms.js'
import { findAcceptedRollback } from '../../../packages/server/src/guard/watch/acceptances.js'
import { HeadWatches, watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { runCommand } from '../../support/service/command-host.js'
import { ROOT_KEY } from '../../support/service/service.js'
import { setWatchScene } from './scene.js'

const scene = setWatchScene()
const { readHead, newWatch, write, rowsBy, lost } = scene

describe('a rollback that an operator accepted', () => {
  let seer: ReturnType<typeof newWatch>
  let accepted: { entry_id: number; policy_version: number }
  let find: (of: Witness, key?: AuditKey, sql?: Transaction) => Promise<boolean>
  /** the heads before the rollback: of an entry that the log still has, and of the one that was lost */
  let before: { kept: Head; lost: Head }

  beforeAll(async () => {
    const { services } = scene
    find = async (of, auditKey = scene.auditKey, sql = scene.sql as unknown as Transaction) =>
      (await findAcceptedRollback(sql, { tenant_id: scene.tenant_id, auditKey }, of)) !== undefined
    seer = newWatch()
    before = { kept: scene.late, lost: lost() }
    seer.watch.witness(before.lost)
    await seer.compare()
    accepted = await acceptRollback(services, scene.tenant_id, { reason: 'a drill' })
  })
  afterAll(async () => {
    await scene.readLate()
  })

  it('ends the alarm of a process that saw what was lost', async () => {
    expect(await seer.compare()).toEqual([])
    expect(seer.watch.alarm).toBeUndefined()
  })

  it('ends every alarm about what was lost: the row of one that somebody puts back is deleted, and no alarm', async () => {
    await write(before.lost)
    const { watch, compare, acceptedRows } = newWatch()
    expect(await compare()).toEqual([])
    expect([watch.alarm, await rowsBy(scene.auditKey), acceptedRows]).toEqual([undefined, [], [scene.tenant_id]])
  })

  it.each<[what: string, of: () => Head]>([
    ['of after it', () => ({ ...before.lost, policy_version: accepted.policy_version })],
    ['of an entry beyond it', () => ({ ...before.lost, last_id: before.lost.last_id + 1 })],
    ['without a witness', () => ({ ...before.lost, last_id: 0, policy_version: 0 })],
    ['whose policy version is not proven', () => ({ ...before.lost, policy_version: 0 })],
  ])('ends no alarm %s', async (_, of) => {
    await write(of())
    const { watch, compare, acceptedRows } = newWatch()
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, acceptedRows]).toEqual(['it went back', []])
  })

  it.each<[what: string, isThere: boolean]>([
    ['no alarm about an entry that it kept, if the log has another one', false],
    ['an alarm about an entry that it kept, if the log has it', true],
  ])('ends %s', async (_, isThere) => {
    const { kept } = before
    await scene.sql`delete from chain_alarms`
    const watch = newWatch()
    const { tenant_id } = scene
    await write(kept)
    await acceptRollback(scene.services, tenant_id, { reason: 'a drill' })
    await write(isThere ? kept : { ...kept, hash: new Uint8Array(32) })
    expect(await watch.compare()).toEqual([])
    expect(watch.watch.alarm === undefined).toBe(isThere)
  })

  it('is of what was lost, and of nothing that was witnessed beyond it or since', async () => {
    expect(await find(lost())).toBe(true)
    expect(await find({ ...lost(), last_id: lost().last_id + 1 })).toBe(false)
    expect(await find({ ...lost(), policy_version: accepted.policy_version })).toBe(false)
  })

  it('is not believed without the MAC of the server', async () => {
    expect(await find(lost(), createSecretKey(Buffer.alloc(32)))).toBe(false)
  })

  it.each([
    ['is known by the mark of a purge up to it', false],
    ['is not known by a mark that no server wrote', true],
  ])('%s', async (_, isForged) => {
    const { sql } = scene
    const { tenant_id } = scene
    const purged_through = accepted.entry_id - 1
    const hash = await findEntryHash(sql, tenant_id, purged_through)
    const created_at = '2026-01-01T00:00:00.000Z'
    const facts = { tenant_id, purged_through, hash, entries: purged_through, cutoff: created_at, created_at }
    const mark = { ...facts, previous_mac: NO_MARK_MAC } as PurgeMark
    const mac = isForged ? new Uint8Array(32) : purgeMarkMac(scene.auditKey, mark)
    const purging = sql.begin(async (transaction) => {
      await transaction`insert into purge_marks ${transaction({ ...mark, mac })}`
      await transaction`delete from audit_log where tenant_id = ${tenant_id} and id <= ${purged_through}`
      throw [await find(lost(), scene.auditKey, transaction)]
    })
    expect(await purging.catch((found) => found)).toEqual([!isForged]) // a rollback, since the log must stay
  })

  it('is of what this process has an alarm about, although the row is exchanged before it is locked', async () => {
    const { services } = scene
    const { tenant_id } = scene
    const head = await readHead()
    watchesOf(services.committer)
      .get(tenant_id)
      .learn({ reason: 'a drill', witness: { ...head, last_id: 98 } })
    await scene.sql`delete from chain_alarms`
    await write(head)
    expect(await acceptRollback(services, tenant_id, { reason: 'a drill' })).toMatchObject({
      witnessed_id: 98,
      compared: null,
    })
  })
})

describe('a log that lost nothing that is known of', () => {
  it('is said to have gone back to before a change if it has as many entries', async () => {
    const { sql } = scene
    const head = scene.late
    const watch = new HeadWatches(() => undefined).get(scene.tenant_id)
    watch.witness({ ...head, policy_version: head.policy_version + 1 })
    await expect(watch.read(sql, scene.auditKey)).rejects.toThrow(
      `went back to before a change of rights (policy version ${head.policy_version + 1}, now ${head.policy_version})`,
    )
    const longer = new HeadWatches(() => undefined).get(scene.tenant_id)
    longer.witness({ ...head, last_id: head.last_id + 1 })
    await expect(longer.read(sql, scene.auditKey)).rejects.toThrow(`from entry ${head.last_id + 1} to ${head.last_id}:`)
  })

  it('is said to end with an entry of a time, after which a change may be undone, when the operator accepts its alarm', async () => {
    const accept = (...log: string[]) =>
      runCommand(['accept', 'rollback', ...log, '--reason', 'a drill'], {
        database: scene.service.database,
        rootKey: ROOT_KEY,
      })
    const own = ['--tenant', scene.tenant_id]
    const of = ({ last_id, created_at }: Head) => `${last_id}, of ${created_at}.`
    const seen = await readHead()
    await scene.owner.call('POST', '/v1/keys', { name: 'after it' })
    const last = await readHead()
    await write(seen)
    const { code, stdout } = await accept(...own)
    expect([code, stdout]).toEqual([0, expect.stringContaining(`could be compared with is ${of(seen)}`)])
    expect(stdout).toContain(
      `the log ended with entry ${of(last)} If something was changed after that time, the change is undone`,
    )
    await write({ ...(await readHead()), last_id: 99 })
    const lossy = (await accept(...own)).stdout
    expect(lossy).not.toContain('could be compared')
    expect(lossy).toContain('The changes of the lost entries are undone')
    const anchored = await readHead()
    await write({ ...anchored, last_id: 0 })
    expect((await accept(...own)).stdout).toContain(`could be compared with is ${of(anchored)}`)
    const { tenant_id } = (await scene.service.createTenant()).tenant
    const raised_at = new Date().toISOString()
    const nothing = { last_id: 0, hash: Buffer.alloc(32), policy_version: 0, mac: Buffer.alloc(32) }
    await writeAlarm(scene.sql, { tenant_id, reason: 'a drill', raised_at, ...nothing })
    expect((await accept('--tenant', tenant_id)).stdout).toContain('could be compared with nothing')
    expect((await accept('--installation')).stderr).toContain("there is no alarm about the installation's log")
  })
})

// What a process takes over from an alarm that another one wrote: not the other's witness in place of its own, and nothing if the
// database cannot be read.
import type { KeyObject } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { alarmMac, type Head } from '../../packages/server/src/audit/formats/chain.js'
import { createHeadWatches } from '../../packages/server/src/audit/watch/head-watches.js'
import { createSharedAlarms } from '../../packages/server/src/audit/watch/shared-alarms.js'
import { listAlarms, writeAlarm } from '../../packages/server/src/store/alarms.js'
import { findHead } from '../../packages/server/src/store/audit.js'
import { runEaas } from '../support/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service.js'

let service: Service
let owner: Caller
let auditKey: KeyObject
/** an earlier head of the tenant, and its last one */
let [early, late]: Head[] = []

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  const head = async () => {
    const found = await findHead(service.services.sql, owner.tenant.tenant_id)
    if (!found) throw new Error('no head')
    return found
  }
  early = await head()
  await owner.call('POST', '/v1/keys', { name: 'k' })
  late = await head()
  const state = await service.services.states.find(owner.tenant.tenant_id)
  if (!state) throw new Error('no state')
  auditKey = state.auditKey
})
afterAll(() => service?.close())

beforeEach(async () => {
  await service.services.sql`delete from chain_alarms where tenant_id = ${owner.tenant.tenant_id}`
})

/** The watch of another process on this database, which witnessed the last head. */
function newWatch({ findAuditKey = async () => auditKey, isGone = async () => false } = {}) {
  const { sql, now, installationKey } = service.services
  const watches = createHeadWatches(() => undefined)
  const watch = watches.get(owner.tenant.tenant_id)
  watch.witness(late as Head)
  return { watch, ...createSharedAlarms({ sql, watches, installationKey, findAuditKey, isGone, now }) }
}

async function write({ last_id, hash, policy_version }: Head, { forged = false } = {}): Promise<void> {
  const { tenant_id } = owner.tenant
  const raised_at = new Date(service.services.now()).toISOString()
  const alarm = { tenant_id, reason: 'it went back', last_id, hash, policy_version, raised_at }
  const mac = forged ? new Uint8Array(32) : alarmMac(auditKey, alarm)
  await writeAlarm(service.services.sql, { ...alarm, mac })
}

const idOf = (witness: { last_id: number } | undefined) => witness?.last_id

describe('a process that reads an alarm of another one', () => {
  it('adopts it, and still knows the later head that it witnessed itself', async () => {
    await write(early as Head)
    const { watch, compare } = newWatch()
    expect(await compare()).toEqual([])
    expect(watch.alarm).toMatchObject({ reason: 'it went back', witness: { last_id: early?.last_id } })
    expect(idOf(watch.witnessed)).toBe(late?.last_id)
  })

  it('keeps the witness of its own alarm, and writes it in place of the earlier one', async () => {
    await write(early as Head)
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'mine', witness: watch.witnessed })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual(['mine', late?.last_id])
    expect((await listAlarms(service.services.sql)).map(({ reason, last_id }) => [reason, last_id])).toEqual([
      ['mine', late?.last_id],
    ])
  })

  it.each([
    ['that no server wrote', { isGone: async () => false }, 'the database contains an alarm that no server wrote'],
    ['about a tenant that is gone', { isGone: async () => true }, expect.stringContaining('missing from the database')],
  ])('does not believe the witness of one %s: its own counts', async (_, found, reason) => {
    await write(early as Head, { forged: true })
    const { watch, compare } = newWatch(found)
    await compare()
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual([reason, late?.last_id])
  })

  it.each(['findAuditKey', 'isGone'] as const)(
    'passes on an error of the database in %s, and takes the alarm neither for genuine nor for forged',
    async (name) => {
      await write(early as Head)
      const error = new Error('the database does not answer')
      const { watch, compare } = newWatch({ [name]: () => Promise.reject(error) })
      expect(await compare()).toEqual([error])
      expect(watch.alarm).toBeUndefined()
    },
  )
})

describe('a log that lost nothing that is known of', () => {
  it('is said to have gone back to before a change if it has as many entries', async () => {
    const { sql } = service.services
    const head = late as Head
    const watch = createHeadWatches(() => undefined).get(owner.tenant.tenant_id)
    watch.witness({ ...head, policy_version: head.policy_version + 1 })
    await expect(watch.read(sql, auditKey)).rejects.toThrow(
      `went back to before a change of rights (policy version ${head.policy_version + 1}, now ${head.policy_version})`,
    )
    const longer = createHeadWatches(() => undefined).get(owner.tenant.tenant_id)
    longer.witness({ ...head, last_id: head.last_id + 1 })
    await expect(longer.read(sql, auditKey)).rejects.toThrow(`from entry ${head.last_id + 1} to ${head.last_id}:`)
  })

  it('has no change undone when the operator accepts its alarm, and the command says so', async () => {
    const accept = (...log: string[]) =>
      runEaas(['audit', 'accept-rollback', ...log, '--reason', 'a drill'], {
        database: service.database,
        rootKey: ROOT_KEY,
      })
    const own = ['--tenant', owner.tenant.tenant_id]
    await write(late as Head)
    const { code, stdout } = await accept(...own)
    expect([code, stdout]).toEqual([0, expect.stringContaining('no change is known to be undone')])
    const head = await findHead(service.services.sql, owner.tenant.tenant_id)
    await write({ ...(head as Head), last_id: 99 })
    expect((await accept(...own)).stdout).toContain('The changes of the lost entries are undone')
    expect((await accept('--installation')).stderr).toContain("there is no alarm about the installation's log")
  })
})

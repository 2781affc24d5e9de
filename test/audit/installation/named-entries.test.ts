// Entries of the installation's log that name an entry of a tenant's own log, which no anchor covers yet: the tenant cannot go back behind
// them. The attacker has the whole database and no key.

import { type ChainedEntry, entryHash } from '@eaas/audit'
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { recordAlone } from '../../../packages/server/src/guard/installation-log.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { examineAnchor } from '../../../packages/server/src/operate/cli/examine-logs.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { deleteTenant } from '../../../packages/server/src/operate/operations/delete-tenant.js'
import { resumeTenant, suspendTenant, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { anchor, copyAll, entries, invalid, removeAll, setInstallationScene, verify } from './installation-scene.js'

const { start, current, twoTenants } = setInstallationScene()

/** Makes a tenant whose log has three entries, the last that an anchor covers, and what puts it back to them. */
async function anchored() {
  const { victim } = await twoTenants()
  const running = current()
  await anchor(running)
  const { tenant_id } = victim.tenant
  const insert = await copyAll(running, tenant_id)
  const putBack = async () => {
    await removeAll(current(), tenant_id)
    await insert(current())
  }
  return { victim, tenant_id, putBack }
}

const suspend = ({ services }: Service, { tenant }: Caller) =>
  performAsSystem(services, tenant.tenant_id, suspendTenant({ reason: 'a drill' }))

/** A change of the victim, and the entry of its log that the installation's log then names. */
const CHANGES: [what: string, named: number, change: (service: Service, caller: Caller) => Promise<unknown>][] = [
  ['suspended', 4, suspend],
  [
    'changed',
    4,
    ({ services }: Service, { tenant }: Caller) =>
      performAsSystem(services, tenant.tenant_id, updateTenant({ monthly_encrypt_quota: 9 })),
  ],
  [
    'deleted',
    8,
    async (service: Service, caller: Caller) => {
      await suspend(service, caller)
      const { tenant_id, name } = caller.tenant
      await deleteTenant(service.services, tenant_id, { confirm: name })
    },
  ],
]

/** The tenant is alarmed about by a process that starts, and named by whoever verifies, until an operator accepts what happened. */
async function expectNoticed(
  { victim, tenant_id }: Pick<Awaited<ReturnType<typeof anchored>>, 'victim' | 'tenant_id'>,
  { fault, alarm, detail = '' }: { fault: object; alarm: string; detail?: string },
) {
  expect(await verify(current(), tenant_id)).toMatchObject(fault)
  const { sql, storeKeys } = current().services
  const examined = await examineAnchor(sql, storeKeys, { checkpointMinutes: 60 })
  expect(examined).toMatchObject({ ok: false, detail: expect.stringContaining(detail) })
  const running = await start()
  expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining(alarm) }])
  expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
  expect(await verify(running, tenant_id)).toMatchObject(fault)
  expect(await invalid(running)).toMatchObject([{ tenant_id, ...fault }])

  await acceptRollback(running.services, tenant_id, { reason: 'a drill' })
  const accepted = await start()
  expect(accepted.alarms).toEqual([])
  expect((await accepted.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
  expect(await invalid(accepted)).toEqual([])
}

describe('a tenant', () => {
  it.each(CHANGES)(
    'that is put back to before it was %s is alarmed about, by the name of entry %i',
    async (_, named, change) => {
      const { victim, tenant_id, putBack } = await anchored()
      await change(current(), victim)
      await putBack()
      await expectNoticed(
        { victim, tenant_id },
        {
          fault: { valid: false, reason: 'behind_checkpoint', broken_at: 4 },
          alarm: `names entry ${named}`,
          detail: `names entry ${named} of the tenant's log, which ends with entry 3`,
        },
      )
    },
  )

  it.each(CHANGES)(
    'that was %s is alarmed about where a longer log of genuine entries takes its place',
    async (_, named, change) => {
      const { victim, tenant_id, putBack } = await anchored()
      for (let key = 0; key < 9; key++) await victim.call('POST', '/v1/keys', { name: `fork ${key}` })
      const insertFork = await copyAll(current(), tenant_id)
      await putBack()
      await start()
      await change(current(), victim)
      await removeAll(current(), tenant_id)
      await insertFork(current())
      const fault = { valid: false, reason: 'checkpoint_mismatch', broken_at: named }
      await expectNoticed({ victim, tenant_id }, { fault, alarm: `entry ${named}` })
    },
  )

  it('is named by a verification in a process that has seen its log alone', async () => {
    const { victim, tenant_id } = await anchored()
    await suspend(current(), victim)
    const { action, metadata } = (await entries(current())).at(-1) ?? {}
    expect([action, metadata?.entry_id]).toEqual(['installation.tenant_suspend', 4])
    const note = {
      action: 'installation.tenant_suspend',
      metadata: { ...metadata, entry_hash: 'ab'.repeat(32) },
    } as const
    await recordAlone(current().services, [note])
    const fault = { valid: false, reason: 'checkpoint_mismatch', broken_at: 4 }
    expect(await verify(current(), tenant_id)).toMatchObject(fault)
    expect(await invalid(current())).toMatchObject([{ tenant_id, ...fault }])
  })

  it('is alarmed about at start if somebody edits the entry that is named, and the hash by which it is, although an anchor covers it', async () => {
    const { victim, tenant_id } = await anchored()
    await suspend(current(), victim)
    await anchor(current())
    const { sql } = current().services
    const [before, entry] = await sql<[ChainedEntry, ChainedEntry]>`
      select * from audit_log where tenant_id = ${tenant_id} and id in (3, 4) order by id`
    const edited = encodeHex(entryHash(before.hash, { ...entry, actor: 'x' }))
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 4`
    await sql`
      update audit_log set metadata = replace(metadata, ${encodeHex(entry.hash)}, ${edited})
      where tenant_id = ${INSTALLATION_ID} and action = 'installation.tenant_suspend'`
    expect((await start()).alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('names entry 4') }])
  })

  it('is alarmed about where another log has the entry that is named for the moment in which it is compared', async () => {
    await twoTenants()
    const { call, tenant } = await current().createTenant() // no anchor covers it
    const { tenant_id } = tenant
    const putBack = await copyAll(current(), tenant_id)
    for (let key = 0; key < 3; key++) await call('POST', '/v1/keys', { name: `fork ${key}` })
    const insertFork = await copyAll(current(), tenant_id)
    await removeAll(current(), tenant_id)
    await putBack(current())
    await start()
    await performAsSystem(current().services, tenant_id, updateTenant({ monthly_encrypt_quota: 9 }))
    const { sql } = current().services
    const shown = await sql`select * from audit_log where tenant_id = ${tenant_id} and id = 2`
    await removeAll(current(), tenant_id)
    await insertFork(current())
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = 2`
    await sql`insert into audit_log ${sql(shown)}`
    expect((await start()).alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('entry 3') }])
  })

  it('that was purged with the entry that is named is missed by nobody', async () => {
    let now = Date.parse('2026-01-05T09:00:00.000Z')
    const service = await startService({ now: () => now })
    const owner = await service.createTenant()
    const { tenant_id } = owner.tenant
    await performAsSystem(service.services, tenant_id, updateTenant({ monthly_encrypt_quota: 9 }))
    now += 90 * 86_400_000
    await owner.call('POST', '/v1/keys', { name: 'later' })
    const { purged_through } = await purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    expect(purged_through).toBe(2)
    await service.close()
    const running = await startService({ database: service.database })
    try {
      expect(running.alarms).toEqual([])
      expect(await verify(running, tenant_id)).toMatchObject({ valid: true })
    } finally {
      await running.close()
    }
  })

  it("is alarmed about where its status is another one than the installation's log says", async () => {
    const { victim, tenant_id } = await anchored()
    await suspend(current(), victim)
    const before = await copyAll(current(), INSTALLATION_ID)
    await performAsSystem(current().services, tenant_id, resumeTenant({ reason: 'a drill' }))
    await removeAll(current(), INSTALLATION_ID)
    await before(current())
    const { alarms } = await start()
    expect(alarms).toMatchObject([
      { tenant_id, reason: expect.stringContaining('suspended, and its row that it is active') },
    ])
  })

  it('is watched from the entry on that is named, whatever was anchored: what is shown at the start alone is found afterwards', async () => {
    const { victim, tenant_id } = await anchored()
    await suspend(current(), victim)
    const { services, alarms } = await start()
    expect(alarms).toEqual([])
    expect(watchesOf(services.committer).get(tenant_id).witnessed?.last_id).toBe(4)
  })

  it.each([
    [
      'missing',
      'head of the audit chain is missing',
      (sql: Service['services']['sql']) => sql`delete from heads where last_id in (2, 4)`,
    ],
    [
      'that no server wrote',
      'was not written by this server',
      (sql: Service['services']['sql']) => sql`update heads set last_id = 9 where last_id in (2, 4)`,
    ],
  ])('of which an entry is named is alarmed about at start if its head is %s', async (_, reason, attack) => {
    const { victim } = await anchored()
    const newer = await current().createTenant() // no anchor covers it
    for (const each of [victim, newer]) await suspend(current(), each)
    await attack(current().services.sql)
    const { alarms } = await start()
    expect(alarms).toHaveLength(2)
    for (const { tenant } of [victim, newer])
      expect(alarms).toContainEqual(
        expect.objectContaining({ tenant_id: tenant.tenant_id, reason: expect.stringContaining(reason) }),
      )
  })
})

// Entries of the installation's log that name an entry of a tenant's own log, which no anchor covers yet: the tenant cannot go back behind
// them. The attacker has the whole database and no key.
import { describe, expect, it } from 'vitest'
import { examineAnchor } from '../../packages/server/src/cli/examine-logs.js'
import { verifyAll } from '../../packages/server/src/jobs/verify-all.js'
import { acceptRollback } from '../../packages/server/src/operations/accept-rollback.js'
import { deleteTenant } from '../../packages/server/src/operations/delete-tenant.js'
import { suspendTenant } from '../../packages/server/src/operations/suspend-tenant.js'
import { updateTenant } from '../../packages/server/src/operations/update-tenant.js'
import { performAsSystem } from '../../packages/server/src/runner/perform.js'
import type { Caller, Service } from '../support/service.js'
import { anchor, copyAll, removeAll, setInstallationScene, verify } from './installation-scene.js'

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

describe('a tenant', () => {
  it.each([
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
  ])('that is put back to before it was %s is alarmed about, by the name of entry %i', async (_, named, change) => {
    const { victim, tenant_id, putBack } = await anchored()
    await change(current(), victim)
    await putBack()
    const behind = { valid: false, reason: 'behind_checkpoint', broken_at: 4 }
    expect(await verify(current(), tenant_id)).toMatchObject(behind)
    const { sql, rootKey } = current().services
    expect(await examineAnchor(sql, rootKey, { checkpointMinutes: 60 })).toMatchObject({
      ok: false,
      detail: expect.stringContaining(`names entry ${named} of the tenant's log, which ends with entry 3`),
    })
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining(`names entry ${named}`) }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    expect(await verify(running, tenant_id)).toMatchObject(behind)
    const { verdicts } = await verifyAll(running.services)
    expect(verdicts.filter(({ valid }) => !valid)).toMatchObject([{ tenant_id, ...behind }])

    await acceptRollback(running.services, tenant_id, { reason: 'a drill' })
    const accepted = await start()
    expect(accepted.alarms).toEqual([])
    expect((await accepted.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
    expect((await verifyAll(accepted.services)).verdicts.every(({ valid }) => valid)).toBe(true)
  })

  it('is watched from the entry on that is named, whatever was anchored: what is shown at the start alone is found afterwards', async () => {
    const { victim, tenant_id } = await anchored()
    await suspend(current(), victim)
    const { services, alarms } = await start()
    expect(alarms).toEqual([])
    expect(services.committer.watches.get(tenant_id).witnessed?.last_id).toBe(4)
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

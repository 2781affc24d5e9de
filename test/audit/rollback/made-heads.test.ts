// A head that was deleted, forged or put back: which entries after it a server wrote, and how an operator has it made again of the entries.
// The attacker has the whole database and no key. docs/repair-a-log.md says the same by commands, which recovery.test.ts runs.
import { describe, expect, it } from 'vitest'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { updateTenant } from '../../../packages/server/src/operators/tenants.js'
import type { Service } from '../../support/service/service.js'
import { anchor, copyAll, removeAll, setInstallationScene, verify } from '../installation/installation-scene.js'

const { start, current, twoTenants } = setInstallationScene()

type Sql = Service['services']['sql']

/** A tenant whose log has five entries, and a head of the third. */
async function headBehind() {
  const { victim } = await twoTenants()
  const { sql } = current().services
  const { tenant_id } = victim.tenant
  const heads = await sql`select * from heads where tenant_id = ${tenant_id}`
  for (const name of ['d', 'e']) await victim.call('POST', '/v1/keys', { name })
  const putBack = async () => {
    const { sql } = current().services
    await sql`delete from heads where tenant_id = ${tenant_id}`
    await sql`insert into heads ${sql(heads)}`
  }
  await putBack()
  return { victim, tenant_id, sql, putBack }
}

const accept = (tenant_id: string) => acceptRollback(current().services, tenant_id, { reason: 'a drill' })

describe('entries after the head', () => {
  it.each<[string, object, (sql: Sql, tenant_id: string) => Promise<unknown>]>([
    ['that a server wrote', { reason: 'head_behind', broken_at: 4 }, async () => undefined],
    [
      'of which the first was edited, and a server wrote the other',
      { reason: 'head_behind', broken_at: 4 },
      (sql, tenant_id) => sql`update audit_log set actor = 'nobody' where tenant_id = ${tenant_id} and id = 4`,
    ],
    [
      'of another content than the server wrote',
      { reason: 'entry_beyond_head', broken_at: 4 },
      (sql, tenant_id) => sql`update audit_log set actor = 'nobody' where tenant_id = ${tenant_id} and id > 3`,
    ],
    [
      'without the MAC of the server',
      { reason: 'entry_beyond_head', broken_at: 4 },
      (sql, tenant_id) => sql`update audit_log set mac = ${Buffer.alloc(32)} where tenant_id = ${tenant_id} and id > 3`,
    ],
    [
      'that follow from nothing',
      { reason: 'entry_beyond_head', broken_at: 5 },
      (sql, tenant_id) => sql`delete from audit_log where tenant_id = ${tenant_id} and id = 4`,
    ],
  ])('%s are named as what they are', async (_, fault, change) => {
    const { tenant_id, sql } = await headBehind()
    await change(sql, tenant_id)
    expect(await verify(await start(), tenant_id)).toMatchObject({ valid: false, ...fault })
  })
})

describe('a head that is made again', () => {
  it('is of the last entry, whatever head is there; the policy version rises above every one before', async () => {
    const { victim, tenant_id, putBack } = await headBehind()
    const running = await start()
    expect(await accept(tenant_id)).toMatchObject({
      entry_id: 6,
      head_fault: 'head_behind',
      witnessed_id: 5,
      agrees_through: 5,
      policy_version: 2 ** 32,
    })
    expect(await verify(running, tenant_id)).toMatchObject({ valid: true, verified_entries: 6 })
    await putBack()
    await running.services.sql`update anchored_heads set mac = ${Buffer.alloc(32)} where tenant_id = ${tenant_id}` // so that it proves no policy version
    expect((await start()).alarms).toMatchObject([{ tenant_id }])
    expect(await accept(tenant_id)).toMatchObject({ entry_id: 7, policy_version: 2 ** 33 })
    const served = await start()
    expect(served.alarms).toEqual([])
    expect((await served.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
  })

  it('is not made of a log in which an entry is not as a server wrote it', async () => {
    const { tenant_id, sql } = await headBehind()
    await sql`update audit_log set actor = 'nobody' where tenant_id = ${tenant_id} and id = 5`
    await start()
    await expect(accept(tenant_id)).rejects.toThrow('the remaining log does not verify (entry_altered, entry 5)')
  })

  it('is not made if an entry is inserted after the log was verified', async () => {
    const { tenant_id } = await headBehind()
    const { services } = await start()
    let transactions = 0
    const begin = async (...args: never[]) => {
      transactions += 1
      if (transactions === 3) {
        await services.sql`
          insert into audit_log select tenant_id, 9, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac
          from audit_log where tenant_id = ${tenant_id} and id = 5`
      }
      return (services.sql.begin as (...args: never[]) => unknown)(...args)
    }
    const changing = new Proxy(services.sql, {
      get: (target, name) => (name === 'begin' ? begin : Reflect.get(target, name)),
    })
    const accepting = acceptRollback({ ...services, sql: changing }, tenant_id, { reason: 'a drill' })
    await expect(accepting).rejects.toThrow('the log changed while it was verified')
  })

  it.each<[what: string, change: (sql: Sql) => Promise<unknown>]>([
    ['is there', async () => undefined],
    ['was deleted', (sql) => sql`delete from chain_alarms`],
    ['was edited', (sql) => sql`update chain_alarms set last_id = 2`],
  ])(
    'hides nothing of what an alarm witnessed, whose row %s: the entries that were cut off are on record',
    async (_, change) => {
      const { victim } = await twoTenants()
      const { tenant_id } = victim.tenant
      const { sql } = current().services
      await anchor(current())
      for (const table of ['key_versions', 'keys'])
        await sql`delete from ${sql(table)} where tenant_id = ${tenant_id} and entry_id = 3`
      await sql`delete from audit_log where tenant_id = ${tenant_id} and id = 3`
      await sql`delete from heads where tenant_id = ${tenant_id}`
      const running = await start()
      expect(running.alarms).toMatchObject([{ tenant_id }])
      await change(running.services.sql)
      expect(await accept(tenant_id)).toMatchObject({
        entry_id: 3,
        head_fault: 'head_missing',
        witnessed_id: 3,
        agrees_through: 0,
      })
    },
  )

  it('hides no entry that the installation names: it is on record', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    const before = await copyAll(current(), tenant_id)
    await performAsSystem(current().services, tenant_id, updateTenant({ monthly_encrypt_quota: 9 }))
    await removeAll(current(), tenant_id)
    await before(current())
    await current().services.sql`delete from heads where tenant_id = ${tenant_id}`
    await start()
    expect(await accept(tenant_id)).toMatchObject({ entry_id: 4, head_fault: 'head_missing', named_id: 4 })
  })
})

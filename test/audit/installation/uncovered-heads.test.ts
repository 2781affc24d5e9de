// Heads that the next anchor must cover, whatever somebody wrote into the copies of the anchored ones: the root of an anchor proves of each
// copy only its id and its hash. The attacker has the whole database and no key.

import { describe, expect, it } from 'vitest'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { findUncovered } from '../../../packages/server/src/guard/store/anchors.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { readAnchor, readAnchorTime } from '../../../packages/server/src/guard/watch/newest-anchor.js'
import { serverOf } from '../../support/audit/audit-scene.js'
import { answering } from '../../support/database/answering.js'
import type { Service } from '../../support/service/service.js'
import { anchor, copyAll, coveredHead, invalid, removeAll, setInstallationScene, verify } from './installation-scene.js'

const { start, current, twoTenants } = setInstallationScene()

/** Gives the anchored head of a tenant what nothing proves of it: the columns of the head in the database. */
const copyUnproven = ({ services: { sql } }: Service, tenant_id: string) => sql`
  update anchored_heads as a set mac = h.mac, policy_version = h.policy_version, created_at = h.created_at
  from heads as h where h.tenant_id = a.tenant_id and a.tenant_id = ${tenant_id}`

const changed = (tenant_id: string) =>
  `there is an alarm about tenant ${tenant_id}: the anchored head was changed outside the server`

describe('an anchored head that was given the MAC of a later one', () => {
  it('is alarmed about, and replaced when an operator has accepted that, so the tenant cannot go back to it', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    const running = current()
    await anchor(running)
    const putBack = await copyAll(running, tenant_id)
    await victim.call('POST', '/v1/keys', { name: 'more' })
    await copyUnproven(running, tenant_id)
    const since = new Date(running.services.now() + 60_000).toISOString()
    expect(await findUncovered(running.services.sql, since)).toEqual([victim.tenant.name])
    await expect(anchor(running)).rejects.toThrow(`no anchor is written: ${changed(tenant_id)}`)
    expect(await coveredHead(running, tenant_id)).toMatchObject({ last_id: 3 })
    const alarmed = await start()
    expect(alarmed.alarms).toMatchObject([{ tenant_id }])
    const accepted = await acceptRollback(alarmed.services, tenant_id, { reason: 'a drill' })
    expect(accepted).toMatchObject({ witnessed_id: 3, agrees_through: 3, entry_id: 5 })
    expect(await coveredHead(alarmed, tenant_id)).toMatchObject({ last_id: 5 })
    expect(await findUncovered(alarmed.services.sql, since)).toEqual([])

    await removeAll(alarmed, tenant_id)
    await putBack(alarmed)
    await copyUnproven(alarmed, tenant_id)
    const after = await start()
    expect(after.alarms).toMatchObject([{ tenant_id }])
    expect((await after.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    expect(await verify(after, tenant_id)).toMatchObject({ valid: false, reason: 'behind_checkpoint' })
    expect(await invalid(after)).toMatchObject([{ tenant_id }])
  })

  it('is not explained by an earlier rollback: a command writes no anchor, and a server leaves the tenant covered as it was', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    for (const name of ['c', 'd', 'e']) await victim.call('POST', '/v1/keys', { name })
    await anchor(current())
    await putBack()
    await acceptRollback((await start()).services, tenant_id, { reason: 'a drill' }) // entry 3, of a log that had 6
    const running = await start()
    const putBackAgain = await copyAll(running, tenant_id)
    await running.caller(victim.secret).call('POST', '/v1/keys', { name: 'more' })
    await anchor(running)
    expect(await coveredHead(running, tenant_id)).toMatchObject({ last_id: 4 })

    await removeAll(running, tenant_id)
    await putBackAgain(running)
    await running.services.sql`update anchored_heads set policy_version = 1 where tenant_id = ${tenant_id}`
    // These have witnessed nothing.
    await expect(anchorNow(serverOf(running).services, { evenIfSame: true })).rejects.toThrow(
      `no anchor is written: ${changed(tenant_id)}`,
    )
    const left: string[] = []
    await anchorNow(serverOf(running).services, { evenIfSame: true, onLeft: (id) => void left.push(id) })
    expect(left).toEqual([tenant_id])
    expect(await coveredHead(running, tenant_id)).toMatchObject({ last_id: 4 })
    expect((await start()).alarms).toMatchObject([{ tenant_id }])
  })
})

describe('a tenant whose row is hidden while the heads are listed, and whose head is there', () => {
  it('is named, and a command writes no anchor that would cover less', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await victim.call('POST', '/v1/keys', { name: 'more' })
    const { services: command } = serverOf(current()) // has witnessed nothing
    const sql = answering(command.sql, /as last_entry/, async (ask) =>
      (await ask()).filter((row) => row.tenant_id !== tenant_id),
    )
    const services = { ...command, sql }
    await expect(anchorNow(services, { evenIfSame: true })).rejects.toThrow(
      `no anchor is written: tenant ${tenant_id} or its head is missing`,
    )
    expect(await coveredHead(current(), tenant_id)).toMatchObject({ last_id: 3 })
  })
})

describe('an anchored head with a policy version that no server gave', () => {
  it('raises an alarm that an operator can end: the version counts for nothing', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await putBack()
    await current().services.sql`
      update anchored_heads set policy_version = ${Number.MAX_SAFE_INTEGER} where tenant_id = ${tenant_id}`
    const alarmed = await start()
    expect(alarmed.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('changed outside') }])
    const accepting = acceptRollback(alarmed.services, tenant_id, { reason: 'a drill' })
    await expect(accepting).resolves.toMatchObject({ witnessed_id: 3, policy_version: 2 ** 32 })
    expect((await start()).alarms).toEqual([])
  })

  it('counts for nothing in the alarm about a tenant that is missing, whose audit key could prove it', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await removeAll(current(), tenant_id)
    await current().services.sql`
      update anchored_heads set policy_version = ${Number.MAX_SAFE_INTEGER} where tenant_id = ${tenant_id}`
    const { services } = await start()
    expect(watchesOf(services.committer).get(tenant_id).alarm?.witness).toMatchObject({ last_id: 3, policy_version: 0 })
  })
})

describe('the time of the newest anchor', () => {
  it('is that of an entry which a server wrote: a later one does not put the next anchor off', async () => {
    await twoTenants()
    await anchor(current())
    const { sql, installationKey } = current().services
    const time = await readAnchorTime(sql, installationKey)
    expect(time).toEqual((await readAnchor(sql, installationKey))?.entry.created_at)
    await sql`
      insert into audit_log select tenant_id, id + 1, action, key_id, key_version, actor, ip_address, metadata,
        created_at + interval '1 day', hash, mac
      from audit_log where action = 'installation.anchor'`
    expect(await readAnchorTime(sql, installationKey)).toBeUndefined()
  })
})

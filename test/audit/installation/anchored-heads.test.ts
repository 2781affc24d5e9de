// The installation's anchors over the heads of all tenants: what no tenant can lose alone. The attacker has the whole database and no key.

import { text } from 'node:stream/consumers'
import { INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { anchorLeaf, merkleRoot } from '../../../packages/audit/src/formats/merkle.js'
import { readAuditCheckpoint, verifyAudit } from '../../../packages/server/src/core/api/audit.js'
import { exportAudit } from '../../../packages/server/src/core/api/audit-export.js'
import type { ToLink } from '../../../packages/server/src/core/audit/guard.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import type { Sql } from '../../../packages/server/src/core/store/db.js'
import { type AnchorOptions, anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { recordAlone } from '../../../packages/server/src/guard/installation-log.js'
import { acceptLostTenant } from '../../../packages/server/src/guard/operations/accept.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { readAnchor } from '../../../packages/server/src/guard/watch/newest-anchor.js'
import { verifyAll } from '../../../packages/server/src/operate/jobs/verify-all.js'
import { type Server, serverOf } from '../../support/audit/audit-scene.js'
import { exchangeEntry } from '../../support/audit/exchanged-entry.js'
import { answering } from '../../support/database/answering.js'
import type { Caller, Service } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'
import {
  actions,
  anchor,
  compare,
  copyAll,
  coveredHead,
  entries,
  invalid,
  removeAll,
  setInstallationScene,
  verify,
} from './installation-scene.js'

type Row = { last_id: number; hash: Uint8Array; policy_version: number; created_at: string; mac: Uint8Array }

const GONE = /missing from the database/
const WENT_BACK = /went back/

const { start, current, twoTenants } = setInstallationScene()

describe('an anchor', () => {
  it('covers the heads of all tenants, and is written only if one of them changed', async () => {
    const { victim, other } = await twoTenants()
    const running = current()
    expect(await anchor(running)).toBe(true)
    expect(await anchor(running)).toBe(false)
    const { sql, installationKey } = running.services
    const heads = await sql<{ tenant_id: string; last_id: number; hash: Uint8Array }[]>`
      select tenant_id, last_id, hash from heads where tenant_id <> ${INSTALLATION_ID} order by tenant_id`
    expect(heads.map(({ tenant_id }) => tenant_id)).toEqual([victim, other].map((of) => of.tenant.tenant_id).sort())
    const found = await readAnchor(sql, installationKey)
    expect(found?.heads).toMatchObject(heads.map(({ tenant_id, last_id }) => ({ tenant_id, last_id })))
    const root = Buffer.from(merkleRoot(heads.map(anchorLeaf))).toString('hex')
    expect((await entries(running)).at(-1)?.metadata).toEqual({ root, tenants: 2 })
    await victim.call('POST', '/v1/keys', { name: 'more' })
    expect(await anchor(running)).toBe(true)
  })

  it('is not written while a head is put back, by a server that knows better, nor by a command that finds more entries', async () => {
    const { victim } = await twoTenants()
    const running = current()
    expect(await anchor(running)).toBe(true)
    const { tenant_id } = victim.tenant
    const { sql } = running.services
    const [older] = await sql<Row[]>`select * from heads where tenant_id = ${tenant_id}`
    await victim.call('POST', '/v1/keys', { name: 'more' })
    const [newer] = await sql<Row[]>`select * from heads where tenant_id = ${tenant_id}`
    const put = (head: Row | undefined) => sql`
      update heads set last_id = ${head?.last_id ?? 0}, hash = ${head?.hash ?? null}, policy_version = ${head?.policy_version ?? 0},
                       created_at = ${head?.created_at ?? null}, mac = ${head?.mac ?? null} where tenant_id = ${tenant_id}`
    const before = await readAnchor(sql, running.services.installationKey)
    const behind = /no anchor is written: the head of tenant \S+ is of entry \d+, and entry \d+ was written/

    await put(older)
    const { services: command } = serverOf(running as unknown as Service) // has witnessed nothing
    await expect(anchorNow(command, { evenIfSame: true })).rejects.toThrow(behind)
    const tail = await sql`select * from audit_log where tenant_id = ${tenant_id} and id > ${older?.last_id ?? 0}`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${older?.last_id ?? 0}`
    await expect(anchor(running, { evenIfSame: true })).rejects.toThrow(behind)
    await sql`insert into audit_log ${sql(tail)}`
    await put(newer)

    expect(await readAnchor(sql, running.services.installationKey)).toEqual(before)
    expect(await anchor(running)).toBe(true)
    expect((await coveredHead(running, tenant_id))?.last_id).toBe(newer?.last_id)
  })

  it.each<[string, (sql: Service['services']['sql'], victim: string, other: string) => PromiseLike<unknown>, RegExp]>([
    [
      'was not written by a server',
      (sql, victim) => sql`update heads set mac = '\\x00' where tenant_id = ${victim}`,
      /no anchor is written: the head of tenant \S+ was not written by a server/,
    ],
    [
      'is missing',
      (sql, victim) => sql`delete from heads where tenant_id = ${victim}`,
      /no anchor is written: tenant \S+ or its head is missing/,
    ],
    [
      'is that of another tenant',
      (sql, victim, other) => sql`
        update heads as h set (last_id, hash, policy_version, created_at, mac) =
          (select o.last_id, o.hash, o.policy_version, o.created_at, o.mac from heads as o where o.tenant_id = ${other})
        where h.tenant_id = ${victim}`,
      /no anchor is written: the head of tenant \S+ was not written by a server/,
    ],
    [
      'is missing together with the row of the tenant',
      (sql, victim) => sql`
        with gone as (delete from heads where tenant_id = ${victim}) delete from tenants where tenant_id = ${victim}`,
      /no anchor is written: tenant \S+ or its head is missing/,
    ],
  ])('is not written by a command for which the head of a tenant %s', async (_, disturb, message) => {
    const { victim, other } = await twoTenants()
    const running = current()
    await anchor(running)
    await victim.call('POST', '/v1/keys', { name: 'more' })
    for (const name of ['more', 'most']) await other.call('POST', '/v1/keys', { name })
    const { sql, installationKey } = running.services
    const before = await readAnchor(sql, installationKey)
    const { services: command } = serverOf(running as unknown as Service) // has witnessed nothing
    await disturb(sql, victim.tenant.tenant_id, other.tenant.tenant_id)
    await expect(anchorNow(command, { evenIfSame: true })).rejects.toThrow(message)
    await expect(anchorNow(command, { evenIfSame: true })).rejects.toThrow(victim.tenant.tenant_id)
    expect((await readAnchor(sql, installationKey))?.entry).toEqual(before?.entry)
  })

  it('is not written by a command while there is an alarm about a tenant', async () => {
    const { victim } = await twoTenants()
    const { services } = current()
    const { tenant_id } = victim.tenant
    watchesOf(services.committer).get(tenant_id).learn({ reason: 'a drill', witness: undefined })
    await expect(anchorNow(services, { evenIfSame: true })).rejects.toThrow(
      `no anchor is written: there is an alarm about tenant ${tenant_id}: a drill`,
    )
  })

  it('does not cover a head that the server did not write, and keeps what it covered of a log that went back', async () => {
    const { victim, putBack } = await twoTenants()
    await anchor(await start())
    const covered = async () => (await coveredHead(current(), victim.tenant.tenant_id))?.last_id
    expect(await covered()).toBe(3)
    const running = current()
    await running.services.sql`
      update heads set last_id = 99, mac = ${Buffer.alloc(32, 1)} where tenant_id = ${victim.tenant.tenant_id}`
    const left: string[] = []
    const options: AnchorOptions = { evenIfSame: true, onLeft: (tenant_id) => void left.push(tenant_id) }
    await anchor(running, options)
    expect(await covered()).toBe(3)
    await putBack()
    await anchor(running, options)
    expect(await covered()).toBe(3)
    expect(left).toEqual([victim.tenant.tenant_id, victim.tenant.tenant_id])
    expect(running.alarms).toMatchObject([{ tenant_id: victim.tenant.tenant_id }])
  })
})

describe('a tenant alone', () => {
  it('that is deleted with all its rows is alarmed about at start, until an operator accepts it', async () => {
    const { victim, other } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await removeAll(current(), tenant_id)
    let running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    expect((await running.caller(other.secret).call('GET', '/v1/keys')).status).toBe(200)
    const health = await fetch(`${running.url}/health`)
    expect(await health.json()).toMatchObject({ status: 'degraded', database: 'alarm' })
    expect(await invalid(running)).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    await running.services.sql`delete from chain_alarms`
    running = await start()
    expect(running.alarms).toHaveLength(1)
    await acceptLostTenant(running.services, tenant_id, 'a drill')
    running = await start()
    expect(running.alarms).toEqual([])
    expect((await actions(running)).slice(-2)).toEqual(['tenant_gone', 'anchor'])
    expect((await entries(running)).at(-2)?.metadata).toMatchObject({ tenant_id, witnessed_id: 3, reason: 'a drill' })
    expect((await verifyAll(running.services)).verdicts.every(({ valid }) => valid)).toBe(true)
  })

  it('that is deleted with all its rows is alarmed about at start, also if its creation is edited', async () => {
    const { victim, other } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await other.call('POST', '/v1/keys', { name: 'more' })
    await anchor(current()) // what is before it is not read at start
    await removeAll(current(), tenant_id)
    await current().services.sql`
      update audit_log set metadata = replace(metadata, ${tenant_id}, ${other.tenant.tenant_id})
      where action = 'installation.tenant_create'`
    const { alarms, services } = await start()
    expect(alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    expect(await invalid({ services })).toMatchObject([{ tenant_id: INSTALLATION_ID }, { tenant_id }])
  })

  const addKey = async (server: { call: Server['call'] }, { secret }: Caller, name: string) =>
    (await server.call(secret, 'POST', '/v1/keys', { name })).status
  const callOf = (service: Service): Pick<Server, 'call'> => ({
    call: (secret, method, path, body) => service.caller(secret).call(method, path, body),
  })

  it('that was not used yet is alarmed about when it is put back after the comparison at start', async () => {
    const { victim, putBack } = await twoTenants()
    await anchor(current())
    const running = await start()
    await putBack()
    expect(await addKey(callOf(running), victim, 'of a fork')).toBe(500)
    expect(running.alarms).toMatchObject([{ reason: expect.stringMatching(WENT_BACK) }])
  })

  it('whose log was forked before the anchored entry is alarmed about at start, whatever is shown in its place', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    const { sql } = current().services
    const [lost] = await sql<Row[]>`select hash from audit_log where tenant_id = ${tenant_id} and id = 3`
    await putBack()
    const forking = serverOf(current()) // has witnessed nothing
    for (const name of ['of a fork', 'of it too']) expect(await addKey(forking, victim, name)).toBe(201)
    await sql`update audit_log set hash = ${lost?.hash ?? null} where tenant_id = ${tenant_id} and id = 3`
    const { alarms } = await start()
    expect(alarms).toMatchObject([
      { tenant_id, reason: expect.stringContaining('entry 4 of the audit chain does not follow') },
    ])
  })

  it('is alarmed about when it is put back to what a server saw of it last, before what another one anchored since', async () => {
    const { victim, putBack } = await twoTenants()
    const running = current()
    await putBack()
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
    const other = serverOf(running)
    expect(await addKey(other, victim, 'more')).toBe(201)
    await anchorNow(other.services)
    expect(await compare(running)).toEqual([])
    await putBack()
    expect(await addKey(callOf(running), victim, 'of a fork')).toBe(500)
    expect(running.alarms).toMatchObject([{ reason: expect.stringContaining('went back from entry 3 to 2') }])
  })

  it('is alarmed about when a log without what a server wrote was continued by another one, which anchored that', async () => {
    const { victim, putBack } = await twoTenants()
    const running = current()
    expect(await addKey(callOf(running), victim, 'lost')).toBe(201)
    await putBack()
    const other = serverOf(running)
    for (const name of ['of', 'a', 'fork']) expect(await addKey(other, victim, name)).toBe(201)
    await anchorNow(other.services)
    expect(await compare(running)).toEqual([])
    expect(await addKey(callOf(running), victim, 'more')).toBe(500)
    expect(running.alarms).toMatchObject([{ reason: expect.stringContaining('entry 4 of the audit chain differs') }])
  })

  it('is not alarmed about when the database fails while its log is compared: that error is returned', async () => {
    const { victim, putBack } = await twoTenants()
    await anchor(current())
    await putBack()
    const process = serverOf(current()) // has witnessed nothing
    const lost = new Error('the connection was lost')
    expect(await compare(process, () => Promise.reject(lost))).toEqual([lost])
    expect(watchesOf(process.services.committer).get(victim.tenant.tenant_id).alarm).toBeUndefined()
    expect(process.alarms).toEqual([])
  })

  it('whose log cannot be read to its end is named by the verification of every log, which goes on with the others', async () => {
    const { victim, other } = await twoTenants()
    const { services } = current()
    const { tenant_id } = victim.tenant
    const error = new Error('connection lost')
    const verifyLog: typeof services.verifyLog = (options) =>
      options.tenant_id === tenant_id ? Promise.reject(error) : services.verifyLog(options)
    const { verdicts, unverified } = await verifyAll({ ...services, verifyLog })
    expect(unverified).toEqual([{ tenant_id, name: victim.tenant.name, error }])
    expect(verdicts.map(({ tenant_id, valid }) => [tenant_id, valid])).toEqual([
      [INSTALLATION_ID, true],
      [other.tenant.tenant_id, true],
    ])
  })

  it('is not accepted as gone while it is in the database, nor while only its row is missing', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    const refusal = { code: 'E_STATE', message: expect.stringContaining(`tenant ${tenant_id} is in the database`) }
    await expect(acceptLostTenant(current().services, tenant_id, 'a drill')).rejects.toMatchObject(refusal)
    await anchor(current())
    await removeAll(current(), tenant_id)
    const { services } = await start()
    const accept = () => acceptLostTenant(services, tenant_id, 'a drill')
    await putBack()
    await expect(accept()).rejects.toMatchObject(refusal)
    await services.sql`delete from tenants where tenant_id = ${tenant_id}`
    await expect(accept()).rejects.toMatchObject({ code: 'E_STATE', message: expect.stringContaining('but no row') })
    await removeAll(current(), tenant_id)
    expect(await accept()).toMatchObject({ tenant_id, witnessed_id: 3 })
  })

  it('that was accepted as gone is alarmed about when an older state of it is put back, and not when it is the last one', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    const last = await copyAll(current(), tenant_id)
    await removeAll(current(), tenant_id)
    let running = await start()
    await acceptLostTenant(running.services, tenant_id, 'a drill')
    const metadata = { tenant_id, is_alarm_proven: true, witnessed_id: 3 }
    expect((await entries(running)).at(-2)?.metadata).toMatchObject(metadata)
    expect((await start()).alarms).toEqual([])

    await putBack()
    running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(WENT_BACK) }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    expect(await invalid(running)).toMatchObject([{ tenant_id, reason: 'behind_checkpoint' }])
    await removeAll(running, tenant_id)
    await running.services.sql`delete from chain_alarms`

    await last(current())
    running = await start()
    expect(running.alarms).toEqual([])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
  })

  it('that was accepted as gone by an alarm that somebody edited is alarmed about in any state, until an operator accepts it', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    const last = await copyAll(current(), tenant_id)
    await removeAll(current(), tenant_id)
    let running = await start()
    await running.services.sql`update chain_alarms set last_id = 1 where tenant_id = ${tenant_id}`
    const lost = await acceptLostTenant(running.services, tenant_id, 'a drill')
    expect(lost).toMatchObject({ is_alarm_proven: false, witnessed_id: 3 })
    expect((await start()).alarms).toEqual([])
    await last(current())
    running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('was put back') }])
    await acceptRollback(running.services, tenant_id, { reason: 'a drill' })
    expect((await start()).alarms).toEqual([])
  })

  it('is accepted as gone with the latest that the process that accepts it knows, as by a checkpoint file', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await removeAll(current(), tenant_id)
    const { services } = await start()
    const hash = new Uint8Array(32).fill(7)
    watchesOf(services.committer).get(tenant_id).held.remember({ last_id: 9, hash, policy_version: 0 })
    const accept = () => acceptLostTenant(services, tenant_id, 'a drill')
    const [row] = await services.sql`delete from chain_alarms returning *`
    await expect(accept()).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining('not be written'),
    })
    await services.sql`insert into chain_alarms ${services.sql(row ?? {})}`
    expect(await accept()).toMatchObject({ is_alarm_proven: true, witnessed_id: 9, witnessed_hash: '07'.repeat(32) })
  })

  it.each([
    [
      'deleted',
      (sql: Service['services']['sql']) => sql`delete from audit_log where action = 'installation.tenant_gone'`,
    ],
    [
      'renamed',
      (sql: Service['services']['sql']) => sql`
        update audit_log set action = 'installation.doctor' where action = 'installation.tenant_gone'`,
    ],
    [
      'followed by a creation that no server wrote',
      (sql: Service['services']['sql']) => sql`
        update audit_log set action = 'installation.tenant_create', metadata = (
          select metadata from audit_log where action = 'installation.tenant_gone')
        where action = 'installation.anchor' and id = (
          select min(id) from audit_log where action = 'installation.anchor' and id > (
            select id from audit_log where action = 'installation.tenant_gone'))`,
    ],
  ])(
    'that was accepted as gone is alarmed about when an older state of it is put back and the entry is %s',
    async (_, hide) => {
      const { victim, other, putBack } = await twoTenants()
      const { tenant_id } = victim.tenant
      await anchor(current())
      await removeAll(current(), tenant_id)
      await acceptLostTenant((await start()).services, tenant_id, 'a drill')
      const running = await start()
      expect(running.alarms).toEqual([])
      // The newest anchor is not the one of the acceptance: what is before it is not read at start.
      await running.caller(other.secret).call('POST', '/v1/keys', { name: 'more' })
      await anchor(running)
      await putBack()
      await hide(running.services.sql)
      const alarmed = await start()
      expect(alarmed.alarms).toMatchObject([
        { tenant_id, reason: expect.stringContaining('does not cover the tenant') },
      ])
      expect((await alarmed.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
      expect((await alarmed.caller(other.secret).call('GET', '/v1/keys')).status).toBe(200)
      expect(await invalid(alarmed)).toMatchObject([{ tenant_id: INSTALLATION_ID }, { tenant_id }])
    },
  )

  it('that was accepted as gone, when nothing was known of it, is alarmed about when it is back, until an operator accepts it', async () => {
    const running = await start()
    await running.createTenant()
    await anchor(running)
    const { tenant, secret } = await running.createTenant()
    const { tenant_id } = tenant
    const putBack = await copyAll(running, tenant_id)
    await removeAll(running, tenant_id)
    await acceptLostTenant((await start()).services, tenant_id, 'a drill')
    await start()
    await putBack(current())
    const alarmed = await start()
    expect(alarmed.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('was put back') }])
    expect(await invalid(alarmed)).toMatchObject([{ tenant_id }])
    await acceptRollback(alarmed.services, tenant_id, { reason: 'a drill' })
    const served = await start()
    expect(served.alarms).toEqual([])
    expect((await served.caller(secret).call('GET', '/v1/keys')).status).toBe(200)
  })

  it('that the log has no creation of is alarmed about, and so is one whose creation was edited', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    const { sql } = current().services
    const edit = (from: string, to: string) => sql`
      update audit_log set metadata = replace(metadata, ${from}, ${to}) where action = 'installation.tenant_create'`
    const other = '00000000-0000-4000-8000-000000000000'
    await edit(tenant_id, other)
    const running = await start()
    expect(running.alarms).toMatchObject([
      { tenant_id: other, reason: expect.stringMatching(GONE) },
      { tenant_id, reason: expect.stringContaining('no creation of the tenant') },
    ])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    for (const metadata of ['{"', '{"tenant_id":"acme"}']) {
      await current().services
        .sql`update audit_log set metadata = ${metadata} where action = 'installation.tenant_create'`
      const { alarms, services } = await start()
      expect(alarms).toHaveLength(3)
      const { verdicts } = await verifyAll(services)
      expect(verdicts).toContainEqual(
        expect.objectContaining({ tenant_id: INSTALLATION_ID, valid: false, reason: 'entry_altered' }),
      )
    }
  })

  it('that was created after the newest anchor and is deleted with all its rows is alarmed about too', async () => {
    const running = await start()
    await running.createTenant()
    await anchor(running)
    const { tenant } = await running.createTenant()
    await removeAll(running, tenant.tenant_id)
    expect((await start()).alarms).toMatchObject([{ tenant_id: tenant.tenant_id, reason: expect.stringMatching(GONE) }])
  })

  it('that was created after the newest anchor and is deleted is not taken for gone by an entry that no server wrote after the head', async () => {
    const running = await start()
    await running.createTenant()
    await anchor(running)
    const { tenant } = await running.createTenant()
    await removeAll(running, tenant.tenant_id)
    await running.services.sql`
      insert into audit_log select tenant_id, id + 1, 'installation.tenant_gone', key_id, key_version, actor, ip_address, metadata, created_at, hash, mac
      from audit_log where action = 'installation.tenant_create' order by id desc limit 1`
    const reason = expect.stringContaining("the installation's log is not valid: entry_beyond_head")
    expect((await start()).alarms).toMatchObject([{ tenant_id: INSTALLATION_ID, reason }])
  })

  it('that is put back is alarmed about at start, and its verification names what is missing', async () => {
    const { victim, other, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    const before = await start()
    await anchor(before)
    await putBack()
    expect(await verify(before, tenant_id)).toMatchObject({ valid: false, reason: 'behind_checkpoint', broken_at: 3 })
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(WENT_BACK) }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(500)
    expect((await running.caller(other.secret).call('GET', '/v1/keys')).status).toBe(200)
    expect(await verify(running, tenant_id)).toMatchObject({ valid: false, reason: 'behind_checkpoint', broken_at: 3 })
  })

  it('that is put back and has grown to another history is named by its verification, and exported by no server that compares it', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await putBack()
    const rival = serverOf(current()) // which knows of no anchor
    expect((await rival.call(victim.secret, 'POST', '/v1/keys', { name: 'another' })).status).toBe(201)
    const answer = await rival.call(victim.secret, 'GET', '/v1/audit/verify')
    expect(answer.body).toMatchObject({ valid: false, reason: 'checkpoint_mismatch', broken_at: 3 })
    await rival.app.close()
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('entry 3') }])
    expect((await running.caller(victim.secret).call('GET', '/v1/audit/export')).status).toBe(500)
    expect(await verify(running, tenant_id)).toMatchObject({
      valid: false,
      reason: 'checkpoint_mismatch',
      broken_at: 3,
    })
  })

  it('that is put back is shown by a checkpoint of it that was kept, in what a server exports that compares no anchor', async () => {
    const { victim, putBack } = await twoTenants()
    const { checkpoint, public_key: publicKey } = (await victim.call('GET', '/v1/audit/checkpoint')).body
    await anchor(current())
    await putBack()
    const rival = serverOf(current())
    for (const written of ['nothing', 'as much', 'more']) {
      if (written !== 'nothing') await rival.call(victim.secret, 'POST', '/v1/keys', { name: written })
      const file = Buffer.from((await rival.call(victim.secret, 'GET', '/v1/audit/export')).body as string)
      expect(await verifyByBoth({ file, publicKey })).toMatchObject({ valid: true, whole: true })
      expect([written, await verifyByBoth({ file, publicKey, checkpoint })]).toMatchObject([written, { valid: false }])
    }
    await rival.app.close()
  })

  it("that is put back together with the installation's log and its anchored heads is shown by a kept checkpoint of either log alone", async () => {
    const { victim } = await twoTenants()
    const logs = [victim.tenant.tenant_id, INSTALLATION_ID]
    const running = current()
    const { sql } = running.services
    await anchor(running)
    const heads = await sql`select * from anchored_heads`
    const older = [await copyAll(running, victim.tenant.tenant_id), await copyAll(running, INSTALLATION_ID)]
    await victim.call('POST', '/v1/keys', { name: 'lost' })
    await anchor(running)
    const kept = []
    for (const id of logs) kept.push(await performAsSystem(running.services, id, readAuditCheckpoint()))

    for (const id of logs) await removeAll(running, id)
    for (const insert of older) await insert(running)
    await sql`delete from anchored_heads`
    await sql`insert into anchored_heads ${sql(heads)}`
    const { alarms, services } = await start()
    expect(alarms).toEqual([])
    expect((await verifyAll(services)).verdicts.map(({ valid }) => valid)).toEqual([true, true, true])
    for (const [at, { checkpoint, public_key: publicKey }] of kept.entries()) {
      const id = logs[at] ?? ''
      const verified = await performAsSystem(services, id, verifyAudit({ checkpoint }))
      expect(verified).toMatchObject({ valid: false, reason: 'behind_checkpoint' })
      const file = Buffer.from(await text(await performAsSystem(services, id, exportAudit({}))))
      expect(await verifyByBoth({ file, publicKey })).toMatchObject({ valid: true, whole: true })
      expect(await verifyByBoth({ file, publicKey, checkpoint })).toMatchObject({ valid: false })
    }
  })

  it('that was put back is served again, and verifies, once an operator accepted it, and both logs say so', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await putBack()
    const alarmed = await start()
    expect(alarmed.alarms).toHaveLength(1)
    await acceptRollback(alarmed.services, tenant_id, { reason: 'a drill' })
    const running = await start()
    expect(running.alarms).toEqual([])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
    expect(await verify(running, tenant_id)).toMatchObject({ valid: true })
    expect((await actions(running)).slice(-2)).toEqual(['rollback_accepted', 'anchor'])
    await putBack() // what was accepted once is no permission to go back again
    expect((await start()).alarms).toMatchObject([{ tenant_id }])
  })

  it.each([
    ['what was witnessed', { last_id: 9, hash: new Uint8Array(32), policy_version: 1 }, 'behind_checkpoint'],
    [
      'nothing that can be believed',
      undefined,
      expect.stringMatching(/^the log itself verifies, but an alarm .*: a drill$/),
    ],
  ])('that is alarmed about is not valid among all: the alarm has %s', async (_, witness, reason) => {
    const { victim } = await twoTenants()
    const { services } = current()
    const { tenant_id } = victim.tenant
    expect((await verifyAll(services)).verdicts.map(({ valid }) => valid)).toEqual([true, true, true])
    watchesOf(services.committer).get(tenant_id).learn({ reason: 'a drill', witness })
    expect(await invalid({ services })).toMatchObject([{ tenant_id, reason }])
  })

  it('that has another entry in the place of the anchored one is alarmed about', async () => {
    const { victim } = await twoTenants()
    const running = current()
    const { tenant_id } = victim.tenant
    await anchor(running)
    await running.services.sql`
      update audit_log set hash = ${Buffer.alloc(32, 1)} where tenant_id = ${tenant_id} and id = 3`
    await victim.call('POST', '/v1/keys', { name: 'behind it' })
    expect((await start()).alarms).toMatchObject([{ tenant_id }])
  })
})

describe('the anchored heads', () => {
  it.each([
    ['edited', (sql: Service['services']['sql']) => sql`update anchored_heads set last_id = last_id - 1`],
    ['deleted', (sql: Service['services']['sql']) => sql`delete from anchored_heads`],
    [
      'put at other values than a head has',
      (sql: Service['services']['sql']) => sql`update anchored_heads set hash = ''`,
    ],
    [
      'left behind by the anchor that is renamed',
      (sql: Service['services']['sql']) => sql`
        update audit_log set action = 'installation.start' where action = 'installation.anchor'`,
    ],
    [
      'left behind by an anchor of another root',
      (sql: Service['services']['sql']) => sql`
        update audit_log set metadata = replace(metadata, '"tenants":2', '"tenants":3') where action = 'installation.anchor'`,
    ],
  ])("raise an alarm about the installation's log if they are %s, which an operator ends", async (_, attack) => {
    const { victim } = await twoTenants()
    await anchor(current())
    await attack(current().services.sql)
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
    await expect(running.createTenant()).rejects.toThrow()
  })

  it('that somebody edited fail the verification of every log and cover no export, and a tenant verifies without them', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    const { services } = current()
    await anchor(current())
    const exported = async () => text(await performAsSystem(services, tenant_id, exportAudit({ withAnchor: true })))
    expect(await exported()).toContain('"anchor":{')
    await services.sql`update anchored_heads set last_id = last_id - 1`
    const reason = expect.stringContaining('the anchored heads are not those of the newest anchor')
    const { verdicts, unverified } = await verifyAll(services)
    expect(verdicts).toMatchObject([
      { tenant_id: INSTALLATION_ID, valid: false, reason },
      { valid: true },
      { valid: true },
    ])
    expect(unverified).toEqual([])
    expect(await verify(current(), tenant_id)).toMatchObject({ valid: true })
    expect(await exported()).not.toContain('"anchor":{')
  })

  it('cover no export while the anchor is a genuine one of another history, which does not lead to the head', async () => {
    const { victim } = await twoTenants()
    const { services } = current()
    const { sql, installationKey: auditKey } = services
    await anchor(current())
    const id = (await entries(current())).at(-1)?.id ?? 0
    await recordAlone(services, [{ action: 'installation.export', metadata: {} }])
    const exported = async () =>
      text(await performAsSystem(services, victim.tenant.tenant_id, exportAudit({ withAnchor: true })))
    expect(await exported()).toContain('"anchor":{')
    await exchangeEntry(sql, { tenant_id: INSTALLATION_ID, id, auditKey })
    expect(await exported()).not.toContain('"anchor":{')
  })

  it('are in no export, and linked to no checkpoint, while an entry before the anchor is not as the server wrote it', async () => {
    const { victim } = await twoTenants()
    const { services } = current()
    await anchor(current())
    const exported = async (toLink: ToLink) =>
      text(await performAsSystem(services, victim.tenant.tenant_id, exportAudit({ withAnchor: true, toLink })))
    const known = { known: [1], demanded: [] }
    const demanded = { known: [], demanded: [1] }
    expect(await exported(known)).toContain('\n{"tree":')
    expect(await exported(demanded)).toContain('\n{"tree":')
    expect(await exported({ known: [], demanded: [] })).not.toContain('{"tree":')
    await services.sql`update audit_log set actor = 'x' where tenant_id = ${INSTALLATION_ID} and id = 1`
    expect(await exported(known)).not.toMatch(/"installation":|^\{"anchor"/m)
    await expect(exported(demanded)).rejects.toThrow("entry 1 of the installation's log was altered")
    await services.sql`delete from anchored_heads`
    await expect(exported(demanded)).rejects.toThrow('or have one written with eaas audit checkpoint --installation')
  })

  it('are not covered by a new anchor if somebody edits them after they were compared', async () => {
    const { victim } = await twoTenants()
    const running = current()
    await anchor(running)
    await victim.call('POST', '/v1/keys', { name: 'more' })
    await running.services.sql`update anchored_heads set last_id = last_id - 1`
    await expect(anchor(running)).rejects.toThrow('the anchored heads are not those of the newest anchor')
    expect((await start()).alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
  })

  it('are written afresh once an operator accepted what happened to them', async () => {
    await twoTenants()
    await anchor(current())
    await current().services.sql`update anchored_heads set hash = ''`
    const alarmed = await start()
    await acceptRollback(alarmed.services, INSTALLATION_ID, { reason: 'a drill' })
    const running = await start()
    expect(running.alarms).toEqual([])
    expect((await verifyAll(running.services)).verdicts.map(({ valid }) => valid)).toEqual([true, true, true])
    await running.createTenant()
  })

  it('that are lost hide no tenant that is deleted: the log still has its creation', async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(current())
    await removeAll(current(), tenant_id)
    await current().services.sql`delete from anchored_heads`
    const alarmed = await start()
    await acceptRollback(alarmed.services, INSTALLATION_ID, { reason: 'a drill' })
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    expect(await invalid(running)).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    await acceptLostTenant(running.services, tenant_id, 'a drill')
    expect((await start()).alarms).toEqual([])
  })

  it.each([
    ['which is there still', false],
    ['which is hidden', true],
  ])('are replaced by those of an anchor before the newest one in vain, %s', async (_, isHidden) => {
    const { victim, putBack } = await twoTenants()
    const running = await start()
    const { sql } = running.services
    await anchor(running)
    const older = await sql`select * from anchored_heads`
    await running.caller(victim.secret).call('POST', '/v1/keys', { name: 'more' })
    await anchor(running)
    await sql`delete from anchored_heads`
    await sql`insert into anchored_heads ${sql(older)}`
    if (isHidden) {
      await sql`
        update audit_log set action = 'installation.verify'
        where id = (select max(id) from audit_log where action = 'installation.anchor') and action = 'installation.anchor'`
    }
    await putBack()
    expect((await start()).alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
  })

  /** Has another id found as that of the newest anchor. */
  const finding = (id: number, sql: Sql) => answering(sql, /^\s*select id from audit_log \?\s*$/, async () => [{ id }])

  it.each<[string, (sql: Sql, id: number) => PromiseLike<unknown>, fault: string]>([
    ['the one before is found', async () => undefined, 'is not the newest anchor'],
    [
      'its action is edited',
      (sql, id) => sql`
        update audit_log set action = 'installation.verify' where action = 'installation.anchor' and id > ${id}`,
      'does not lead from',
    ],
    [
      'a head of before it is written',
      (sql, id) => sql`
        update heads as h set last_id = e.id, hash = e.hash from audit_log as e
        where h.tenant_id = e.tenant_id and e.tenant_id = ${INSTALLATION_ID} and e.id = ${id}`,
      'not as the server wrote it',
    ],
  ])(
    'are replaced in vain by those of an anchor before the newest one, also if %s for the moment of the comparison or of the next anchor',
    async (_, edit, fault) => {
      const { victim } = await twoTenants()
      const running = current()
      const { sql, installationKey } = running.services
      await anchor(running)
      const older = await sql`select * from anchored_heads`
      const found = await readAnchor(sql, installationKey)
      await victim.call('POST', '/v1/keys', { name: 'more' })
      await anchor(running)
      await sql`delete from anchored_heads`
      await sql`insert into anchored_heads ${sql(older)}`
      const id = found?.entry.id ?? expect.unreachable()
      await edit(sql, id)
      const shown = () => {
        const { services } = serverOf(running) // has witnessed nothing
        return { ...services, sql: finding(id, services.sql) }
      }
      const comparing = shown()
      await compare({ services: comparing })
      expect(watchesOf(comparing.committer).get(INSTALLATION_ID).alarm?.reason).toContain(fault)
      const anchoring = shown()
      await expect(anchorNow(anchoring, { evenIfSame: true })).rejects.toThrow(fault)
      expect(watchesOf(anchoring.committer).get(INSTALLATION_ID).alarm?.reason).toContain(fault)
    },
  )
})

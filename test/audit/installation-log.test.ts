// The installation's own log: what it records, its anchors over all tenants, and what no tenant can lose alone. The attacker has the
// whole database and no key.
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, describe, expect, it } from 'vitest'
import { anchorLeaf, merkleRoot } from '../../packages/server/src/audit/merkle.js'
import { readAnchor } from '../../packages/server/src/audit/newest-anchor.js'
import { createScheduledVerification } from '../../packages/server/src/jobs/scheduled-verification.js'
import { verifyAll } from '../../packages/server/src/jobs/verify-all.js'
import { acceptLostTenant } from '../../packages/server/src/operations/accept-lost-tenant.js'
import { acceptRollback } from '../../packages/server/src/operations/accept-rollback.js'
import { deleteTenant } from '../../packages/server/src/operations/delete-tenant.js'
import { listAudit } from '../../packages/server/src/operations/list-audit.js'
import { suspendTenant } from '../../packages/server/src/operations/suspend-tenant.js'
import { verifyAudit } from '../../packages/server/src/operations/verify-audit.js'
import { type AnchorOptions, anchorNow } from '../../packages/server/src/runner/anchor-heads.js'
import { performAsSystem } from '../../packages/server/src/runner/perform.js'
import { listTenants } from '../../packages/server/src/store/tenants.js'
import { type Caller, type Service, startService } from '../support/service.js'

const TABLES = ['tenants', 'heads', 'audit_log', 'audit_counts', 'purge_marks', 'keys', 'key_versions', 'api_keys']
const GONE = /missing from the database/
const WENT_BACK = /went back/

let service: Service | undefined
afterEach(async () => {
  await service?.close()
  service = undefined
})

/** Starts the first service, or another one on the same database after closing the first, which has then witnessed nothing. */
async function start(): Promise<Service> {
  const database = service?.database
  await service?.close()
  service = await startService(database ? { database } : {})
  return service
}

const anchor = ({ services }: Service, options?: AnchorOptions) => anchorNow(services, options)

async function entries({ services }: Service) {
  const page = { limit: 100, offset: 0, order: 'asc' as const }
  return (await performAsSystem(services, INSTALLATION_ID, listAudit({}, page))).logs as unknown as {
    id: number
    action: string
    actor: string
    metadata: Record<string, unknown>
  }[]
}

async function actions(of: Service): Promise<string[]> {
  return (await entries(of)).map(({ action }) => action.replace('installation.', ''))
}

const verify = ({ services }: Service, tenant_id: string) => performAsSystem(services, tenant_id, verifyAudit({}))

const removeAll = ({ services: { sql } }: Service, tenant_id: string) =>
  sql.begin(async (transaction) => {
    for (const table of TABLES) await transaction`delete from ${sql(table)} where tenant_id = ${tenant_id}`
  })

/** Two tenants with keys; then everything that the first one has is copied, and it goes on. */
async function twoTenants(): Promise<{ victim: Caller; other: Caller; putBack: () => Promise<void> }> {
  const running = await start()
  const [victim, other] = [await running.createTenant(), await running.createTenant()]
  for (const { call } of [victim, other]) await call('POST', '/v1/keys', { name: 'before' })
  const { sql } = running.services
  const { tenant_id } = victim.tenant
  const copies: (readonly [string, Record<string, unknown>[]])[] = []
  for (const table of TABLES) {
    copies.push([table, await sql`select * from ${sql(table)} where tenant_id = ${tenant_id}`])
  }
  for (const { call } of [victim, other]) await call('POST', '/v1/keys', { name: 'after' })
  const putBack = async () => {
    if (!service) throw new Error('there is no service')
    const { sql } = service.services
    await removeAll(service, tenant_id)
    for (const [table, rows] of copies) if (rows.length > 0) await sql`insert into ${sql(table)} ${sql(rows)}`
  }
  return { victim, other, putBack }
}

describe("the installation's log", () => {
  it('begins with the installation, records what is done to tenants, and verifies', async () => {
    const running = await start()
    const { tenant } = await running.createTenant({ name: 'acme' })
    await performAsSystem(running.services, tenant.tenant_id, suspendTenant({ reason: 'not paid' }))
    await deleteTenant(running.services, tenant.tenant_id, { confirm: 'acme' })
    await anchor(running)
    expect(await actions(running)).toEqual(['create', 'tenant_create', 'tenant_suspend', 'tenant_delete', 'anchor'])
    const [, created, suspended] = await entries(running)
    expect(created?.metadata).toEqual({ tenant_id: tenant.tenant_id, name: 'acme', envelope_only: true })
    expect(suspended?.metadata).toMatchObject({ tenant_id: tenant.tenant_id, reason: 'not paid', status: 'suspended' })
    expect(await verify(running, INSTALLATION_ID)).toMatchObject({ valid: true, verified_entries: 5 })
    expect((await start()).alarms).toEqual([])
  })

  it('is no tenant: nothing lists it, and no API key reaches it', async () => {
    const running = await start()
    const { secret } = await running.createTenant()
    expect((await listTenants(running.services.sql)).map(({ tenant_id }) => tenant_id)).not.toContain(INSTALLATION_ID)
    const forged = secret.replace(/^eaas_sk_[0-9a-f]{32}/, `eaas_sk_${'f'.repeat(32)}`)
    for (const path of ['/v1/audit', '/v1/audit/verify', '/v1/audit/export', '/v1/audit/checkpoint', '/v1/tenant']) {
      expect([path, (await running.caller(forged).call('GET', path)).status]).toEqual([path, 401])
    }
    const { sql } = running.services
    for (const table of ['tenants', 'keys', 'api_keys']) {
      const moved = sql`update ${sql(table)} set tenant_id = ${INSTALLATION_ID}`
      const result =
        table === 'keys'
          ? expect(sql`
        insert into keys (tenant_id, key_id, name, algorithm, status, current_version, created_at, updated_at, entry_id, mac)
        values (${INSTALLATION_ID}, ${INSTALLATION_ID}, '', '', '', 1, now(), now(), 1, '')`)
          : expect(moved)
      await result.rejects.toThrow('_not_installation')
    }
  })

  it('is not continued by an operation that is rolled back, and no operation is done without it', async () => {
    const running = await start()
    await running.createTenant({ name: 'taken' })
    await expect(running.createTenant({ name: 'taken' })).rejects.toThrow()
    expect(await actions(running)).toEqual(['create', 'tenant_create'])
    const { sql } = running.services
    await sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${INSTALLATION_ID}`
    await expect(running.createTenant({ name: 'other' })).rejects.toThrow('not written by this server')
    expect(await listTenants(sql)).toHaveLength(1)
  })

  it.each([
    ['its head is missing', 'heads'],
    ['all of it is missing but the head', 'audit_log'],
  ])('is alarmed about at start if %s', async (_, table) => {
    const running = await start()
    await running.createTenant()
    await running.services.sql`delete from ${running.services.sql(table)} where tenant_id = ${INSTALLATION_ID}`
    expect((await start()).alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
  })

  it('cannot be begun anew: without its key nothing starts', async () => {
    const running = await start()
    const { sql } = running.services
    await sql`delete from heads where tenant_id = ${INSTALLATION_ID}`
    await sql`delete from audit_log where tenant_id = ${INSTALLATION_ID}`
    await sql`update instance set wrapped_audit_key = null`
    await expect(start()).rejects.toThrow('missing from the database')
    service = undefined
  })
})

describe('an anchor', () => {
  it('covers the heads of all tenants, and is written only if one of them changed', async () => {
    const { victim, other } = await twoTenants()
    const running = service as Service
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

  it('does not cover a head that the server did not write, and keeps what it covered of a log that went back', async () => {
    const { victim, putBack } = await twoTenants()
    await anchor(await start())
    const covered = async () => {
      const { services } = service as Service
      const { heads } = (await readAnchor(services.sql, services.installationKey)) ?? { heads: [] }
      return heads.find(({ tenant_id }) => tenant_id === victim.tenant.tenant_id)?.last_id
    }
    expect(await covered()).toBe(3)
    const running = service as Service
    await running.services.sql`update heads set last_id = 99 where tenant_id = ${victim.tenant.tenant_id}`
    await anchor(running, { evenIfSame: true })
    expect(await covered()).toBe(3)
    await putBack()
    await anchor(running, { evenIfSame: true })
    expect(await covered()).toBe(3)
    expect(running.alarms).toMatchObject([{ tenant_id: victim.tenant.tenant_id }])
  })
})

describe('a tenant alone', () => {
  it('that is deleted with all its rows is alarmed about at start, until an operator accepts it', async () => {
    const { victim, other } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(service as Service)
    await removeAll(service as Service, tenant_id)
    let running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
    expect((await running.caller(other.secret).call('GET', '/v1/keys')).status).toBe(200)
    const health = await fetch(`${running.url}/health`)
    expect(await health.json()).toMatchObject({ status: 'degraded', database: 'alarm' })
    const { verdicts } = await verifyAll(running.services)
    expect(verdicts.filter(({ valid }) => !valid)).toMatchObject([{ tenant_id, reason: expect.stringMatching(GONE) }])
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

  it('that was created after the newest anchor and is deleted with all its rows is alarmed about too', async () => {
    const running = await start()
    await running.createTenant()
    await anchor(running)
    const { tenant } = await running.createTenant()
    await removeAll(running, tenant.tenant_id)
    expect((await start()).alarms).toMatchObject([{ tenant_id: tenant.tenant_id, reason: expect.stringMatching(GONE) }])
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

  it('that was put back is served again, and verifies, once an operator accepted it, and both logs say so', async () => {
    const { victim, putBack } = await twoTenants()
    const { tenant_id } = victim.tenant
    await anchor(service as Service)
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

  it('that has another entry in the place of the anchored one is alarmed about', async () => {
    const { victim } = await twoTenants()
    const running = service as Service
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
    await anchor(service as Service)
    await attack((service as Service).services.sql)
    const running = await start()
    expect(running.alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
    expect((await running.caller(victim.secret).call('GET', '/v1/keys')).status).toBe(200)
    await expect(running.createTenant()).rejects.toThrow()
  })

  it('are written afresh once an operator accepted what happened to them', async () => {
    await twoTenants()
    await anchor(service as Service)
    await (service as Service).services.sql`update anchored_heads set hash = ''`
    const alarmed = await start()
    await acceptRollback(alarmed.services, INSTALLATION_ID, { reason: 'a drill' })
    const running = await start()
    expect(running.alarms).toEqual([])
    expect((await verifyAll(running.services)).verdicts.map(({ valid }) => valid)).toEqual([true, true, true])
    await running.createTenant()
  })

  it('are replaced by those of an older anchor in vain', async () => {
    const { victim, putBack } = await twoTenants()
    const running = await start()
    const { sql } = running.services
    await anchor(running)
    const older = await sql`select * from anchored_heads`
    await running.caller(victim.secret).call('POST', '/v1/keys', { name: 'more' })
    await anchor(running)
    await sql`delete from anchored_heads`
    await sql`insert into anchored_heads ${sql(older)}`
    await putBack()
    expect((await start()).alarms).toMatchObject([{ tenant_id: INSTALLATION_ID }])
  })
})

describe('the verification by schedule', () => {
  const HOURS = 24
  const { signal } = new AbortController()

  it('is done when it is due, once for all servers, and names the log that is not as it was written', async () => {
    const running = await start()
    let now = Date.now()
    const services = { ...running.services, now: () => now }
    const [verify, onOther] = [0, 1].map(() => createScheduledVerification(services, { hours: HOURS }))
    const { tenant } = await running.createTenant()
    expect(await verify?.(signal)).toBeUndefined()
    now += HOURS * 3_600_000 + 60_000
    expect(await verify?.(signal)).toEqual({ logs: 2, invalid: [], unverified: 0 })
    expect((await entries(running)).at(-1)).toMatchObject({
      action: 'installation.verify',
      actor: 'system',
      metadata: { logs: 2, invalid: 0, unverified: 0 },
    })
    now = Date.now()
    expect(await onOther?.(signal)).toBeUndefined()
    now += HOURS * 3_600_000 + 60_000
    await running.services.sql`update audit_log set actor = 'x' where tenant_id = ${tenant.tenant_id} and id = 1`
    expect(await onOther?.(signal)).toMatchObject({
      logs: 2,
      invalid: [{ tenant_id: tenant.tenant_id, reason: 'entry_altered', broken_at: 1 }],
    })
  })
})

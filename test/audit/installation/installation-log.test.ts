// The installation's own log: what it records, and the verification by schedule that it records. The attacker has the whole database and
// no key.
import { rm } from 'node:fs/promises'
import { INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { findSchemaVersion } from '../../../packages/server/src/core/store/migrations.js'
import { listTenants } from '../../../packages/server/src/core/store/tenants.js'
import { createScheduledVerification } from '../../../packages/server/src/operate/jobs/verify-all.js'
import { deleteTenant } from '../../../packages/server/src/operate/operations/delete-tenant.js'
import { suspendTenant } from '../../../packages/server/src/operators/tenants.js'
import { withMigration } from '../../support/database/migrations.js'
import { actions, anchor, entries, removeAll, setInstallationScene, verify } from './installation-scene.js'

const { start } = setInstallationScene()

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

  it('is no tenant: nothing lists it, and no API key of a tenant reaches it', async () => {
    const running = await start()
    const { secret } = await running.createTenant()
    expect((await listTenants(running.services.sql)).map(({ tenant_id }) => tenant_id)).not.toContain(INSTALLATION_ID)
    const forged = secret.replace(/^eaas_sk_[0-9a-f]{32}/, `eaas_sk_${'f'.repeat(32)}`)
    for (const path of ['/v1/audit', '/v1/audit/verify', '/v1/audit/export', '/v1/audit/checkpoint', '/v1/tenant']) {
      expect([path, (await running.caller(forged).call('GET', path)).status]).toEqual([path, 401])
    }
    const { sql } = running.services
    for (const table of ['tenants', 'keys']) {
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

  it('records each migration, which is not done if no server wrote its head', async () => {
    const from = await findSchemaVersion((await start()).services.sql)
    const migrations = withMigration('select 1')
    const migrated = await start({ migrations })
    expect((await entries(migrated)).at(-1)).toMatchObject({
      action: 'installation.migrate',
      metadata: { from, to: 900, version: expect.any(String) },
    })
    expect(await verify(migrated, INSTALLATION_ID)).toMatchObject({ valid: true })
    const { sql } = migrated.services
    await sql`update schema_version set version = ${from}`
    await sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${INSTALLATION_ID}`
    await expect(start({ migrations })).rejects.toThrow('missing or forged')
    await rm(migrations, { recursive: true })
  })

  it('cannot be begun anew: without its key nothing starts', async () => {
    const running = await start()
    const { sql } = running.services
    await sql`delete from heads where tenant_id = ${INSTALLATION_ID}`
    await sql`delete from audit_log where tenant_id = ${INSTALLATION_ID}`
    await sql`update instance set wrapped_audit_key = null`
    await expect(start()).rejects.toThrow('missing from the database')
  })

  it('cannot be begun anew by a schema from before it', async () => {
    const running = await start()
    const { sql } = running.services
    const { tenant } = await running.createTenant()
    for (const table of ['heads', 'audit_log'])
      await sql`delete from ${sql(table)} where tenant_id = ${INSTALLATION_ID}`
    await sql.unsafe(`
      drop table anchored_heads; drop table unrecorded_calls;
      alter table instance drop column wrapped_audit_key;
      alter table tenants drop constraint tenants_not_installation;
      alter table keys drop constraint keys_not_installation;
      update schema_version set version = 8`)
    await removeAll(running, tenant.tenant_id)
    await expect(start()).rejects.toThrow('from before the first release')
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
    expect(await verify?.(signal)).toEqual({ logs: 2, invalid: [], unverified: [] })
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

  it('is due at once if somebody edited the entry that says when the last one was', async () => {
    const running = await start()
    const { tenant } = await running.createTenant()
    const { sql } = running.services
    const due = { ...running.services, now: () => Date.now() + HOURS * 3_600_000 + 60_000 }
    expect(await createScheduledVerification(due, { hours: HOURS })(signal)).toMatchObject({ invalid: [] })
    // At start the log is compared from the newest anchor on.
    for (let more = 0; more < 2; more++) await anchor(running, { evenIfSame: true })
    const verify = ({ services } = running) => createScheduledVerification(services, { hours: HOURS })(signal)
    expect(await verify()).toBeUndefined()
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant.tenant_id} and id = 1`
    await sql`update audit_log set created_at = '2999-01-01T00:00:00Z' where action = 'installation.verify'`
    const restarted = await start()
    expect(restarted.alarms).toEqual([])
    expect((await verify(restarted))?.invalid).toMatchObject([
      { tenant_id: INSTALLATION_ID, reason: 'entry_altered' },
      { tenant_id: tenant.tenant_id, reason: 'entry_altered', broken_at: 1 },
    ])
  })

  it('reports what it found also if the log cannot record it, and is not done again before it is due', async () => {
    const running = await start()
    const { sql } = running.services
    const { tenant } = await running.createTenant()
    let now = Date.now() + HOURS * 3_600_000 + 60_000
    const verify = createScheduledVerification({ ...running.services, now: () => now }, { hours: HOURS })
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant.tenant_id} and id = 1`
    await sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${INSTALLATION_ID}`
    const found = {
      invalid: [
        { tenant_id: INSTALLATION_ID, reason: 'head_forged' },
        { tenant_id: tenant.tenant_id, reason: 'entry_altered', broken_at: 1 },
      ],
      notRecorded: expect.any(Error),
    }
    expect(await verify(signal)).toMatchObject(found)
    expect(await verify(signal)).toBeUndefined()
    now += HOURS * 3_600_000
    expect(await verify(signal)).toMatchObject(found)
  })

  it('finds in each run what a first one would: older rows that were put back, entries of long ago that were edited', async () => {
    const running = await start()
    const { sql } = running.services
    const { call, tenant } = await running.createTenant()
    const { id } = (await call('POST', '/v1/api-keys', { name: 'revoked', permissions: [] })).body
    const rows = await sql`select * from api_keys where api_key_id = ${id}`
    await call('DELETE', `/v1/api-keys/${id}`)
    const verify = createScheduledVerification(running.services, { hours: 0 })
    const { signal } = new AbortController()
    expect(await verify(signal)).toMatchObject({ invalid: [], unverified: [] })
    const edit = sql`update audit_log set actor = 'x' where tenant_id = ${tenant.tenant_id} and id = 2`
    await sql`delete from api_keys where api_key_id = ${id}`
    await sql`insert into api_keys ${sql(rows)}`
    expect(await verify(signal)).toMatchObject({ invalid: [{ reason: 'row_replaced', broken_at: 3 }] })
    await edit
    expect(await verify(signal)).toMatchObject({ invalid: [{ reason: 'entry_altered', broken_at: 2 }] })
  })
})

// A tenant that somebody hides from the statement that lists the tenants, and from nothing else: what is done for every tenant must not
// leave it out unseen.
import { randomBytes } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Services } from '../../../packages/server/src/core/runner/operation.js'
import { purgeTenants } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { createScheduledVerification, verifyAll } from '../../../packages/server/src/operate/jobs/verify-all.js'
import { grantServing } from '../../../packages/server/src/operate/store/grant-serving.js'
import { answering } from '../../support/database/answering.js'
import { asRole, backend, type TestDatabase } from '../../support/database/database.js'
import { runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

let service: Service
let acme: Caller
let beta: Caller

beforeAll(async () => {
  service = await startService()
  acme = await service.createTenant({ name: 'acme' })
  beta = await service.createTenant({ name: 'beta' })
})
afterAll(() => service?.close())

/** The services on a database whose answer to the list of tenants has no row of acme. */
const hiding = (): Services => ({
  ...service.services,
  sql: answering(service.services.sql, /from tenants order by created_at/, async (ask) =>
    (await ask()).filter(({ name }) => name !== 'acme'),
  ),
})

const LEFT_OUT = expect.stringContaining('the list of tenants left out this tenant')

describe('a tenant that is hidden while the tenants are listed', () => {
  it('makes the verification of every log fail, and is named', async () => {
    const { verdicts, unverified } = await verifyAll(hiding())
    expect(unverified).toEqual([])
    expect(verdicts.map(({ tenant_id, name, valid, reason }) => ({ tenant_id, name, valid, reason })).slice(1)).toEqual(
      [
        { tenant_id: beta.tenant.tenant_id, name: 'beta', valid: true, reason: undefined },
        { tenant_id: acme.tenant.tenant_id, name: undefined, valid: false, reason: LEFT_OUT },
      ],
    )
    expect((await verifyAll(service.services)).verdicts.every(({ valid }) => valid)).toBe(true)
  })

  it('is counted by the scheduled verification', async () => {
    const run = await createScheduledVerification(
      { ...hiding(), now: () => Date.now() + 2 * 3_600_000 },
      { hours: 1 },
    )(new AbortController().signal)
    expect(run?.invalid).toMatchObject([{ tenant_id: acme.tenant.tenant_id, reason: LEFT_OUT }])
  })

  it('is named by a purge of every tenant, which goes on with the others', async () => {
    const refused: unknown[] = []
    const onRefused = (tenant_id: string, error: unknown) => refused.push([tenant_id, String(error)])
    const options = { retentionMonths: 1, onPurged: () => undefined, onRefused, onFailed: onRefused }
    await purgeTenants(hiding(), options)
    expect(refused).toEqual([[acme.tenant.tenant_id, LEFT_OUT]])
    refused.length = 0
    await purgeTenants(service.services, options)
    expect(refused).toEqual([])
  })

  it('is not forgotten by hiding its creation too: the log of the installation is verified, and then believed', async () => {
    const { sql } = service.services
    const where = sql`where action = 'installation.tenant_create' and metadata like ${`%${acme.tenant.tenant_id}%`}`
    await sql`create table hidden as select * from audit_log ${where}`
    await sql`delete from audit_log ${where}`
    const refused: unknown[] = []
    const onRefused = (tenant_id: string, error: unknown) => refused.push([tenant_id, String(error)])
    await purgeTenants(hiding(), { retentionMonths: 1, onPurged: () => undefined, onRefused, onFailed: onRefused })
    await sql`insert into audit_log select * from hidden`
    expect(refused).toContainEqual([
      'ffffffff-ffff-ffff-ffff-ffffffffffff',
      expect.stringContaining("the installation's own log does not verify (entry_missing"),
    ])
  })

  it('is named by eaas tenant list and eaas doctor, which end with 1', async () => {
    const { database, services } = service
    const runOn = async (where: TestDatabase, ...args: string[]) => {
      const { code, stdout } = await runCommand([...args, '--json'], { database: where, rootKey: ROOT_KEY })
      return [code, JSON.parse(stdout)]
    }
    const run = (...args: string[]) => runOn(database, ...args)
    // As a superuser, which is the only role of the embedded database, eaas doctor reads no view.
    const role = `reader_${randomBytes(6).toString('hex')}`
    const serving = backend() === 'embedded' ? undefined : await asServingRole(role)
    const expectChains = async (expected: object) => {
      if (!serving) return
      const [, { findings }] = await runOn(serving, 'doctor')
      expect(findings.find(({ check }: { check: string }) => check === 'audit chains')).toMatchObject(expected)
    }
    const { tenant_id } = acme.tenant
    expect(await run('tenant', 'list')).toMatchObject([0, { count: 2 }])
    await expectChains({ ok: true })
    await services.sql.unsafe(`
      alter table tenants rename to all_tenants;
      create view tenants as select * from all_tenants where name <> 'acme' or current_query() !~ 'from tenants order by'`)
    if (serving) await services.sql.unsafe(`grant select, insert, update on tenants to ${role}`)
    try {
      expect(await run('tenant', 'list')).toMatchObject([1, { count: 1, failed: [{ tenant_id, error: LEFT_OUT }] }])
      await expectChains({ ok: false, detail: expect.stringContaining(`${tenant_id}: the list of`) })
      await services.sql.unsafe('drop view tenants; alter table all_tenants rename to tenants')
      await services.sql`update audit_log set actor = 'x' where tenant_id = ${INSTALLATION_ID} and id = 1`
      const unproved =
        /the installation's own log does not verify \(entry_altered, entry 1\), so a tenant may be left out/
      expect(await run('tenant', 'list')).toMatchObject([
        1,
        { count: 2, failed: [{ tenant_id: INSTALLATION_ID, error: expect.stringMatching(unproved) }] },
      ])
      await expectChains({ ok: false, detail: expect.stringMatching(unproved) })
    } finally {
      if (serving) await services.sql.unsafe(`drop owned by ${role}; drop role ${role}`)
    }
  })
})

/** Makes a role that may only read and write rows; returns the database as that role reaches it. */
async function asServingRole(role: string): Promise<TestDatabase> {
  const { database, services } = service
  await services.sql.unsafe(`create role ${role} login password 'secret'`)
  await grantServing(services.sql, role, { mayPurge: true })
  return asRole(database, role)
}

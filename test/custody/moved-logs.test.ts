// The log of a tenant that was moved is continued elsewhere: nothing that an operator does here may append to it.
import { genesisHash } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { verifyAudit } from '../../packages/server/src/core/api/audit.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { findHead } from '../../packages/server/src/core/store/audit.js'
import { connect } from '../../packages/server/src/core/store/db.js'
import { countWaiting } from '../../packages/server/src/core/store/peppers.js'
import { acceptClock, acceptLostTenant } from '../../packages/server/src/guard/operations/accept.js'
import { acceptRollback } from '../../packages/server/src/guard/operations/accept-rollback.js'
import { createComparisons } from '../../packages/server/src/installation-comparisons.js'
import { purgeTenant } from '../../packages/server/src/operate/jobs/purge-tenants.js'
import { copyEntries } from '../../packages/server/src/operate/operations/move/copy-log.js'
import { moveTenant } from '../../packages/server/src/operate/operations/move/move-tenant.js'
import { renewTenant } from '../../packages/server/src/operate/operations/renew-tenant.js'
import { createTenant } from '../../packages/server/src/operators/tenants.js'
import { compare } from '../audit/installation/installation-scene.js'
import { copyTables, restoreTables, type Scene } from '../support/audit/audit-scene.js'
import { backend, freshDatabase, originalOf } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const DAY_MS = 86_400_000
const environment = { EAAS_ROOT_KEY: Buffer.alloc(32, 9).toString('base64') }

let time: number
let here: Service
let there: Service
let owner: Caller
let tenant_id: string

beforeEach(async () => {
  time = Date.now()
  const now = () => time
  here = await startService({ now })
  there = await startService({ now, environment })
  owner = await here.createTenant({ name: 'acme' })
  tenant_id = owner.tenant.tenant_id
  await owner.call('POST', '/v1/keys', { name: 'k' })
}, 60_000)
afterEach(async () => {
  await here.close()
  await there.close()
})

const move = (from = here, to = there) =>
  moveTenant({ from: from.services, to: to.services, tenant_id }, { learnSeconds: 0 })
const endOf = ({ services }: Service) => findHead(services.sql, tenant_id)

describe('the log of a moved tenant', { timeout: 60_000 }, () => {
  it('gets no entry by a rotation of the store key that listed the tenant before it was moved', async () => {
    await move()
    const head = await endOf(here)
    expect(await renewTenant(here.services, tenant_id, 2)).toBe(true)
    expect(await endOf(here)).toEqual(head)
    expect(await performAsSystem(here.services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
  })

  it('is not made the tenant’s log here again by an accepted rollback', async () => {
    const { sql } = here.services
    await sql`create table kept as select * from tenants where tenant_id = ${tenant_id}`
    const before = (await endOf(here))?.last_id ?? 0
    await move()
    await sql`update tenants as t set status = k.status, entry_id = k.entry_id, mac = k.mac from kept as k where t.tenant_id = k.tenant_id`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${before}`
    await sql`delete from heads where tenant_id = ${tenant_id}`
    await expect(acceptRollback(here.services, tenant_id, { reason: 'restored' })).rejects.toThrow(/acme is moved/)
    expect(await endOf(here)).toBeUndefined()
  })

  it('is copied on from where a purge took entries meanwhile', async () => {
    time += 100 * DAY_MS
    await owner.call('POST', '/v1/keys', { name: 'new' })
    const { services } = here
    const { entries } = await purgeTenant(services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    expect(entries).toBeGreaterThan(0)
    const { last_id: through_id = 0 } = (await endOf(here)) ?? {}
    const auditKey = (await services.states.find(tenant_id))?.auditKey ?? expect.unreachable()
    const at = { id: 0, hash: genesisHash(tenant_id) }
    const copied = { on: services.sql, auditKey, at, through_id, pauses: 0, onProgress: undefined, signal: undefined }
    expect(await copyEntries({ from: services, to: there.services, tenant_id }, copied)).toMatchObject({
      id: through_id,
    })
    await move()
    expect(await performAsSystem(there.services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
  })

  it('gets no entry by an accepted clock', async () => {
    time += 400 * DAY_MS
    await move()
    time -= 400 * DAY_MS
    const head = await endOf(here)
    await expect(acceptClock(here.services, tenant_id, 'the battery')).rejects.toThrow(/acme is moved/)
    expect(await endOf(here)).toEqual(head)
  })
})

describe('what a moved tenant left', { timeout: 60_000 }, () => {
  it('keeps no former pepper', async () => {
    const { sql } = here.services
    await sql`update instance set pepper = 2, wrapped_former_pepper = wrapped_pepper`
    expect(await countWaiting(sql, time)).toBe(1)
    await sql`update tenants set status = 'moved'`
    expect(await countWaiting(sql, time)).toBe(0)
  })
})

describe('the counts of a moved tenant', { timeout: 60_000 }, () => {
  it('are copied in pages', async () => {
    const { sql } = here.services
    await sql`insert into audit_counts (tenant_id, day, action, key_id, entries)
      select ${tenant_id}, date '2026-01-01', 'key.wrap', pg_catalog.gen_random_uuid(), n from pg_catalog.generate_series(1, 20001) as n`
    const counts = async ({ services }: Service) => services.sql`
      select pg_catalog.count(*)::integer, pg_catalog.sum(entries)::text from audit_counts
      where tenant_id = ${tenant_id} and day = date '2026-01-01'`
    await move()
    expect(await counts(there)).toEqual(await counts(here))
  })
})

describe.skipIf(backend() === 'embedded')('the name of a tenant that just arrived', { timeout: 60_000 }, () => {
  it('is taken on a database of several machines, even if one does not show its row yet', async () => {
    await move()
    const { services, database } = there
    await services.sql`delete from tenants where tenant_id = ${tenant_id}`
    const sql = connect({ url: database.backend === 'postgres' ? database.url : '', max: 1, isSpread: true })
    onTestFinished(() => sql.end())
    await expect(createTenant({ ...services, sql }, { name: 'acme', envelope_only: false })).rejects.toMatchObject({
      code: 'E_NAME_TAKEN',
    })
  })
})

describe.skipIf(backend() === 'embedded')(
  'a database that went back to before a tenant arrived',
  { timeout: 60_000 },
  () => {
    it('gets it from a backup of the former one once its loss is accepted, and nobody serves it twice', async () => {
      const sql = there.services.sql as unknown as Scene['sql']
      await copyTables(sql, 'before')
      await here.close()
      const kept = await freshDatabase('kept', { copyOf: originalOf(here.database) })
      here = await startService({ database: here.database })
      await move()
      await there.refreshStoreKeys()
      const from = await startService({ database: kept })
      onTestFinished(from.close)
      const statuses = () =>
        Promise.all(
          [here, there, from].map(
            async (service) => (await service.caller(owner.secret).call('GET', '/v1/keys')).status,
          ),
        )
      expect((await statuses()).slice(0, 2)).toEqual([421, 200])
      await restoreTables(sql, 'before')
      await expect(move()).rejects.toThrow(/whose database lacks it/)
      const round = async () => {
        await compare(there)
        await createComparisons(there.services, async () => undefined, {}).sharedAlarms.compare({ findsUnseen: true })
      }
      const command = await startService({ database: there.database, environment })
      onTestFinished(command.close)
      await round()
      await expect(move(from, command)).rejects.toThrow(/has an alarm about/)
      await acceptRollback(command.services, INSTALLATION_ID, { reason: 'restored' })
      await round()
      await expect(move(from, command)).rejects.toThrow(/has an alarm about/)
      await acceptLostTenant(command.services, tenant_id, 'restored')
      await round()
      expect((await statuses()).slice(0, 2)).toEqual([421, 401])
      await move(from, command)
      await there.refreshStoreKeys()
      expect(await statuses()).toEqual([421, 500, 421]) // its log is not the one that this server saw
      await round()
      await acceptRollback(command.services, tenant_id, { reason: 'restored' })
      await round()
      expect(await statuses()).toEqual([421, 200, 421])
      expect(await performAsSystem(there.services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
    })
  },
)

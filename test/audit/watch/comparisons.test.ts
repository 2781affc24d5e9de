// Comparisons of a process with the database, which somebody who locks a table can keep from being made: calls are refused when that lasts.

import { genesisHash } from '@eaas/audit/formats'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { ComparisonOverdueError } from '../../../packages/server/src/core/audit/append-errors.js'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { writeAlarm } from '../../../packages/server/src/guard/store/alarms.js'
import { Comparisons, OVERDUE_MS } from '../../../packages/server/src/guard/watch/comparisons.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { createComparisons } from '../../../packages/server/src/installation-comparisons.js'
import { rotateAged } from '../../support/custody/rotation.js'
import { answering } from '../../support/database/answering.js'
import { backend } from '../../support/database/database.js'
import { startService } from '../../support/service/service.js'
import { setWatchScene } from './scene.js'

const scene = setWatchScene()
const { newWatch, lost } = scene

describe('the age of the comparisons', () => {
  it('is that of the last whole round: a part of the tenants does not make it younger', () => {
    let now = 0
    const comparisons = new Comparisons(() => now)
    now = 1_000
    comparisons.succeeded({ begins: true, ends: false })
    now = 2_000
    comparisons.succeeded({ begins: false, ends: true })
    expect(comparisons.age).toBe(1_000)
    now = 3_000
    comparisons.succeeded({ begins: true, ends: false })
    now = 4_000
    expect(comparisons.age).toBe(3_000)
    comparisons.failed()
    now = 5_000
    comparisons.succeeded({ begins: false, ends: true }) // a part of this round was not compared
    expect([comparisons.age, comparisons.isOverdue]).toEqual([4_000, false])
  })
})

/** What Citus answers if a machine does not answer it. */
const noNode = () =>
  scene.sql`do $$ begin raise exception 'connection to the remote node failed' using errcode = '08006'; end $$`.simple()

describe('comparisons that fail', () => {
  it.each(['heads', 'chain_alarms', 'audit_log'])(
    'because %s cannot be read are overdue after some time, until one succeeds',
    async (table) => {
      let now = 0
      let isLocked = true
      const comparisons = new Comparisons(() => now)
      const sql = answering(scene.sql, new RegExp(table), (ask) =>
        isLocked ? Promise.reject(new Error(`no answer from ${table}`)) : ask(),
      )
      const { compare } = newWatch({ comparisons, sql })
      now = OVERDUE_MS - 1
      await expect(compare()).rejects.toThrow(`no answer from ${table}`)
      expect(comparisons.isOverdue).toBe(false)
      now = OVERDUE_MS
      expect(comparisons.isOverdue).toBe(false) // a process that was only suspended
      await expect(compare()).rejects.toThrow()
      expect(() => comparisons.assertNotOverdue(scene.tenant_id)).toThrow(ComparisonOverdueError)
      isLocked = false
      expect(await compare()).toEqual([])
      expect([comparisons.isOverdue, comparisons.age]).toEqual([false, 0])
    },
  )

  it('for too long have calls refused, whether they leave an entry or not, and /health and the metrics say so', async () => {
    const { comparisons } = watchesOf(scene.services.committer)
    const { id } = (await scene.owner.call('POST', '/v1/keys', { name: 'watched' })).body
    const calls = [
      () => scene.owner.call('POST', `/v1/keys/${id}/wrap`, { dek: Buffer.alloc(32, 1).toString('base64') }),
      () => scene.owner.call('POST', '/v1/hash', { key_id: id, value: 'x' }),
    ]
    const age = vi.spyOn(comparisons, 'age', 'get').mockReturnValue(OVERDUE_MS)
    const overdue = vi.spyOn(comparisons, 'isOverdue', 'get').mockReturnValue(true)
    for (const call of calls) {
      const { status, body } = await call()
      expect([status, body.code]).toEqual([503, 'E_UNAVAILABLE'])
    }
    const { status, body } = await scene.owner.call('GET', '/health')
    expect([status, body.status, body.database]).toEqual([503, 'degraded', 'unwatched'])
    expect(await (await fetch(`${scene.service.url}/metrics`)).text()).toMatch(/^eaas_audit_watch_age_seconds 10$/m)
    age.mockRestore()
    overdue.mockRestore()
    for (const call of calls) expect((await call()).status).toBe(200)
    await scene.readLate()
  })

  it('because a part of the database does not answer concern the tenants whose rows it holds, and no others', async () => {
    let now = 0
    let isDown = true
    const comparisons = new Comparisons(() => now)
    const other = await scene.service.createTenant()
    // The installation's log is whole, as are those of other tenants that are asked for alone.
    const sql = answering(scene.sql, /heads|audit_log/, (ask, _, values) =>
      isDown &&
      (JSON.stringify(values).includes(scene.tenant_id) || !JSON.stringify(values).includes(other.tenant.tenant_id))
        ? noNode()
        : ask(),
    )
    const { compare, watches } = newWatch({ comparisons, sql })
    watches.get(other.tenant.tenant_id).witness(await scene.readHead(other.tenant.tenant_id))
    const refused = (tenant_id: string) => {
      try {
        return comparisons.assertNotOverdue(tenant_id)
      } catch (error) {
        return error
      }
    }
    for (now of [0, OVERDUE_MS]) await expect(compare()).rejects.toThrow('remote node')
    expect(comparisons.isOverdue).toBe(false)
    expect(comparisons.age).toBe(OVERDUE_MS)
    expect(refused(scene.tenant_id)).toBeInstanceOf(ComparisonOverdueError)
    expect(refused(other.tenant.tenant_id)).toBeUndefined()
    isDown = false
    expect(await compare()).toEqual([])
    expect(refused(scene.tenant_id)).toBeUndefined()
    expect(comparisons.age).toBe(0)
  })

  it('because no part of the database answers are overdue for all', async () => {
    let now = 0
    const comparisons = new Comparisons(() => now)
    const sql = answering(scene.sql, /heads|audit_log/, () => noNode())
    const { compare } = newWatch({ comparisons, sql })
    now = OVERDUE_MS
    await expect(compare()).rejects.toThrow('remote node')
    expect(comparisons.isOverdue).toBe(true)
  })

  it('of one tenant count too, or its table would be locked alone', async () => {
    let now = 0
    const comparisons = new Comparisons(() => now)
    const { watch, compare } = newWatch({ comparisons, findAuditKey: () => Promise.reject(new Error('no answer')) })
    watch.witness(lost())
    now = OVERDUE_MS
    expect(await compare()).toHaveLength(1)
    expect(comparisons.isOverdue).toBe(true)
  })
})

describe('a tenant whose audit key is put back under a store key that is gone', () => {
  it.skipIf(backend() === 'embedded')(
    'is refused by a server that starts then, once its comparisons are overdue; other tenants are served',
    async () => {
      const service = await startService()
      onTestFinished(service.close)
      const [lost, other] = [await service.createTenant(), await service.createTenant()]
      const { tenant_id } = lost.tenant
      const { sql } = service.services
      await anchorNow(service.services)
      await lost.call('POST', '/v1/keys', { name: 'not yet anchored' })
      const read = () => sql`select wrapped_audit_key from tenants where tenant_id = ${tenant_id}`
      const before = await read()
      await rotateAged(service)
      const after = await read()
      const put = ([row]: typeof before) =>
        sql.begin(async (transaction) => {
          await transaction`set local session_replication_role = replica` // or the foreign key of store keys refuses it
          await transaction`update tenants set ${sql(row ?? {})} where tenant_id = ${tenant_id}`
        })
      await put(before)
      const forged = {
        reason: 'forged',
        last_id: 0,
        hash: genesisHash(tenant_id),
        policy_version: 0,
        mac: new Uint8Array(32),
      }
      await writeAlarm(sql, { tenant_id, raised_at: new Date().toISOString(), ...forged })
      const started = await startService({ database: service.database })
      onTestFinished(started.close)
      const { comparisons } = watchesOf(started.services.committer)
      const { compareAnchored, sharedAlarms } = createComparisons(started.services, async () => undefined, {})
      const compare = async () => (await sharedAlarms.compare({ findsUnseen: true })).map(nameOf)
      const list = async ({ secret }: typeof lost) => (await started.caller(secret).call('GET', '/v1/keys')).status

      const now = performance.now.bind(performance)
      for (const later of [0, OVERDUE_MS]) {
        const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + later)
        onTestFinished(() => clock.mockRestore())
        // about its alarm, and about its log
        expect(await compare()).toEqual(['UnknownStoreKeyError', 'UnknownStoreKeyError'])
      }
      await sql`delete from chain_alarms`
      expect([comparisons.isOverdue, comparisons.overdueTenants]).toEqual([false, [tenant_id]])
      const left: string[] = []
      await anchorNow(started.services, { onLeft: (each) => left.push(each) })
      expect([left, await compareAnchored()]).toEqual([[tenant_id], []])
      expect([await list(lost), await list(other)]).toEqual([503, 200])
      await put(after)
      expect([await compare(), comparisons.unreached, started.alarms]).toEqual([[], [], []])
      expect(await list(lost)).toBe(200)
    },
  )
})

const nameOf = (error: unknown) => (error instanceof Error ? error.name : error)

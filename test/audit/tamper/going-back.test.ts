// A running server whose database is restored to an earlier state or rewritten under it.
import { afterEach, describe, expect, it } from 'vitest'
import { headMac, type KeptHead } from '../../../packages/server/src/core/audit/formats/chain.js'
import { findLastMark } from '../../../packages/server/src/core/store/purge-marks.js'
import { HeadWatch } from '../../../packages/server/src/guard/watch/head-watch.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import {
  copyTables,
  dek,
  restoreTables,
  type Scene,
  type Server,
  serverOf,
  type Target,
} from '../../support/audit/audit-scene.js'
import { type Service, startService } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'
import { type Kept, readExport, takeCheckpoint } from './attacks.js'

const DAY_MS = 86_400_000

describe('a running server whose database goes back', () => {
  let service: Service
  afterEach(() => service?.close())

  interface Running {
    server: Server
    target: Pick<Target, 'tenant_id' | 'secret' | 'key_id'>
    other: { secret: string; key_id: string }
  }

  async function start(): Promise<Running> {
    service = await startService()
    const people = []
    for (const name of ['attacked', 'other']) {
      const owner = await service.createTenant({ name })
      const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
      people.push({ tenant_id: owner.tenant.tenant_id, secret: owner.secret, key_id: id as string })
    }
    const [target, other] = people
    if (!target || !other) throw new Error('no tenants')
    const server: Server = { ...serverOf(service), services: service.services, alarms: [], call: over(service) }
    return { server, target, other }
  }
  const over =
    ({ caller }: Service): Server['call'] =>
    (secret, method, path, body) =>
      caller(secret).call(method, path, body)

  const wrap = ({ server }: Running, { secret, key_id }: { secret: string; key_id: string }) =>
    server.call(secret, 'POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
  const sql = () => service.services.sql as unknown as Scene['sql']

  /**
   * Expects the call to be refused with an alarm, and everyone who verifies to say so: this server, and from what a server exports that
   * saw nothing, both verifiers with the checkpoint that was kept.
   */
  async function expectAlarm(
    running: Running,
    kept: Kept,
    call: () => Promise<{ status: number; body: { code?: string } }>,
  ): Promise<void> {
    const { server, target, other } = running
    const { status, body } = await call()
    expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
    expect(service.alarms).toMatchObject([{ tenant_id: target.tenant_id }])
    const health = await server.call('', 'GET', '/health')
    expect([health.status, health.body.status, health.body.database]).toEqual([200, 'degraded', 'alarm'])
    expect((await wrap(running, target)).status).toBe(500)
    expect((await server.call(target.secret, 'GET', '/v1/keys')).status).toBe(500)
    expect((await wrap(running, other)).status).toBe(200)
    expect((await server.call(other.secret, 'GET', '/v1/audit/verify')).body.valid).toBe(true)
    expect((await server.call(target.secret, 'GET', '/v1/audit/verify')).body.valid).toBe(false)
    expect(service.alarms).toHaveLength(1)
    const file = await readExport(serverOf(service), target)
    if (file === undefined) return
    const { note: checkpoint, publicKey } = kept
    expect(await verifyByBoth({ file: Buffer.from(file), publicKey, checkpoint })).toMatchObject({ valid: false })
  }

  it('raises an alarm at its next append when a tail was cut off and the genuine head of then put back', async () => {
    const running = await start()
    const { target } = running
    await copyTables(sql(), 'late')
    for (let at = 0; at < 3; at++) await wrap(running, target)
    const kept = await takeCheckpoint(target, running.server)
    await sql()`delete from audit_log where tenant_id = ${target.tenant_id} and id > 2`
    await sql().unsafe(
      `update heads set last_id = h.last_id, hash = h.hash, policy_version = h.policy_version,
      created_at = h.created_at, mac = h.mac from late.heads h where heads.tenant_id = h.tenant_id and h.tenant_id = $1`,
      [target.tenant_id],
    )
    await expectAlarm(running, kept, () => wrap(running, target))
  })

  it.each([
    ['of plain entries', false],
    ['with changes of rights in it', true],
  ])('raises an alarm at its next append when an older snapshot %s was restored', async (_, withChanges) => {
    const running = await start()
    const { target, server } = running
    await copyTables(sql(), 'early')
    if (withChanges) await server.call(target.secret, 'POST', `/v1/keys/${target.key_id}/rotate`)
    await wrap(running, target)
    const kept = await takeCheckpoint(target, server)
    await restoreTables(sql(), 'early')
    await expectAlarm(running, kept, () => wrap(running, target))
  })

  it('lets no call through that leaves no entry either', async () => {
    const running = await start()
    const { target, server } = running
    await copyTables(sql(), 'early')
    await server.call(target.secret, 'DELETE', `/v1/keys/${target.key_id}`)
    const kept = await takeCheckpoint(target, server)
    await restoreTables(sql(), 'early')
    await expectAlarm(running, kept, () =>
      server.call(target.secret, 'POST', '/v1/hash', { key_id: target.key_id, value: 'x' }),
    )
  })

  it('raises an alarm at its next append when the log was written anew with the keys', async () => {
    const running = await start()
    const { target, server } = running
    await wrap(running, target)
    await copyTables(sql(), 'early')
    // What the same server writes in another history: genuine to the last byte, and not what it wrote.
    await wrap(running, target)
    const kept = await takeCheckpoint(target, server)
    await restoreTables(sql(), 'early')
    const rival = serverOf(service)
    await rival.call(target.secret, 'POST', `/v1/keys/${target.key_id}/export`)
    await rival.app.close()
    expect(server.alarms).toEqual([])
    await expectAlarm(running, kept, () => wrap(running, target))
  })

  /** A rival writes another history over the entry that the running server saw last, of which a checkpoint is kept; then the row is hidden. */
  async function fork(running: Running, hide: (tenant_id: string, last_id: number) => Promise<unknown>): Promise<Kept> {
    const { target } = running
    await copyTables(sql(), 'early')
    await wrap(running, target)
    const [seen] = await sql()<{ last_id: number }[]>`
      select last_id::int from heads where tenant_id = ${target.tenant_id}`
    const kept = await takeCheckpoint(target, running.server)
    await restoreTables(sql(), 'early')
    const rival = serverOf(service)
    for (let at = 0; at < 3; at++) {
      await rival.call(target.secret, 'POST', `/v1/keys/${target.key_id}/wrap`, { dek: dek() })
    }
    await rival.app.close()
    if (!seen) throw new Error('no head')
    await hide(target.tenant_id, seen.last_id)
    return kept
  }
  const deleteEntry = (tenant_id: string, id: number) => sql()`
    delete from audit_log where tenant_id = ${tenant_id} and id = ${id}`

  it('raises an alarm at its next append when the log was written anew and the entry that tells of it is hidden', async () => {
    const running = await start()
    const kept = await fork(running, deleteEntry)
    await expectAlarm(running, kept, () => wrap(running, running.target))
  })

  it('takes no word for a purge but that of a mark with its MAC', async () => {
    const running = await start()
    const kept = await fork(running, async (tenant_id, id) => {
      await deleteEntry(tenant_id, id)
      await sql()`
        insert into purge_marks (tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac)
        values (${tenant_id}, ${id}, ${Buffer.alloc(32)}, ${id}, now(), now(), ${Buffer.alloc(32)}, ${Buffer.alloc(32)})`
    })
    await expectAlarm(running, kept, () => wrap(running, running.target))
  })
})

describe('a running server whose last entry another process purged', () => {
  it('goes on, and misses what is known to be no older than the cutoff: the purge was of another log', async () => {
    let now = Date.parse('2026-01-05T09:00:00.000Z')
    const service = await startService({ now: () => now })
    const rival = serverOf(service)
    try {
      const owner = await service.createTenant()
      const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
      now += 200 * DAY_MS
      await service.createTenant() // a purge trusts a clock under which the server was at work
      now += 200 * DAY_MS
      const wrap = { dek: dek() }
      for (let at = 0; at < 3; at++) await rival.call(owner.secret, 'POST', `/v1/keys/${id}/wrap`, wrap)
      const { purged_through } = await purgeTenant(rival.services, owner.tenant.tenant_id, {
        retentionMonths: 12,
        maxShare: 1,
      })
      expect(purged_through).toBe(2)
      expect((await owner.call('POST', `/v1/keys/${id}/wrap`, wrap)).status).toBe(200)
      expect(service.alarms).toEqual([])

      const { tenant_id } = owner.tenant
      const { sql, states } = service.services
      const [mark, state] = [await findLastMark(sql, tenant_id), await states.find(tenant_id)]
      if (!mark || !state) throw new Error('there should be a mark')
      const { auditKey } = state
      const entry = { last_id: 2, hash: mark.hash, policy_version: 1 }
      const headOf = (created_at: string): KeptHead => {
        const head = { tenant_id, ...entry, created_at }
        return { ...head, mac: headMac(auditKey, head) }
      }
      const read = (witness: KeptHead) => {
        const watch = new HeadWatch(tenant_id, () => undefined)
        watch.held.remember(witness)
        return watch.read(sql, auditKey).then(
          () => 'continues',
          (error: Error) => error.message,
        )
      }
      const [before, since] = [new Date(Date.parse(mark.cutoff) - 1).toISOString(), mark.cutoff]
      const missing = 'entry 2 of the audit chain is missing, and no purge deleted it'
      expect([await read(headOf(before)), await read(headOf(since))]).toEqual(['continues', missing])
      // Of an entry up to which a log was followed, its own time is known; else that of a head before it, which is not later.
      const followed = (created_at: string) => read({ ...entry, created_at, sealed: headOf(before) })
      expect([await followed(before), await followed(since)]).toEqual(['continues', missing])
      const unsealed = (sealed: string) => read({ ...entry, sealed: headOf(sealed) })
      expect([await unsealed(before), await unsealed(since)]).toEqual(['continues', missing])
      // A time that nothing proves says nothing, nor does its absence.
      expect([await read({ ...headOf(since), mac: new Uint8Array(32) }), await read(entry)]).toEqual([
        'continues',
        'continues',
      ])
    } finally {
      await rival.app.close()
      await service.close()
    }
  })
})

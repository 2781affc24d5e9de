// The alarms that processes share: what a process takes over from an alarm that another one wrote, what it raises and writes itself, and which
// heads that other processes wrote it follows. It knows no less after it than before.
import { INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { listKeys } from '../../../packages/server/src/core/api/keys.js'
import { UnfollowedLogError } from '../../../packages/server/src/core/audit/append-errors.js'
import { type AuditKey, extendChain, type Head } from '../../../packages/server/src/core/audit/formats/chain.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { ANY_SKEW_MS, appendEntries } from '../../../packages/server/src/core/store/append.js'
import type { Sql } from '../../../packages/server/src/core/store/db.js'
import { TamperedRowError } from '../../../packages/server/src/core/store/tampered-row.js'
import { anchorHeads } from '../../../packages/server/src/guard/anchor-heads.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { listAlarms } from '../../../packages/server/src/guard/store/alarms.js'
import { KEY_CHANGED } from '../../../packages/server/src/guard/watch/compare-logs.js'
import { FOLLOWED_AT_ONCE } from '../../../packages/server/src/guard/watch/follow.js'
import { TENANT_GONE } from '../../../packages/server/src/guard/watch/shared-alarms.js'
import { serverOf } from '../../support/audit/audit-scene.js'
import { answering } from '../../support/database/answering.js'
import { idOf, setWatchScene } from './scene.js'

const scene = setWatchScene()
const { readHead, newWatch, write, deleteRow, rowsBy, lost } = scene

describe('a process that reads an alarm of another one', () => {
  it('adopts it with what it witnessed', async () => {
    await write(lost())
    const { watch, compare } = newWatch()
    expect(await compare()).toEqual([])
    expect(watch.alarm).toMatchObject({ reason: 'it went back', witness: { last_id: lost().last_id } })
    expect(idOf(watch.witnessed)).toBe(scene.late.last_id)
  })

  it.each<[what: string, of: () => Head]>([
    ['an earlier head', () => scene.early],
    ['none', () => ({ ...scene.early, last_id: 0 })],
  ])(
    'adopts one that witnessed %s with the head that it witnessed itself, and writes that in its place',
    async (_, of) => {
      await write(of())
      const { watch, compare } = newWatch()
      expect(await compare()).toEqual([])
      expect(watch.alarm).toMatchObject({ reason: 'it went back', witness: { last_id: scene.late.last_id } })
      expect(await rowsBy(scene.auditKey)).toEqual([[scene.late.last_id, true]])
    },
  )

  it.each<[what: string, kept: () => Head | undefined]>([
    ['has no head that a process read when it opened', () => undefined],
    ['has the head that a process that opened has in its checkpoint file', () => scene.late],
  ])('%s', async (_, kept) => {
    await write(scene.early)
    const { watch, alarms } = newWatch()
    const head = kept()
    if (head) watch.held.remember(head)
    await watch.read(scene.sql, scene.auditKey)
    expect(await alarms.compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[(head ?? scene.early).last_id, true]])
  })

  it('adopts the later witness into its own alarm, which it writes again where the row is deleted', async () => {
    await write(scene.late)
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'mine', witness: scene.early })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual(['mine', scene.late.last_id])
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[scene.late.last_id, true]])
  })

  it('writes no earlier head over one of a server, whatever the row seemed to be', async () => {
    await write(scene.late)
    const sql = answering(scene.sql, /chain_alarms a order by/, async (ask) =>
      (await ask()).map((row) => ({ ...row, last_id: 1 })),
    )
    const { watch, compare } = newWatch({ sql })
    watch.learn({ reason: 'mine', witness: scene.early })
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[scene.late.last_id, true]])
  })

  it('keeps the witness of its own alarm, and writes it in place of the earlier one', async () => {
    await write(scene.early)
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'mine', witness: watch.witnessed })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual(['mine', scene.late.last_id])
    expect((await listAlarms(scene.sql)).map(({ reason, last_id }) => [reason, last_id])).toEqual([
      ['mine', scene.late.last_id],
    ])
  })

  it.each([
    ['that no server wrote', { isGone: async () => false }, 'the database contains an alarm that no server wrote'],
    ['about a tenant that is gone', { isGone: async () => true }, expect.stringContaining('missing from the database')],
  ])('does not believe the witness of one %s: its own counts', async (_, found, reason) => {
    await write(scene.early, { forged: true })
    const { watch, compare } = newWatch(found)
    await compare()
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual([reason, scene.late.last_id])
  })

  it.each(['findAuditKey', 'isGone'] as const)(
    'passes on an error of the database in %s, and takes the alarm neither for genuine nor for forged',
    async (name) => {
      await write(scene.early)
      const error = new Error('the database does not answer')
      const { watch, compare } = newWatch({ [name]: () => Promise.reject(error) })
      expect(await compare()).toEqual([error])
      expect(watch.alarm).toBeUndefined()
    },
  )
})

describe('a process whose log in the database went back', () => {
  /** One that witnessed what is lost. */
  function newLoser(found?: Parameters<typeof newWatch>[0]) {
    const process = newWatch(found)
    process.watch.witness(lost())
    return process
  }

  it('raises the alarm without a call, and writes it', async () => {
    const { watch, compare } = newLoser()
    expect(await compare()).toEqual([])
    expect(watch.alarm).toMatchObject({ reason: expect.stringContaining('went back'), witness: lost() })
    expect(await rowsBy(scene.auditKey)).toEqual([[lost().last_id, true]])
  })

  it('raises its own in place of one about an earlier head', async () => {
    await write(scene.early)
    const { watch, compare } = newLoser()
    expect(await compare()).toEqual([])
    expect(watch.alarm?.reason).toContain('went back from entry')
    expect(await rowsBy(scene.auditKey)).toEqual([[lost().last_id, true]])
  })

  it('writes the alarm again where somebody deletes it, or garbles it', async () => {
    const { watch, compare } = newLoser()
    await compare()
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[lost().last_id, true]])
    await scene.sql`update chain_alarms set mac = ${Buffer.alloc(32)}`
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[lost().last_id, true]])
    expect(watch.alarm).toBeDefined()
  })

  it('writes an alarm that has no witness too, before its row can be missed', async () => {
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'the head is forged', witness: undefined })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, await rowsBy(scene.auditKey)]).toEqual(['the head is forged', [[0, true]]])
  })

  it('raises it also while the alarms cannot be read, and passes on that error', async () => {
    const { sql } = scene
    const { watch, compare } = newLoser()
    await sql`alter table chain_alarms rename to hidden`
    try {
      await expect(compare()).rejects.toThrow('chain_alarms')
      expect(watch.alarm?.reason).toContain('went back')
    } finally {
      await sql`alter table hidden rename to chain_alarms`
    }
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.auditKey)).toEqual([[lost().last_id, true]])
  })

  it('raises it also if the audit key of the tenant was changed, so that nothing can be compared', async () => {
    const tampered = new TamperedRowError('the audit key does not open')
    const { watch, compare } = newLoser({ findAuditKey: () => Promise.reject(tampered) })
    await compare()
    expect(watch.alarm).toEqual({ reason: KEY_CHANGED, witness: lost() })
  })

  it('raises it when only the head was put back', async () => {
    const { sql } = scene
    const { watch, compare } = newWatch()
    const { tenant_id } = scene
    const { last_id, hash, policy_version, created_at, mac } = scene.early
    await sql`update heads set ${sql({ last_id, hash, policy_version, created_at, mac })} where tenant_id = ${tenant_id}`
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toContain('went back')
    } finally {
      const { tenant_id: _, ...put } = scene.late
      await sql`update heads set ${sql(put)} where tenant_id = ${tenant_id}`
    }
  })

  it('raises it when only the last entry was deleted, and the head still names it', async () => {
    const { sql } = scene
    const { tenant_id } = scene
    const { watch, compare } = newWatch()
    await sql`create table kept as select * from audit_log where tenant_id = ${tenant_id} and id = ${scene.late.last_id}`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = ${scene.late.last_id}`
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toBe(
        `entry ${scene.late.last_id} of the audit chain is missing, and no purge deleted it`,
      )
    } finally {
      await sql`insert into audit_log select * from kept`
    }
  })

  it('keeps an alarm without a witness though its row is deleted, until an operator accepts it', async () => {
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'the tenant is unknown', witness: undefined })
    await compare()
    await deleteRow()
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, await rowsBy(scene.auditKey)]).toEqual(['the tenant is unknown', [[0, true]]])
    await acceptRollback(scene.services, scene.tenant_id, { reason: 'a drill' })
    await scene.readLate()
    expect(await compare()).toEqual([])
    expect([watch.alarm, await rowsBy(scene.auditKey)]).toEqual([undefined, []])
    // The same acceptance settles no later alarm.
    watch.learn({ reason: 'again', witness: undefined })
    await compare()
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(watch.alarm?.reason).toBe('again')
  })

  /** A process that has an alarm about the tenant, which the database seems to have lost. */
  function newMourner() {
    let there: AuditKey | undefined
    const accepted: string[] = []
    const { watch, compare } = newLoser({
      findAuditKey: async () => there,
      isGone: async () => there === undefined,
      onGoneAccepted: (tenant_id) => void accepted.push(tenant_id),
    })
    watch.learn({ reason: TENANT_GONE, witness: watch.witnessed })
    const bringBack = () => {
      there = scene.auditKey
    }
    return { watch, compare, accepted, bringBack }
  }
  /** Records as an operator's acceptance does that a tenant is gone of which this entry was known. */
  const recordLoss = (witnessed_id: number, tenant_id = scene.tenant_id) =>
    scene.sql.begin((sql) => {
      const metadata = { tenant_id, witnessed_id, witnessed_hash: '00'.repeat(32), reason: 'a drill' }
      return anchorHeads(scene.services, sql, { notes: [{ action: 'installation.tenant_gone', metadata }] })
    })

  it.each<[what: string, record: () => Promise<unknown>]>([
    ['is only deleted', async () => undefined],
    ['is deleted beside an acceptance of less than was witnessed', () => recordLoss(lost().last_id - 1)],
    [
      'is deleted beside an acceptance that somebody edited',
      async () => {
        await recordLoss(lost().last_id - 1)
        const [written, edited] = [lost().last_id - 1, 99_999].map((id) => `"witnessed_id":${id}`)
        const edit = (from = '', to = '') => scene.sql`
          update audit_log set metadata = replace(metadata, ${from}, ${to}) where action = 'installation.tenant_gone'`
        await edit(written, edited)
        onTestFinished(async () => {
          await edit(edited, written)
          await scene.sql`delete from chain_alarms where tenant_id = ${INSTALLATION_ID}`
        })
      },
    ],
  ])('writes the alarm about a tenant that is gone again where its row %s', async (_, record) => {
    const { watch, compare, accepted } = newMourner()
    await compare()
    await record()
    for (let round = 0; round < 2; round++) {
      await deleteRow()
      expect(await compare()).toEqual([])
      expect(await rowsBy(scene.services.installationKey)).toEqual([[lost().last_id, true]])
    }
    expect([watch.alarm?.reason, accepted]).toEqual([TENANT_GONE, []])
  })

  it('writes the alarm about a tenant that is gone in place of one about an earlier head', async () => {
    await write(scene.early)
    const { compare } = newMourner()
    expect(await compare()).toEqual([])
    expect(await rowsBy(scene.services.installationKey)).toEqual([[lost().last_id, true]])
  })

  // Last: the acceptance stays in the installation's log.
  it('takes a tenant that is gone for accepted once that is recorded, and compares it when it is back', async () => {
    const { watch, compare, accepted, bringBack } = newMourner()
    const rows = () => rowsBy(scene.services.installationKey)
    expect(await compare()).toEqual([])
    expect([await rows(), watch.alarm?.reason, accepted]).toEqual([[[lost().last_id, true]], TENANT_GONE, []])
    await recordLoss(lost().last_id)
    await deleteRow()
    expect(await compare()).toEqual([])
    expect([watch.alarm, accepted]).toEqual([undefined, [scene.tenant_id]])
    expect(await compare()).toEqual([])
    expect(watch.alarm).toBeUndefined()
    bringBack()
    for (let round = 0; round < 2; round++) {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toContain('went back')
      await deleteRow()
    }
  })
})

describe('a process beside which another one writes', () => {
  /** Puts a head back, and deletes the entries after it. */
  async function goBack({ tenant_id, ...head }: Head): Promise<void> {
    const { sql } = scene
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${head.last_id}`
    await sql`update heads set ${sql(head)} where tenant_id = ${tenant_id}`
  }
  const copy = (tenant_id: string) =>
    scene.sql`create table kept_entries as select * from audit_log where tenant_id = ${tenant_id}`
  async function putForward({ tenant_id, ...head }: Head): Promise<void> {
    const { sql } = scene
    await sql`insert into audit_log select * from kept_entries where id > (select max(id) from audit_log where tenant_id = ${tenant_id})`
    await sql`update heads set ${sql(head)} where tenant_id = ${tenant_id}`
    await sql`drop table kept_entries`
    await sql`delete from chain_alarms where tenant_id = ${tenant_id}`
  }

  it.each([
    ['of a tenant that it served', true],
    ['of a tenant of which it has seen nothing', false],
  ])('knows the later head %s, and raises an alarm when the log goes back behind it', async (_, hasServed) => {
    const other = await scene.service.createTenant()
    const { tenant_id } = other.tenant
    const find = () => readHead(tenant_id)
    const before = await find()
    const { watches, compare } = newWatch()
    const watch = watches.get(tenant_id)
    if (hasServed) watch.witness(before)
    await other.call('POST', '/v1/keys', { name: 'k' })
    expect(await compare()).toEqual([])
    const after = await find()
    expect([idOf(watch.witnessed), watch.alarm]).toEqual([after.last_id, undefined])
    await copy(tenant_id)
    await goBack(before)
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toContain(`went back from entry ${after.last_id} to ${before.last_id}`)
    } finally {
      await putForward(after)
    }
  })

  const showHash = (sql: Sql) =>
    sql`update audit_log a set hash = l.hash from lost l where (a.tenant_id, a.id) = (l.tenant_id, l.id)`

  it.each<[what: string, names: string[], show: (sql: Sql) => PromiseLike<unknown>]>([
    ['has its hash', ['one', 'two'], showHash],
    ['has its hash and is the last one', ['one'], showHash],
    [
      'is the entry itself',
      ['one', 'two'],
      async (sql: Sql) => {
        await sql`delete from audit_log a using lost l where (a.tenant_id, a.id) = (l.tenant_id, l.id)`
        await sql`insert into audit_log select * from lost`
      },
    ],
  ])(
    'follows no log that another one continued without what it witnessed, where the entry shown there %s',
    async (_, names, show) => {
      const other = await scene.service.createTenant()
      const { tenant_id } = other.tenant
      const { sql } = scene
      const before = await readHead(tenant_id)
      await other.call('POST', '/v1/keys', { name: 'lost' })
      const { watches, compare } = newWatch()
      const [watch, reader] = [watches.get(tenant_id), newWatch().watches.get(tenant_id)]
      for (const each of [watch, reader]) each.witness(await readHead(tenant_id))
      await sql`create temporary table lost as select * from audit_log where tenant_id = ${tenant_id} and id > ${before.last_id}`
      await sql`delete from keys where tenant_id = ${tenant_id}`
      await goBack(before)
      const late = serverOf(scene.service) // has witnessed nothing
      for (const name of names) expect((await late.call(other.secret, 'POST', '/v1/keys', { name })).status).toBe(201)
      await show(sql)
      try {
        expect(await compare()).toEqual([])
        const reason = /entry \d+ of the audit chain (?:does not follow from|differs from the one)/
        expect(watch.alarm).toMatchObject({ reason: expect.stringMatching(reason) })
        const auditKey = (await scene.services.states.find(tenant_id))?.auditKey
        await expect(reader.read(sql, auditKey as AuditKey)).rejects.toThrow(reason)
      } finally {
        await sql`drop table lost`
        await sql`delete from chain_alarms where tenant_id = ${tenant_id}`
      }
    },
  )

  /** Continues a tenant's log by so many entries, as another process does. */
  async function grow(tenant_id: string, count: number, actor = 'another server'): Promise<void> {
    const { sql, states } = scene.services
    const [state, previous, time] = [await states.find(tenant_id), await readHead(tenant_id), Date.now()]
    const draft = {
      action: 'key.wrap',
      key_id: null,
      key_version: null,
      actor,
      ip_address: null,
      metadata: null,
    } as const
    const drafts = Array.from({ length: count }, () => draft)
    const { entries, head: next } = extendChain(previous, drafts, { auditKey: state?.auditKey as AuditKey, now: time })
    await appendEntries(sql, { previous, next, entries, clock: { time, toleranceMs: ANY_SKEW_MS } })
  }

  it('follows no log that another one continued without what it witnessed, however many of the entries after that are shown there', async () => {
    const { tenant_id } = (await scene.service.createTenant()).tenant
    const { sql } = scene
    const before = await readHead(tenant_id)
    await grow(tenant_id, 1)
    const witnessed = await readHead(tenant_id)
    const { watches, compare } = newWatch()
    const [watch, reader] = [watches.get(tenant_id), newWatch().watches.get(tenant_id)]
    for (const each of [watch, reader]) each.witness(witnessed)
    await grow(tenant_id, 120)
    await copy(tenant_id)
    await goBack(before)
    await grow(tenant_id, 130, 'a fork')
    const last_id = witnessed.last_id + 120
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id between ${witnessed.last_id} and ${last_id}`
    await sql`insert into audit_log select * from kept_entries where id between ${witnessed.last_id} and ${last_id}`
    try {
      expect(await compare()).toEqual([])
      const reason = `entry ${last_id + 1} of the audit chain does not follow from those that were written`
      expect(watch.alarm?.reason).toBe(reason)
      const auditKey = (await scene.services.states.find(tenant_id))?.auditKey
      await expect(reader.read(sql, auditKey as AuditKey)).rejects.toThrow(reason)
    } finally {
      await sql`drop table kept_entries`
      await sql`delete from chain_alarms where tenant_id = ${tenant_id}`
    }
  })

  it('follows in the end a log of any length, and knows what it has followed until then', async () => {
    const owner = await scene.service.createTenant()
    const { tenant_id } = owner.tenant
    const list = async () => (await owner.call('GET', '/v1/keys')).status
    expect(await list()).toBe(200)
    const before = await readHead(tenant_id)
    const state = await scene.services.states.find(tenant_id)
    const [patient, hasty] = [newWatch(), newWatch()]
    const reader = newWatch().watches.get(tenant_id)
    for (const watch of [patient.watches.get(tenant_id), hasty.watches.get(tenant_id), reader]) watch.witness(before)
    await grow(tenant_id, 4 * FOLLOWED_AT_ONCE + 1)
    /** How many entries a comparison has followed. */
    const followed = async ({ watches, compare }: ReturnType<typeof newWatch>) => {
      expect(await compare()).toEqual([])
      const { witnessed, alarm } = watches.get(tenant_id)
      expect(alarm).toBeUndefined()
      return (idOf(witnessed) ?? 0) - before.last_id
    }
    // Each look at the clock, also of others in this process, shows it later by so much.
    let [now, step] = [0, 0]
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += step))
    try {
      expect(await followed(patient)).toBe(4 * FOLLOWED_AT_ONCE + 1)
      step = 1_100
      expect(await followed(hasty)).toBe(FOLLOWED_AT_ONCE)
      step = 2_100
      const read = () => reader.read(scene.sql, state?.auditKey as AuditKey)
      await expect(read()).rejects.toThrow(UnfollowedLogError)
      expect(idOf(reader.witnessed)).toBe(before.last_id + FOLLOWED_AT_ONCE)
      expect(await list()).toBe(503)
      await expect(performAsSystem(scene.services, tenant_id, listKeys({}))).resolves.toMatchObject({ keys: [] })
    } finally {
      clock.mockRestore()
    }
  })

  it('keeps what it has followed of a log whose reading takes too long, which it goes on with in its next run', async () => {
    const { tenant_id } = (await scene.service.createTenant()).tenant
    const { watches, compare } = newWatch()
    const watch = watches.get(tenant_id)
    const before = await readHead(tenant_id)
    watch.witness(before)
    await grow(tenant_id, FOLLOWED_AT_ONCE + 1)
    const reading = vi.spyOn(watch, 'read').mockRejectedValue(new UnfollowedLogError())
    expect(await compare()).toEqual([])
    expect(reading).toHaveBeenCalled()
    expect([idOf(watch.witnessed), watch.alarm]).toEqual([before.last_id + FOLLOWED_AT_ONCE, undefined])
    reading.mockRestore()
    expect(await compare()).toEqual([])
    expect(idOf(watch.witnessed)).toBe(before.last_id + FOLLOWED_AT_ONCE + 1)
  })

  it('knows the later head also of a tenant that it has an alarm about', async () => {
    const other = await scene.service.createTenant()
    const { tenant_id } = other.tenant
    const find = () => readHead(tenant_id)
    const { watches, compare } = newWatch()
    const watch = watches.get(tenant_id)
    watch.witness(await find())
    watch.learn({ reason: 'a drill', witness: watch.witnessed })
    await other.call('POST', '/v1/keys', { name: 'k' })
    expect(await compare()).toEqual([])
    expect(idOf(watch.witnessed)).toBe((await find()).last_id)
    await scene.sql`delete from chain_alarms where tenant_id = ${tenant_id}`
  })

  it("knows the later head of the installation's log too", async () => {
    const find = () => readHead(INSTALLATION_ID)
    const before = await find()
    const { watches, compare } = newWatch()
    const watch = watches.get(INSTALLATION_ID)
    watch.witness(before)
    await scene.service.createTenant()
    expect(await compare()).toEqual([])
    const after = await find()
    expect(idOf(watch.witnessed)).toBe(after.last_id)
    await copy(INSTALLATION_ID)
    await goBack(before)
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toContain('went back')
    } finally {
      await putForward(after)
    }
  })

  it.each(['last_id', 'policy_version'])(
    'follows no head that no server wrote: that is an alarm (%s)',
    async (column) => {
      const { sql } = scene
      const { tenant_id } = scene
      const { watch, compare } = newWatch()
      await sql`update heads set ${sql(column)} = ${sql(column)} + 1 where tenant_id = ${tenant_id}`
      try {
        expect(await compare()).toEqual([])
        expect([idOf(watch.witnessed), watch.alarm?.reason]).toEqual([
          scene.late.last_id,
          'the head of the audit chain was not written by this server',
        ])
      } finally {
        await sql`update heads set ${sql(column)} = ${sql(column)} - 1 where tenant_id = ${tenant_id}`
      }
    },
  )
})

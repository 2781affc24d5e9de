// What a process takes over from an alarm that another one wrote: not the other's witness in place of its own, and nothing if the
// database cannot be read.
import { createSecretKey, type KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { openAuditKey } from '../../packages/server/src/audit/audit-key.js'
import {
  alarmMac,
  type Head,
  NO_MARK_MAC,
  type PurgeMark,
  purgeMarkMac,
  type Witness,
} from '../../packages/server/src/audit/formats/chain.js'
import { findAcceptedRollback } from '../../packages/server/src/audit/watch/accepted-rollback.js'
import { ComparisonOverdueError, Comparisons, OVERDUE_MS } from '../../packages/server/src/audit/watch/comparisons.js'
import { createHeadWatches } from '../../packages/server/src/audit/watch/head-watches.js'
import { createSharedAlarms, KEY_CHANGED, TENANT_GONE } from '../../packages/server/src/audit/watch/shared-alarms.js'
import { acceptRollback } from '../../packages/server/src/operations/accept-rollback.js'
import { anchorHeads } from '../../packages/server/src/runner/anchor-heads.js'
import { compareWitnesses, listAlarms, writeAlarm } from '../../packages/server/src/store/alarms.js'
import { listAnchoredHeads, listCurrentHeads } from '../../packages/server/src/store/anchors.js'
import {
  findEntryHash,
  findHead,
  listHeads,
  listHeadsWithKeys,
  lockHead,
} from '../../packages/server/src/store/audit.js'
import type { Sql, Transaction } from '../../packages/server/src/store/db.js'
import { TamperedRowError } from '../../packages/server/src/store/tampered-row.js'
import { runCommand } from '../support/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service.js'

let service: Service
let owner: Caller
let auditKey: KeyObject
/** an earlier head of the tenant, and its last one */
let [early, late]: Head[] = []

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  early = await readHead()
  await owner.call('POST', '/v1/keys', { name: 'k' })
  late = await readHead()
  const state = await service.services.states.find(owner.tenant.tenant_id)
  if (!state) throw new Error('no state')
  auditKey = state.auditKey
})
afterAll(() => service?.close())

async function readHead(): Promise<Head> {
  const found = await findHead(service.services.sql, owner.tenant.tenant_id)
  if (!found) throw new Error('no head')
  return found
}

beforeEach(async () => {
  await service.services.sql`delete from chain_alarms where tenant_id = ${owner.tenant.tenant_id}`
})

/** The watch of another process on this database, which witnessed the last head. */
function newWatch({
  findAuditKey = async (): Promise<KeyObject | undefined> => auditKey,
  isGone = async () => false,
  onGoneAccepted = (_: string): void => undefined,
  acceptedRows = [] as string[],
  comparisons = new Comparisons(),
  sql = service.services.sql,
} = {}) {
  const { now, installationKey } = service.services
  const watches = createHeadWatches(() => undefined, comparisons)
  const watch = watches.get(owner.tenant.tenant_id)
  watch.witness(late as Head)
  const { rootKey } = service.services
  const openKey = (row: Parameters<typeof openAuditKey>[1]) => openAuditKey(rootKey, row)
  const isOwner = (tenant_id: string) => tenant_id === owner.tenant.tenant_id
  const options = {
    sql,
    watches,
    assertSessions: async () => undefined,
    installationKey,
    findAuditKey: async (id: string) =>
      isOwner(id) ? findAuditKey() : (await service.services.states.find(id))?.auditKey,
    openKey,
    isGone: async (id: string) => isOwner(id) && isGone(),
    onGoneAccepted,
    onAcceptedRow: (id: string) => void acceptedRows.push(id),
    now,
  }
  const alarms = createSharedAlarms(options)
  return { watch, watches, acceptedRows, alarms, compare: () => alarms.compare({ findsUnseen: true }) }
}

async function write({ last_id, hash, policy_version }: Head, { forged = false } = {}): Promise<void> {
  const { tenant_id } = owner.tenant
  const raised_at = new Date(service.services.now()).toISOString()
  const alarm = { tenant_id, reason: 'it went back', last_id, hash, policy_version, raised_at }
  const mac = forged ? new Uint8Array(32) : alarmMac(auditKey, alarm)
  await writeAlarm(service.services.sql, { ...alarm, mac })
}

const idOf = (witness: { last_id: number } | undefined) => witness?.last_id

describe('a process that reads an alarm of another one', () => {
  it('adopts it with what it witnessed', async () => {
    await write(lost())
    const { watch, compare } = newWatch()
    expect(await compare()).toEqual([])
    expect(watch.alarm).toMatchObject({ reason: 'it went back', witness: { last_id: lost().last_id } })
    expect(idOf(watch.witnessed)).toBe(late?.last_id)
  })

  it.each<[what: string, of: () => Head]>([
    ['an earlier head', () => early as Head],
    ['none', () => ({ ...(early as Head), last_id: 0 })],
  ])(
    'adopts one that witnessed %s with the head that it witnessed itself, and writes that in its place',
    async (_, of) => {
      await write(of())
      const { watch, compare } = newWatch()
      expect(await compare()).toEqual([])
      expect(watch.alarm).toMatchObject({ reason: 'it went back', witness: { last_id: late?.last_id } })
      expect(await rowsBy(auditKey)).toEqual([[late?.last_id, true]])
    },
  )

  it.each<[what: string, kept: () => Head | undefined]>([
    ['has no head that a process read when it opened', () => undefined],
    ['has the head that a process that opened has in its checkpoint file', () => late],
  ])('%s', async (_, kept) => {
    await write(early as Head)
    const { watch, alarms } = newWatch()
    const head = kept()
    if (head) watch.remember(head)
    await watch.read(service.services.sql, auditKey)
    expect(await alarms.compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[(head ?? early)?.last_id, true]])
  })

  it('adopts the later witness into its own alarm, which it writes again where the row is deleted', async () => {
    await write(late as Head)
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'mine', witness: early })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual(['mine', late?.last_id])
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[late?.last_id, true]])
  })

  it('writes no earlier head over one of a server, whatever the row seemed to be', async () => {
    await write(late as Head)
    const { sql } = service.services
    const garbling = new Proxy(sql, {
      apply: (target, self, args) => {
        const rows = Reflect.apply(target, self, args)
        if (!(args[0] as string[]).join('?').includes('chain_alarms a order by')) return rows
        return rows.then((found: object[]) => found.map((row) => ({ ...row, last_id: 1 })))
      },
    })
    const { watch, compare } = newWatch({ sql: garbling })
    watch.learn({ reason: 'mine', witness: early })
    expect(await compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[late?.last_id, true]])
  })

  it('keeps the witness of its own alarm, and writes it in place of the earlier one', async () => {
    await write(early as Head)
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'mine', witness: watch.witnessed })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual(['mine', late?.last_id])
    expect((await listAlarms(service.services.sql)).map(({ reason, last_id }) => [reason, last_id])).toEqual([
      ['mine', late?.last_id],
    ])
  })

  it.each([
    ['that no server wrote', { isGone: async () => false }, 'the database contains an alarm that no server wrote'],
    ['about a tenant that is gone', { isGone: async () => true }, expect.stringContaining('missing from the database')],
  ])('does not believe the witness of one %s: its own counts', async (_, found, reason) => {
    await write(early as Head, { forged: true })
    const { watch, compare } = newWatch(found)
    await compare()
    expect([watch.alarm?.reason, idOf(watch.alarm?.witness)]).toEqual([reason, late?.last_id])
  })

  it.each(['findAuditKey', 'isGone'] as const)(
    'passes on an error of the database in %s, and takes the alarm neither for genuine nor for forged',
    async (name) => {
      await write(early as Head)
      const error = new Error('the database does not answer')
      const { watch, compare } = newWatch({ [name]: () => Promise.reject(error) })
      expect(await compare()).toEqual([error])
      expect(watch.alarm).toBeUndefined()
    },
  )
})

/** The rows of the alarms, each with whether the MAC is that of a key. */
async function rowsBy(key: KeyObject): Promise<[last_id: number, isGenuine: boolean][]> {
  const rows = await listAlarms(service.services.sql)
  return rows.map((row) => [row.last_id, Buffer.from(alarmMac(key, row)).equals(Buffer.from(row.mac))])
}
/** A head that this process saw and the database has lost. */
const lost = (): Head => ({ ...(late as Head), last_id: (late?.last_id ?? 0) + 1, hash: new Uint8Array(32) })
const deleteRow = () => service.services.sql`delete from chain_alarms where tenant_id = ${owner.tenant.tenant_id}`

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
    expect(await rowsBy(auditKey)).toEqual([[lost().last_id, true]])
  })

  it('raises its own in place of one about an earlier head', async () => {
    await write(early as Head)
    const { watch, compare } = newLoser()
    expect(await compare()).toEqual([])
    expect(watch.alarm?.reason).toContain('went back from entry')
    expect(await rowsBy(auditKey)).toEqual([[lost().last_id, true]])
  })

  it('writes the alarm again where somebody deletes it, or garbles it', async () => {
    const { watch, compare } = newLoser()
    await compare()
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[lost().last_id, true]])
    await service.services.sql`update chain_alarms set mac = ${Buffer.alloc(32)}`
    expect(await compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[lost().last_id, true]])
    expect(watch.alarm).toBeDefined()
  })

  it('writes an alarm that has no witness too, before its row can be missed', async () => {
    const { watch, compare } = newWatch()
    watch.learn({ reason: 'the head is forged', witness: undefined })
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, await rowsBy(auditKey)]).toEqual(['the head is forged', [[0, true]]])
  })

  it('raises it also while the alarms cannot be read, and passes on that error', async () => {
    const { sql } = service.services
    const { watch, compare } = newLoser()
    await sql`alter table chain_alarms rename to hidden`
    try {
      await expect(compare()).rejects.toThrow('chain_alarms')
      expect(watch.alarm?.reason).toContain('went back')
    } finally {
      await sql`alter table hidden rename to chain_alarms`
    }
    expect(await compare()).toEqual([])
    expect(await rowsBy(auditKey)).toEqual([[lost().last_id, true]])
  })

  it('raises it also if the audit key of the tenant was changed, so that nothing can be compared', async () => {
    const tampered = new TamperedRowError('the audit key does not open')
    const { watch, compare } = newLoser({ findAuditKey: () => Promise.reject(tampered) })
    await compare()
    expect(watch.alarm).toEqual({ reason: KEY_CHANGED, witness: lost() })
  })

  it('raises it when only the head was put back', async () => {
    const { sql } = service.services
    const { watch, compare } = newWatch()
    const { tenant_id } = owner.tenant
    const { last_id, hash, policy_version, created_at, mac } = early as Head
    await sql`update heads set ${sql({ last_id, hash, policy_version, created_at, mac })} where tenant_id = ${tenant_id}`
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toContain('went back')
    } finally {
      const { tenant_id: _, ...put } = late as Head
      await sql`update heads set ${sql(put)} where tenant_id = ${tenant_id}`
    }
  })

  it('raises it when only the last entry was deleted, and the head still names it', async () => {
    const { sql } = service.services
    const { tenant_id } = owner.tenant
    const { watch, compare } = newWatch()
    await sql`create table kept as select * from audit_log where tenant_id = ${tenant_id} and id = ${late?.last_id ?? 0}`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = ${late?.last_id ?? 0}`
    try {
      expect(await compare()).toEqual([])
      expect(watch.alarm?.reason).toBe(`entry ${late?.last_id} of the audit chain is missing, and no purge deleted it`)
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
    expect([watch.alarm?.reason, await rowsBy(auditKey)]).toEqual(['the tenant is unknown', [[0, true]]])
    await acceptRollback(service.services, owner.tenant.tenant_id, { reason: 'a drill' })
    late = await readHead()
    expect(await compare()).toEqual([])
    expect([watch.alarm, await rowsBy(auditKey)]).toEqual([undefined, []])
    // The same acceptance settles no later alarm.
    watch.learn({ reason: 'again', witness: undefined })
    await compare()
    await deleteRow()
    expect(await compare()).toEqual([])
    expect(watch.alarm?.reason).toBe('again')
  })

  /** A process that has an alarm about the tenant, which the database seems to have lost. */
  function newMourner() {
    let there: KeyObject | undefined
    const accepted: string[] = []
    const { watch, compare } = newLoser({
      findAuditKey: async () => there,
      isGone: async () => there === undefined,
      onGoneAccepted: (tenant_id) => void accepted.push(tenant_id),
    })
    watch.learn({ reason: TENANT_GONE, witness: watch.witnessed })
    const bringBack = () => {
      there = auditKey
    }
    return { watch, compare, accepted, bringBack }
  }
  /** Records as an operator's acceptance does that a tenant is gone of which this entry was known. */
  const recordLoss = (witnessed_id: number, tenant_id = owner.tenant.tenant_id) =>
    service.services.sql.begin((sql) => {
      const metadata = { tenant_id, witnessed_id, witnessed_hash: '00'.repeat(32), reason: 'a drill' }
      return anchorHeads(service.services, sql, { notes: [{ action: 'installation.tenant_gone', metadata }] })
    })

  it.each<[what: string, record: () => Promise<unknown>]>([
    ['is only deleted', async () => undefined],
    ['is deleted beside an acceptance of less than was witnessed', () => recordLoss(lost().last_id - 1)],
    [
      'is deleted beside an acceptance that somebody edited',
      async () => {
        await recordLoss(lost().last_id - 1)
        await service.services.sql`
        update audit_log set metadata = replace(metadata, ${`"witnessed_id":${lost().last_id - 1}`}, '"witnessed_id":99999')
        where action = 'installation.tenant_gone'`
      },
    ],
  ])('writes the alarm about a tenant that is gone again where its row %s', async (_, record) => {
    const { watch, compare, accepted } = newMourner()
    await compare()
    await record()
    for (let round = 0; round < 2; round++) {
      await deleteRow()
      expect(await compare()).toEqual([])
      expect(await rowsBy(service.services.installationKey)).toEqual([[lost().last_id, true]])
    }
    expect([watch.alarm?.reason, accepted]).toEqual([TENANT_GONE, []])
  })

  it('writes the alarm about a tenant that is gone in place of one about an earlier head', async () => {
    await write(early as Head)
    const { compare } = newMourner()
    expect(await compare()).toEqual([])
    expect(await rowsBy(service.services.installationKey)).toEqual([[lost().last_id, true]])
  })

  // Last: the acceptance stays in the installation's log.
  it('takes a tenant that is gone for accepted once that is recorded, and compares it when it is back', async () => {
    const { watch, compare, accepted, bringBack } = newMourner()
    const rows = () => rowsBy(service.services.installationKey)
    expect(await compare()).toEqual([])
    expect([await rows(), watch.alarm?.reason, accepted]).toEqual([[[lost().last_id, true]], TENANT_GONE, []])
    await recordLoss(lost().last_id)
    await deleteRow()
    expect(await compare()).toEqual([])
    expect([watch.alarm, accepted]).toEqual([undefined, [owner.tenant.tenant_id]])
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
    const { sql } = service.services
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${head.last_id}`
    await sql`update heads set ${sql(head)} where tenant_id = ${tenant_id}`
  }
  const copy = (tenant_id: string) =>
    service.services.sql`create table kept_entries as select * from audit_log where tenant_id = ${tenant_id}`
  async function putForward({ tenant_id, ...head }: Head): Promise<void> {
    const { sql } = service.services
    await sql`insert into audit_log select * from kept_entries where id > (select max(id) from audit_log where tenant_id = ${tenant_id})`
    await sql`update heads set ${sql(head)} where tenant_id = ${tenant_id}`
    await sql`drop table kept_entries`
    await sql`delete from chain_alarms where tenant_id = ${tenant_id}`
  }

  it.each([
    ['of a tenant that it served', true],
    ['of a tenant of which it has seen nothing', false],
  ])('knows the later head %s, and raises an alarm when the log goes back behind it', async (_, hasServed) => {
    const other = await service.createTenant()
    const { tenant_id } = other.tenant
    const find = async () => (await findHead(service.services.sql, tenant_id)) as Head
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

  it('knows the later head also of a tenant that it has an alarm about', async () => {
    const other = await service.createTenant()
    const { tenant_id } = other.tenant
    const find = async () => (await findHead(service.services.sql, tenant_id)) as Head
    const { watches, compare } = newWatch()
    const watch = watches.get(tenant_id)
    watch.witness(await find())
    watch.learn({ reason: 'a drill', witness: watch.witnessed })
    await other.call('POST', '/v1/keys', { name: 'k' })
    expect(await compare()).toEqual([])
    expect(idOf(watch.witnessed)).toBe((await find()).last_id)
    await service.services.sql`delete from chain_alarms where tenant_id = ${tenant_id}`
  })

  it("knows the later head of the installation's log too", async () => {
    const find = async () => (await findHead(service.services.sql, INSTALLATION_ID)) as Head
    const before = await find()
    const { watches, compare } = newWatch()
    const watch = watches.get(INSTALLATION_ID)
    watch.witness(before)
    await service.createTenant()
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

  it('follows no head that no server wrote: that is an alarm', async () => {
    const { sql } = service.services
    const { tenant_id } = owner.tenant
    const { watch, compare } = newWatch()
    await sql`update heads set last_id = last_id + 1 where tenant_id = ${tenant_id}`
    try {
      expect(await compare()).toEqual([])
      expect([idOf(watch.witnessed), watch.alarm?.reason]).toEqual([
        late?.last_id,
        'the head of the audit chain was not written by this server',
      ])
    } finally {
      await sql`update heads set last_id = last_id - 1 where tenant_id = ${tenant_id}`
    }
  })
})

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

describe('comparisons that fail', () => {
  const failing = (sql: Sql, table: string) =>
    new Proxy(sql, {
      apply: (target, self, args) =>
        (args[0] as string[]).some((text) => text.includes(table))
          ? Promise.reject(new Error(`no answer from ${table}`))
          : Reflect.apply(target, self, args),
    })

  it.each(['heads', 'chain_alarms', 'audit_log'])(
    'because %s cannot be read are overdue after some time, until one succeeds',
    async (table) => {
      let now = 0
      let isLocked = true
      const comparisons = new Comparisons(() => now)
      const { sql } = service.services
      const locked = failing(sql, table)
      const either = new Proxy(sql, { apply: (_, self, args) => Reflect.apply(isLocked ? locked : sql, self, args) })
      const { compare } = newWatch({ comparisons, sql: either })
      now = OVERDUE_MS - 1
      await expect(compare()).rejects.toThrow(`no answer from ${table}`)
      expect(comparisons.isOverdue).toBe(false)
      now = OVERDUE_MS
      expect(comparisons.isOverdue).toBe(false) // a process that was only suspended
      await expect(compare()).rejects.toThrow()
      expect(() => comparisons.assertNotOverdue()).toThrow(ComparisonOverdueError)
      isLocked = false
      expect(await compare()).toEqual([])
      expect([comparisons.isOverdue, comparisons.age]).toEqual([false, 0])
    },
  )

  it('for too long have calls refused, whether they leave an entry or not, and /health and the metrics say so', async () => {
    const { comparisons } = service.services.committer.watches
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'watched' })).body
    const calls = [
      () => owner.call('POST', `/v1/keys/${id}/wrap`, { dek: Buffer.alloc(32, 1).toString('base64') }),
      () => owner.call('POST', '/v1/hash', { key_id: id, value: 'x' }),
    ]
    const age = vi.spyOn(comparisons, 'age', 'get').mockReturnValue(OVERDUE_MS)
    const overdue = vi.spyOn(comparisons, 'isOverdue', 'get').mockReturnValue(true)
    for (const call of calls) {
      const { status, body } = await call()
      expect([status, body.code]).toEqual([503, 'E_UNAVAILABLE'])
    }
    const { status, body } = await owner.call('GET', '/health')
    expect([status, body.status, body.database]).toEqual([503, 'degraded', 'unwatched'])
    expect(await (await fetch(`${service.url}/metrics`)).text()).toMatch(/^eaas_audit_watch_age_seconds 10$/m)
    age.mockRestore()
    overdue.mockRestore()
    for (const call of calls) expect((await call()).status).toBe(200)
    late = await readHead()
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

describe('a rollback that an operator accepted', () => {
  let seer: ReturnType<typeof newWatch>
  let accepted: { entry_id: number; policy_version: number }
  let find: (of: Witness, key?: KeyObject, sql?: Transaction) => Promise<boolean>
  /** the heads before the rollback: of an entry that the log still has, and of the one that was lost */
  let before: { kept: Head; lost: Head }

  beforeAll(async () => {
    const { services } = service
    const where = { tenant_id: owner.tenant.tenant_id, auditKey }
    find = async (of, auditKey = where.auditKey, sql = services.sql as unknown as Transaction) =>
      (await findAcceptedRollback(sql, { ...where, auditKey }, of)) !== undefined
    seer = newWatch()
    before = { kept: late as Head, lost: lost() }
    seer.watch.witness(before.lost)
    await seer.compare()
    accepted = await acceptRollback(services, owner.tenant.tenant_id, { reason: 'a drill' })
  })
  afterAll(async () => {
    late = await readHead()
  })

  it('ends the alarm of a process that saw what was lost', async () => {
    expect(await seer.compare()).toEqual([])
    expect(seer.watch.alarm).toBeUndefined()
  })

  it('ends every alarm about what was lost: the row of one that somebody puts back is deleted, and no alarm', async () => {
    await write(before.lost)
    const { watch, compare, acceptedRows } = newWatch()
    expect(await compare()).toEqual([])
    expect([watch.alarm, await rowsBy(auditKey), acceptedRows]).toEqual([undefined, [], [owner.tenant.tenant_id]])
  })

  it.each<[what: string, of: () => Head]>([
    ['of after it', () => ({ ...before.lost, policy_version: accepted.policy_version })],
    ['of an entry beyond it', () => ({ ...before.lost, last_id: before.lost.last_id + 1 })],
    ['without a witness', () => ({ ...before.lost, last_id: 0, policy_version: 0 })],
    ['whose policy version is not proven', () => ({ ...before.lost, policy_version: 0 })],
  ])('ends no alarm %s', async (_, of) => {
    await write(of())
    const { watch, compare, acceptedRows } = newWatch()
    expect(await compare()).toEqual([])
    expect([watch.alarm?.reason, acceptedRows]).toEqual(['it went back', []])
  })

  it.each<[what: string, isThere: boolean]>([
    ['no alarm about an entry that it kept, if the log has another one', false],
    ['an alarm about an entry that it kept, if the log has it', true],
  ])('ends %s', async (_, isThere) => {
    const { kept } = before
    await service.services.sql`delete from chain_alarms`
    const watch = newWatch()
    const { tenant_id } = owner.tenant
    await write(kept)
    await acceptRollback(service.services, tenant_id, { reason: 'a drill' })
    await write(isThere ? kept : { ...kept, hash: new Uint8Array(32) })
    expect(await watch.compare()).toEqual([])
    expect(watch.watch.alarm === undefined).toBe(isThere)
  })

  it('is of what was lost, and of nothing that was witnessed beyond it or since', async () => {
    expect(await find(lost())).toBe(true)
    expect(await find({ ...lost(), last_id: lost().last_id + 1 })).toBe(false)
    expect(await find({ ...lost(), policy_version: accepted.policy_version })).toBe(false)
  })

  it('is not believed without the MAC of the server', async () => {
    expect(await find(lost(), createSecretKey(Buffer.alloc(32)))).toBe(false)
  })

  it.each([
    ['is known by the mark of a purge up to it', false],
    ['is not known by a mark that no server wrote', true],
  ])('%s', async (_, isForged) => {
    const { sql } = service.services
    const { tenant_id } = owner.tenant
    const purged_through = accepted.entry_id - 1
    const hash = await findEntryHash(sql, tenant_id, purged_through)
    const created_at = '2026-01-01T00:00:00.000Z'
    const facts = { tenant_id, purged_through, hash, entries: purged_through, cutoff: created_at, created_at }
    const mark = { ...facts, previous_mac: NO_MARK_MAC } as PurgeMark
    const mac = isForged ? new Uint8Array(32) : purgeMarkMac(auditKey, mark)
    const purging = sql.begin(async (transaction) => {
      await transaction`insert into purge_marks ${transaction({ ...mark, mac })}`
      await transaction`delete from audit_log where tenant_id = ${tenant_id} and id <= ${purged_through}`
      throw [await find(lost(), auditKey, transaction)]
    })
    expect(await purging.catch((found) => found)).toEqual([!isForged]) // a rollback, since the log must stay
  })

  it('is of what this process has an alarm about, although the row is exchanged before it is locked', async () => {
    const { services } = service
    const { tenant_id } = owner.tenant
    const head = await readHead()
    services.committer.watches.get(tenant_id).learn({ reason: 'a drill', witness: { ...head, last_id: 98 } })
    await service.services.sql`delete from chain_alarms`
    await write(head)
    expect(await acceptRollback(services, tenant_id, { reason: 'a drill' })).toMatchObject({
      witnessed_id: 98,
      compared: null,
    })
  })
})

describe('a log that lost nothing that is known of', () => {
  it('is said to have gone back to before a change if it has as many entries', async () => {
    const { sql } = service.services
    const head = late as Head
    const watch = createHeadWatches(() => undefined).get(owner.tenant.tenant_id)
    watch.witness({ ...head, policy_version: head.policy_version + 1 })
    await expect(watch.read(sql, auditKey)).rejects.toThrow(
      `went back to before a change of rights (policy version ${head.policy_version + 1}, now ${head.policy_version})`,
    )
    const longer = createHeadWatches(() => undefined).get(owner.tenant.tenant_id)
    longer.witness({ ...head, last_id: head.last_id + 1 })
    await expect(longer.read(sql, auditKey)).rejects.toThrow(`from entry ${head.last_id + 1} to ${head.last_id}:`)
  })

  it('is said to end with an entry of a time, after which a change may be undone, when the operator accepts its alarm', async () => {
    const accept = (...log: string[]) =>
      runCommand(['audit', 'accept-rollback', ...log, '--reason', 'a drill'], {
        database: service.database,
        rootKey: ROOT_KEY,
      })
    const own = ['--tenant', owner.tenant.tenant_id]
    const of = ({ last_id, created_at }: Head) => `${last_id}, of ${created_at}.`
    const seen = await readHead()
    await owner.call('POST', '/v1/keys', { name: 'after it' })
    const last = await readHead()
    await write(seen)
    const { code, stdout } = await accept(...own)
    expect([code, stdout]).toEqual([0, expect.stringContaining(`could be compared with is ${of(seen)}`)])
    expect(stdout).toContain(
      `the log ended with entry ${of(last)} If something was changed after that time, the change is undone`,
    )
    await write({ ...(await readHead()), last_id: 99 })
    const lossy = (await accept(...own)).stdout
    expect(lossy).not.toContain('could be compared')
    expect(lossy).toContain('The changes of the lost entries are undone')
    await write({ ...(await readHead()), last_id: 0 })
    expect((await accept(...own)).stdout).toContain('could be compared with nothing')
    expect((await accept('--installation')).stderr).toContain("there is no alarm about the installation's log")
  })
})

describe('rows that somebody made long or many', () => {
  const long = Buffer.alloc(5_000)
  class Undo extends Error {}
  /** Works in a transaction that is rolled back. */
  const undone = (work: (sql: Transaction) => Promise<void>) =>
    service.services.sql
      .begin(async (sql) => {
        await work(sql)
        throw new Undo()
      })
      .catch((error: unknown) => {
        if (!(error instanceof Undo)) throw error
      })
  const sizes = (row: object | undefined) =>
    Object.values(row ?? {}).flatMap((value) => (value instanceof Uint8Array ? [value.length] : []))

  it('are read of alarms up to what a server writes', () =>
    undone(async (sql) => {
      await sql`
        insert into chain_alarms select gen_random_uuid(), repeat('x', 5000), 0, ${long}, 0, now(), ${long} from generate_series(1, 3)`
      const rows = await listAlarms(sql, 2)
      expect(rows).toHaveLength(2)
      for (const row of rows) {
        expect(row.reason).toHaveLength(1_000)
        expect(sizes(row)).toEqual([33, 33])
      }
    }))

  it('are read of heads up to what a server writes', () =>
    undone(async (sql) => {
      const { tenant_id } = owner.tenant
      await sql`update heads set hash = ${long}, mac = ${long} where tenant_id = ${tenant_id}`
      await sql`update tenants set wrapped_audit_key = ${long} where tenant_id = ${tenant_id}`
      const witnesses = [early as Head]
      const [compared] = await compareWitnesses(sql, witnesses)
      expect(compared).toMatchObject({ tenant_id, is_contradicted: false })
      expect(sizes(compared?.head)).toEqual([33, 33])
      expect(sizes(await findHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes(await lockHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeadsWithKeys(sql, [tenant_id]))[0])).toEqual([33, 33, 256])
      expect(sizes((await listCurrentHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([33, 33, 256])
    }))

  it('are read of anchored heads up to what the anchor covers, and one more', () =>
    undone(async (sql) => {
      await sql`delete from anchored_heads`
      await sql`
        insert into anchored_heads select gen_random_uuid(), 1, ${long}, 1, now(), ${long} from generate_series(1, 3)`
      expect(await listAnchoredHeads(sql)).toHaveLength(3)
      const rows = await listAnchoredHeads(sql, 1)
      expect(rows.map(sizes)).toEqual([
        [33, 33],
        [33, 33],
      ])
    }))

  it('are not compared where they are more than the tenants: one of them could keep another from being read', () =>
    undone(async (sql) => {
      const { tenant_id } = owner.tenant
      await sql`alter table heads drop constraint heads_pkey cascade`
      await sql`insert into heads select h.* from heads as h, generate_series(1, 3) where tenant_id = ${tenant_id}`
      await expect(compareWitnesses(sql, [early as Head])).rejects.toThrow('more than once')
      await expect(findHead(sql, tenant_id)).rejects.toThrow('more than once')
    }))
})

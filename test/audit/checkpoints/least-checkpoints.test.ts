// What a server witnessed is the least that its checkpoint file gets, whatever the database shows for the one statement that lists the heads:
// by a lock between two statements, whoever owns the database can do that.
import { type FileHandle, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodePublicKey } from '../../../packages/audit/src/formats/checkpoint.js'
import { ChainAlarmError } from '../../../packages/server/src/core/audit/append-errors.js'
import { alarmMac, type KeptHead } from '../../../packages/server/src/core/audit/formats/chain.js'
import { findHead, readChain } from '../../../packages/server/src/core/store/audit.js'
import {
  createCheckpointEmitter,
  createWitnessEmitter,
} from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { acceptRollback } from '../../../packages/server/src/guard/operations/accept-rollback.js'
import { writeAlarm } from '../../../packages/server/src/guard/store/alarms.js'
import { HeadWatches, watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { readKeptFile } from '../../../packages/server/src/guard/watch/kept-witnesses.js'
import { keptEntries } from '../../support/audit/checkpoint-file.js'
import { makeFullPipe } from '../../support/full-pipe.js'
import { startScheduleOf } from '../../support/service/schedule.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { copyAll, removeAll } from '../installation/installation-scene.js'

type Sql = Service['services']['sql']

let folder: string
let service: Service
let owner: Caller
let tenant_id: string
/** what happens to the heads before they are listed; it is undone afterwards */
let change: (sql: Sql) => Promise<unknown>
let failed: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-least-'))
  service = await startService()
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  change = async () => undefined
  failed = []
})
afterEach(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Emits, where another head may be shown to the statement that lists the heads, and to no other. */
function emitter(of = service.services): () => Promise<void> {
  const { sql } = of
  const lying = (strings: TemplateStringsArray, ...values: never[]) =>
    /from heads h order by/.test(strings.join('?')) ? lie(strings, values) : sql(strings, ...values)
  const lie = async (strings: TemplateStringsArray, values: never[]) => {
    const heads = await sql`select * from heads where tenant_id = ${tenant_id}`
    await change(sql)
    const listed = await sql(strings, ...values)
    await putHeads(heads)(sql)
    return listed
  }
  const services = { ...of, sql: Object.assign(lying, sql) as unknown as Sql }
  return createCheckpointEmitter(services, join(folder, 'checkpoints'), (_, id) => void failed.push(id))
}

const hide = (sql: Sql) => sql`delete from heads where tenant_id = ${tenant_id}`
const putHeads = (heads: readonly Record<string, unknown>[]) => async (sql: Sql) => {
  await hide(sql)
  await sql`insert into heads ${sql(heads)}`
}
const grow = () => owner.call('POST', '/v1/keys', { name: crypto.randomUUID() })

const emitted = () => keptEntries(join(folder, 'checkpoints'), tenant_id)

describe('a tenant is not skipped', () => {
  it.each([
    ['the genuine head', (older: Record<string, unknown>[]) => putHeads(older)],
    ['the id', () => (sql: Sql) => sql`update heads set last_id = 1 where tenant_id = ${tenant_id}`],
  ])('if the list has %s of its last line, which is behind what was witnessed: it is alarmed about', async (_, lie) => {
    const emit = emitter()
    const older = await service.services.sql`select * from heads where tenant_id = ${tenant_id}`
    await emit()
    await grow()
    change = lie(older)
    await emit()
    expect(failed).toEqual([tenant_id])
    expect(watchesOf(service.services.committer).get(tenant_id).alarm).toMatchObject({ witness: { last_id: 2 } })
    expect((await owner.call('GET', '/v1/keys')).status).toBe(500)
  })

  it('if the list leaves it out: what was witnessed is written, once', async () => {
    const emit = emitter()
    await grow()
    change = hide
    await emit()
    await emit()
    await grow()
    await emit()
    change = async () => undefined
    await emit()
    expect([await emitted(), failed]).toEqual([[2, 3], []])
  })

  it('if its head has another MAC than in its last line', async () => {
    const emit = emitter()
    await emit()
    await service.services.sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${tenant_id}`
    await emit()
    expect([await emitted(), failed]).toEqual([[1], [tenant_id]])
  })
})

it('what was witnessed of a tenant is written although its alarm knows less, once', async () => {
  const { services } = service
  const watch = watchesOf(services.committer).get(tenant_id)
  const emit = createWitnessEmitter(services, join(folder, 'checkpoints'))
  await grow()
  const early = watch.witnessed
  await grow()
  watch.learn({ reason: 'a drill', witness: early })
  await emit([watch])
  await emit([watch])
  expect(await emitted()).toEqual([3, 2])
})

it('what was witnessed is written once, although an alarm has it without its policy version', async () => {
  const { services } = service
  const watch = watchesOf(services.committer).get(tenant_id)
  await grow()
  watch.learn({ reason: 'a drill', witness: { ...(watch.witnessed ?? expect.unreachable()), policy_version: 0 } })
  await createWitnessEmitter(services, join(folder, 'checkpoints'))([watch])
  expect(await emitted()).toEqual([2])
})

it('a rollback that an operator accepted explains a head that is behind', async () => {
  const { services } = service
  const putBack = await copyAll(service, tenant_id)
  await grow()
  await grow()
  const emit = emitter()
  await emit()
  await removeAll(service, tenant_id)
  await putBack(service)
  const { auditKey } = (await services.states.find(tenant_id)) ?? expect.unreachable()
  const { last_id, hash, policy_version } =
    watchesOf(services.committer).get(tenant_id).witnessed ?? expect.unreachable()
  const alarm = { tenant_id, reason: 'a drill', last_id, hash, policy_version, raised_at: new Date().toISOString() }
  await writeAlarm(services.sql, { ...alarm, mac: alarmMac(auditKey, alarm) })
  await acceptRollback(services, tenant_id, { reason: 'a drill' })
  await emit()
  expect([await emitted(), failed]).toEqual([[3, 2], []])
})

/** The schedule of a process that writes into the file. */
const schedule = (options: Omit<Parameters<typeof startScheduleOf>[1], 'config'>) =>
  startScheduleOf(service, { config: { checkpointFile: join(folder, 'checkpoints') }, ...options })

it('what was witnessed is in the file before a round reads anything, and gets no second line from it', async () => {
  /** the entries of our tenant's lines when the round begins to read */
  let before: number[] = []
  const compareAnchored = async () => {
    before = await emitted()
    return []
  }
  const { stop, emitCheckpoints, writeLastWitnesses } = schedule({ compareAnchored })
  await stop()
  await grow()
  await emitCheckpoints()
  expect(before.at(-1)).toBe(2)
  expect(await emitted()).toEqual(before)
  await grow()
  await writeLastWitnesses()
  expect([before.at(-1), await emitted()]).toEqual([3, before])
})

it('what was witnessed of a log that cannot be compared is in the file at once', async () => {
  const { comparisons } = watchesOf(service.services.committer)
  const { stop } = schedule({
    sharedAlarms: {
      compare: async () => {
        comparisons.failedOf(tenant_id)
        return []
      },
    },
  })
  await grow()
  const last_id = watchesOf(service.services.committer).get(tenant_id).witnessed?.last_id
  await expect.poll(async () => (await emitted()).at(-1), { timeout: 20_000 }).toBe(last_id)
  await stop()
})

describe('a file that takes nothing', { timeout: 60_000 }, () => {
  let stuck: string
  let reader: FileHandle
  beforeEach(async () => {
    stuck = join(folder, 'stuck')
    reader = await makeFullPipe(stuck)
  })
  afterEach(() => reader.close()) // ends what is being written

  it('holds up no comparison, anchor or stop', async () => {
    const watches = watchesOf(service.services.committer)
    watches.get(tenant_id).learn({ reason: 'a drill', witness: watches.get(tenant_id).witnessed })
    let compared = 0
    let anchored = 0
    const errors: string[] = []
    const { stop, emitCheckpoints, writeLastWitnesses } = startScheduleOf(service, {
      config: { checkpointFile: stuck },
      sharedAlarms: {
        compare: async () => {
          compared += 1
          return []
        },
      },
      compareAnchored: async () => {
        anchored += 1
        return []
      },
      log: {
        info: () => undefined,
        warn: () => undefined,
        error: (details: unknown) => void errors.push(String((details as { err?: Error }).err)),
        fatal: () => undefined,
      },
    })
    await expect.poll(() => compared, { timeout: 20_000 }).toBeGreaterThan(2)
    const before = anchored
    await expect(emitCheckpoints()).rejects.toThrow('takes nothing')
    expect(anchored).toBeGreaterThan(before)
    expect(errors).toContainEqual(expect.stringContaining(`${stuck} (EAAS_CHECKPOINT_FILE) takes nothing`))
    const from = performance.now()
    await stop()
    await expect(writeLastWitnesses()).rejects.toThrow('takes nothing')
    expect(performance.now() - from).toBeLessThan(5_000)
  })
})

describe('a log that was followed in part, to an entry without a MAC of a head', () => {
  /** A tenant that lost entries long ago, which was accepted, and has gone on since; `putBack` takes it back to the acceptance. */
  async function accepted() {
    const { services } = service
    const { auditKey } = (await services.states.find(tenant_id)) ?? expect.unreachable()
    const lost = { last_id: 500, hash: new Uint8Array(32), policy_version: 1 }
    const alarm = { tenant_id, reason: 'a drill', ...lost, raised_at: new Date().toISOString() }
    await writeAlarm(services.sql, { ...alarm, mac: alarmMac(auditKey, alarm) })
    await acceptRollback(services, tenant_id, { reason: 'a drill' })
    const insert = await copyAll(service, tenant_id)
    const putBack = async () => {
      await removeAll(service, tenant_id)
      await insert(service)
    }
    await grow()
    const sealed = (await findHead(services.sql, tenant_id)) ?? expect.unreachable()
    const watch = new HeadWatches(() => undefined).get(tenant_id)
    watch.witness(sealed)
    await grow()
    await grow()
    const head = (await findHead(services.sql, tenant_id)) ?? expect.unreachable()
    const where = { tenant_id, after_id: sealed.last_id - 1, through_id: head.last_id - 1, limit: 10 }
    expect(watch.follow({ head, stretch: await readChain(services.sql, where) }, auditKey)).toBe('in part')
    expect(watch.witnessed?.last_id).toBe(head.last_id - 1)
    /** Whether a process that is told this much of the log serves what is there now. */
    const serves = async (tell: (watches: HeadWatches) => void) => {
      const watches = new HeadWatches(() => undefined)
      tell(watches)
      const reading = watches.get(tenant_id).read(services.sql, auditKey)
      return reading.then(
        () => true,
        (error: Error) => {
          expect(error).toBeInstanceOf(ChainAlarmError)
          return false
        },
      )
    }
    return { sealed, watch, putBack, serves }
  }

  const readFileOf = ({ services }: Service) =>
    readKeptFile(join(folder, 'checkpoints'), encodePublicKey(services.signingKey), {
      isThorough: false,
      findAuditKeys: async () => new Map(),
    })

  it('is stated by the last head with a MAC, which no rollback that was accepted before explains', async () => {
    const { sealed, watch, putBack, serves } = await accepted()
    const emit = createWitnessEmitter(service.services, join(folder, 'checkpoints'))
    await emit([watch])
    await emit([watch])
    expect(await emitted()).toEqual([sealed.last_id])
    const { witnesses } = await readFileOf(service)
    const tell = (watches: HeadWatches) => watches.get(tenant_id).held.remember(witnesses.get(tenant_id) as KeptHead)
    expect(await serves(tell)).toBe(true)
    await putBack()
    expect(await serves(tell)).toBe(false)
  })

  it('is stated by that head in a round too, which may not find it', async () => {
    const { sealed, watch } = await accepted()
    const { committer, ...services } = service.services
    const watches = new HeadWatches(() => undefined)
    watches.get(tenant_id).held.remember(watch.witnessed as KeptHead)
    change = hide
    const lying = emitter({ ...services, committer: { ...committer, guard: watches } })
    await lying()
    expect(await emitted()).toEqual([sealed.last_id])
  })

  it('counts from the last line with a MAC on, where a file has a line of that entry', async () => {
    const { sealed, watch, putBack, serves } = await accepted()
    const emit = createWitnessEmitter(service.services, join(folder, 'checkpoints'))
    await emit([{ tenant_id, witnessed: sealed, alarm: undefined }])
    const witnessed = { ...(watch.witnessed as KeptHead), sealed: undefined }
    await emit([{ tenant_id, witnessed, alarm: undefined }])
    const { witnesses } = await readFileOf(service)
    expect(witnesses.get(tenant_id)).toMatchObject({ last_id: sealed.last_id + 1, line: 2 })
    const tell = (watches: HeadWatches) => watches.get(tenant_id).held.remember(witnesses.get(tenant_id) as KeptHead)
    expect(await serves(tell)).toBe(true)
    await putBack()
    expect(await serves(tell)).toBe(false)
  })

  it('counts from no line that somebody raised, which no accepted rollback could end', async () => {
    const { sealed, watch, serves } = await accepted()
    const kept = { ...(watch.witnessed as KeptHead), sealed: { ...sealed, policy_version: 2 ** 50 } }
    expect(await serves((watches) => watches.get(tenant_id).held.remember(kept))).toBe(true)
  })
})

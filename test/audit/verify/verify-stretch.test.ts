// Verification of a part of a log, of a log since a kept checkpoint, and of several logs at once.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { verifyAudit } from '../../../packages/server/src/core/api/audit.js'
import type { Route } from '../../../packages/server/src/core/api/route.js'
import { verifyLog } from '../../../packages/server/src/core/audit/verify/verify.js'
import { ROUTES } from '../../../packages/server/src/core/http/endpoints.js'
import { serveRoutes } from '../../../packages/server/src/core/http/serve.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { verifyAll } from '../../../packages/server/src/operate/jobs/verify-all.js'
import { backend } from '../../support/database/database.js'
import { runAuditCommand, runCommand } from '../../support/service/command-host.js'
import { connectTo } from '../../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

const DAY_MS = 86_400_000
const START = Date.parse('2026-03-01T00:00:00.000Z')
const ALL = 9

let now = START
let service: Service
let owner: Caller
let tenant_id: string
/** a note of entry 6 */
let kept: string
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-stretch-'))
  service = await startService({ now: () => now })
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

// Entry 1 creates the tenant; entries 2 to 9 create a key each, ten days apart.
beforeEach(async () => {
  now = START
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  for (let id = 2; id <= ALL; id++) {
    now += 10 * DAY_MS
    await owner.call('POST', '/v1/keys', { name: `key ${id}` })
    if (id === 6) kept = (await owner.call('GET', '/v1/audit/checkpoint')).body.checkpoint
  }
})

async function verify(query: Record<string, string | number> = {}) {
  const { status, body } = await owner.call('GET', `/v1/audit/verify?${new URLSearchParams(query as never)}`)
  return { status, ...body }
}

const edit = (id: number) => service.services.sql`
  update audit_log set actor = 'somebody else' where tenant_id = ${tenant_id} and id = ${id}`
const cutAfter = (id: number) => service.services.sql`
  delete from audit_log where tenant_id = ${tenant_id} and id > ${id}`

describe('a stretch of the log', () => {
  it('is verified alone, and counted', async () => {
    expect(await verify({ after_id: 3, through_id: 7 })).toMatchObject({ valid: true, verified_entries: 4 })
    expect(await verify({ through_id: 1 })).toMatchObject({ valid: true, verified_entries: 1 })
    expect(await verify({ after_id: ALL })).toMatchObject({ valid: true, verified_entries: 0 })
    expect(await verify({ after_id: 3, through_id: 99 })).toMatchObject({ valid: true, verified_entries: ALL - 3 })
  })

  it('is not valid where one of its entries is altered or missing, whatever is with the others', async () => {
    await edit(5)
    expect(await verify({ after_id: 3, through_id: 7 })).toMatchObject({ valid: false, broken_at: 5 })
    expect(await verify({ after_id: 4 })).toMatchObject({ valid: false, broken_at: 5 })
    expect(await verify({ through_id: 4 })).toMatchObject({ valid: true })
    expect(await verify({ after_id: 5 })).toMatchObject({ valid: true })
    await service.services.sql`delete from audit_log where tenant_id = ${tenant_id} and id = 7`
    expect(await verify({ after_id: 5 })).toMatchObject({ valid: false, broken_at: 7, reason: 'entry_missing' })
    expect(await verify({ after_id: 7 })).toMatchObject({ valid: false, broken_at: 7, reason: 'entry_missing' })
  })

  it('is held against the head where it goes up to the end, and not before', async () => {
    await cutAfter(7)
    expect(await verify({ after_id: 3 })).toMatchObject({ valid: false, broken_at: 8, reason: 'entry_missing' })
    expect(await verify({ after_id: 3, through_id: 7 })).toMatchObject({ valid: true })
    for (const [edit, reason] of [
      [service.services.sql`update heads set last_id = 999 where tenant_id = ${tenant_id}`, 'head_forged'],
      [service.services.sql`update heads set last_id = 7 where tenant_id = ${tenant_id}`, 'head_forged'],
      [service.services.sql`delete from heads where tenant_id = ${tenant_id}`, 'head_missing'],
    ] as const) {
      await edit
      for (const through of [{}, { through_id: 7 }, { through_id: 8 }, { through_id: 99 }]) {
        expect(await verify({ after_id: 3, ...through })).toMatchObject({ valid: false, broken_at: 8, reason })
      }
      expect(await verify({ after_id: 3, through_id: 6 })).toMatchObject({ valid: true, verified_entries: 3 })
      const { verdicts } = await verifyAll(service.services)
      const verdict = verdicts.find((one) => one.tenant_id === tenant_id)
      expect(verdict).toMatchObject({ valid: false, verified_entries: 7, last_id: 7 })
    }
  })

  it('goes on from a kept checkpoint, and is not valid where the log was written anew before it', async () => {
    const from = { after_id: 6, checkpoint: kept }
    expect(await verify(from)).toMatchObject({
      valid: true,
      verified_entries: 3,
      checkpoint: { id: 6, compared: true },
    })
    await service.services.sql`
      update audit_log set hash = ${Buffer.alloc(32)} where tenant_id = ${tenant_id} and id = 6`
    expect(await verify(from)).toMatchObject({ valid: false, broken_at: 6, reason: 'checkpoint_mismatch' })
  })

  it('says when the checkpoint was of an entry that it has not', async () => {
    const answer = { valid: true, checkpoint: { id: 6, compared: false } }
    expect(await verify({ after_id: 7, checkpoint: kept })).toMatchObject(answer)
    expect(await verify({ through_id: 5, checkpoint: kept })).toMatchObject(answer)
    expect(await verify({ checkpoint: kept })).toMatchObject({ valid: true, checkpoint: { id: 6, compared: true } })
    now += 15 * DAY_MS
    await purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    expect(await verify({ checkpoint: kept })).toMatchObject({ ...answer, purged_through: 7 })
  })

  it('begins after the newest purge mark at the earliest', async () => {
    now += 5 * DAY_MS
    const { purged_through } = await purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    expect(purged_through).toBe(6)
    const restated = 7 // the tenant, its API key, and keys 2 to 6
    expect(await verify({ after_id: 2 })).toMatchObject({ valid: true, verified_entries: ALL + restated + 1 - 6 })
    await service.services.sql`update purge_marks set entries = 1 where tenant_id = ${tenant_id}`
    expect(await verify({ after_id: 7 })).toMatchObject({ valid: false, broken_at: 1, reason: 'mark_forged' })
  })

  it.each([
    ['after_id', { after_id: ALL + 1 }],
    ['through_id', { after_id: 5, through_id: 5 }],
    ['through_id', { after_id: 5, through_id: 4 }],
    ['through_id', { through_id: 0 }],
    ['after_id', { after_id: -1 }],
  ])('is refused, naming %s, where there is none: %j', async (field, query) => {
    const { status, code, detail } = await verify(query)
    expect([status, code]).toEqual([400, 'E_VALIDATION'])
    expect(detail).toContain(field)
  })
})

function gate<Value = void>() {
  let open: (value: Value) => void = () => undefined
  const opened = new Promise<Value>((resolve) => {
    open = resolve
  })
  return { opened, open: (value: Value) => open(value) }
}

// The embedded database has one connection: what holds the log there holds everything.
describe.skipIf(backend() === 'embedded')('verifications at once', () => {
  /** While the log is locked, verifications that have begun can't end. */
  async function whileLocked<T>(ask: () => { first: Promise<void>; all: Promise<T>[] }): Promise<T[]> {
    const [locked, released] = [gate(), gate()]
    const holding = service.services.sql.begin(async (sql) => {
      await sql`lock table audit_log in access exclusive mode`
      locked.open()
      await released.opened
    })
    await locked.opened
    const asked = ask()
    await asked.first
    released.open()
    await holding
    return Promise.all(asked.all)
  }
  const verifyOf = async (caller: Caller) => (await caller.call('GET', '/v1/audit/verify')).status

  // By a connection of its own: those of the service may all be waiting.
  let direct: ReturnType<typeof connectTo>
  beforeAll(() => {
    direct = connectTo(service.database)
  })
  afterAll(() => direct?.end())

  const untilOneWaits = () =>
    vi.waitFor(async () => {
      const waiting = await direct`select 1 from pg_locks where relation = 'audit_log'::regclass and not granted`
      expect(waiting).not.toEqual([])
    }, 20_000)

  it('are two; a third one waits for its turn', async () => {
    const others = [await service.createTenant(), await service.createTenant()]
    for (const caller of others) await caller.call('GET', '/v1/keys') // loads its API key, for which the log is read
    const all = await whileLocked(() => ({ first: untilOneWaits(), all: [owner, ...others].map(verifyOf) }))
    expect(all).toEqual([200, 200, 200])
  })

  it('of one tenant are shared, and leave room for another', async () => {
    const other = await service.createTenant()
    await other.call('GET', '/v1/keys') // loads its API key, for which the log is read
    const before = await owner.call('GET', '/v1/audit/verify')
    const all = await whileLocked(() => {
      const asked = Array.from({ length: 12 }, () => verifyOf(owner))
      return { first: untilOneWaits(), all: [...asked, verifyOf(other)] }
    })
    expect(all).toEqual(Array.from({ length: 13 }, () => 200))
    expect(await owner.call('GET', '/v1/audit/verify')).toMatchObject({ status: 200, body: before.body })
  })
})

describe('a verification that nobody waits for', () => {
  it('ends', async () => {
    const state = await service.services.states.find(tenant_id)
    if (!state) throw new Error('no state')
    const { auditKey, rowKey } = state
    const options = { tenant_id, auditKey, rowKey, storeKeys: service.services.storeKeys }
    const gone = AbortSignal.abort(new Error('gone'))
    expect(await verifyLog(service.services.sql, options)).toMatchObject({ valid: true })
    await expect(verifyLog(service.services.sql, { ...options, signal: gone })).rejects.toThrow('gone')
    const scope = { signal: gone }
    await expect(performAsSystem(service.services, tenant_id, verifyAudit(scope))).rejects.toThrow('stopped waiting')
    expect(await verify()).toMatchObject({ status: 200, valid: true })
  })

  it('is told so when its client leaves, and not before', async () => {
    const app = Fastify()
    const [begun, ended] = [gate<AbortSignal>(), gate()]
    const row = ROUTES.find(({ operationId }) => operationId === 'verifyAudit')
    if (!row) throw new Error('no route')
    const operation: Route['operation'] = (input) => {
      const signal = input.signal?.()
      if (!signal) throw new Error('no signal')
      signal.addEventListener('abort', () => ended.open())
      return async () => ({
        entries: [],
        release: () => {
          begun.open(signal)
          return ended.opened
        },
      })
    }
    serveRoutes(app, service.services, [{ ...row, operation }])
    try {
      const url = await app.listen({ host: '127.0.0.1', port: 0 })
      const client = new AbortController()
      const headers = { authorization: `Bearer ${owner.secret}` }
      const left = fetch(`${url}${row.path}`, { headers, signal: client.signal }).catch(() => 'left')
      const signal = await begun.opened
      await sleep(200)
      expect(signal.aborted).toBe(false)
      client.abort()
      await ended.opened
      expect(await left).toBe('left')
    } finally {
      await app.close()
    }
  })
})

describe('eaas audit', () => {
  const eaas = (...args: string[]) => runCommand(['audit', ...args], { database: service.database, rootKey: ROOT_KEY })
  const file = async (name: string, text: string) => {
    const path = join(folder, name)
    await writeFile(path, text)
    return path
  }

  it('verifies a log, a stretch of it, and a log against a checkpoint, and says with its exit code what came of it', async () => {
    const note = await file('kept', kept)
    const whole = await eaas('verify', '--tenant', tenant_id, '--checkpoint', note)
    expect(whole).toMatchObject({ code: 0, stderr: '' })
    const [first, log, entries, agrees, key] = whole.stdout.split('\n')
    expect([first, log]).toEqual(['The log is valid.', `log         of tenant ${owner.tenant.name} (${tenant_id})`])
    expect(entries).toBe('entries     9 of 9 verified')
    expect(agrees).toMatch(/^checkpoint {2}agrees: entry 6 of the log, hash \S{44}, signed at 2026-\S+Z$/)
    expect(key).toMatch(/^by key {6}eaas-audit\+[0-9a-f]{8}\+/)
    const stretch = await eaas('verify', '--tenant', tenant_id, '--from', '3', '--to', '5', '--checkpoint', note)
    expect([stretch.code, stretch.stdout]).toEqual([5, expect.stringMatching(/^entries +3 of 9 verified\nUNUSED/m)])
    await edit(5)
    const broken = await eaas('verify', '--tenant', tenant_id)
    expect([broken.code, broken.stdout]).toEqual([1, expect.stringContaining('NOT valid: entry_altered, entry 5.')])
    const json = await eaas('verify', '--tenant', tenant_id, '--from', '6', '--json')
    const { body } = await owner.call('GET', '/v1/audit/verify?after_id=5')
    expect([json.code, JSON.parse(json.stdout)]).toEqual([0, { ...body, tenant_id, name: owner.tenant.name }])
    expect((await eaas('verify', '--tenant', tenant_id, '--from', '5', '--to', '4')).code).toBe(2)
    expect((await eaas('verify', '--tenant', tenant_id, '--from', '0')).code).toBe(2)
  })

  it('lists the newest entries, as a table or as JSON', async () => {
    const table = await eaas('list', '--tenant', tenant_id, '--limit', '2')
    const [heading, newest, older, , count] = table.stdout.split('\n')
    expect([table.code, heading]).toEqual([
      0,
      expect.stringMatching(/^ID +TIME +ACTION +KEY +ACTOR +ADDRESS +METADATA$/),
    ])
    expect([newest, older, count]).toEqual([
      expect.stringMatching(/^9 /),
      expect.stringMatching(/^8 /),
      `2 of 9 entries of tenant ${owner.tenant.name} (${tenant_id})`,
    ])
    const { key_id } = (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]
    const json = await eaas('list', '--tenant', tenant_id, '--key-id', key_id, '--action', 'key.create', '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ total: 1, logs: [{ id: 9, key_id }] })
    for (const wrong of [
      ['--key-id', 'x'],
      ['--limit', '0'],
      ['--action', 'login'],
    ]) {
      const { code, stdout, stderr } = await eaas('list', '--tenant', tenant_id, ...wrong)
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(`'${wrong[0]}`)])
    }
  })

  it('exports to a new file or to standard output, and leaves no half of an export', async () => {
    const out = join(folder, 'export.ndjson')
    expect(await eaas('export', '--tenant', tenant_id, '--out', out)).toMatchObject({ code: 0, stdout: '' })
    const printed = await eaas('export', '--tenant', tenant_id)
    expect([printed.code, printed.stdout.split('\n').length]).toEqual([0, ALL + 3])
    expect(await eaas('export', '--tenant', tenant_id, '--out', out)).toMatchObject({ code: 1 })
    const { stdout: publicKey } = await eaas('public-key')
    const verified = await runAuditCommand(['verify', out, '--public-key', publicKey.trim()])
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringMatching(/^entries +9, from 1 to 9$/m)])
    await service.services.sql`delete from audit_log where tenant_id = ${tenant_id} and id = 7`
    const before = await readdir(folder)
    const broken = await eaas('export', '--tenant', tenant_id, '--out', join(folder, 'broken.ndjson'))
    expect([broken.code, broken.stderr]).toEqual([1, expect.stringContaining('entry 7 is missing')])
    expect(await readdir(folder)).toEqual(before)
  })
})

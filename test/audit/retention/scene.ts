// A log of 60 entries, of which 23 are older than the retention, before each test; and what the suites of retention expect of it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { type PurgeTenantOptions, purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { purgeAudit } from '../../../packages/server/src/operate/operations/purge-audit.js'
import { restateRights } from '../../../packages/server/src/operate/operations/restate-rights.js'
import { copyTables, restoreTables, serverOf, startAnew } from '../../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS
/** The time of the newest entries, which the command line sees as the present; the log begins 400 days before. */
export const PRESENT = Date.now() - 60_000
export const START = PRESENT - 400 * DAY_MS
export const RETENTION = { retentionMonths: 12, maxShare: 1 }
/** entries 1 to OLD are over 12 months old in the present */
export const OLD = 23
export const ALL = 60
/** rows that grant rights and whose entries are all old: the tenant, its API key, and two keys; a purge restates them first */
export const RESTATED = 4

/** The service's clock, which a test sets. */
export const clock = { now: START }
export let service: Service
export let owner: Caller
export let tenant_id: string
export let keys: string[]
/** A directory for archives. */
export let folder: string

export interface Listed {
  id: number
  action: string
  key_id: string | null
  created_at: string
  metadata: Record<string, unknown>
}

/** All entries as they were before anything was purged. */
export let history: Listed[]

// Writes the logs without HTTP, which would take longer than what the tests are about.
let writer: ReturnType<typeof serverOf>

/** Starts the service for the tests of a file. */
export function useService(): void {
  beforeAll(async () => {
    clock.now = START // the file before may have set it
    folder = await mkdtemp(join(tmpdir(), 'eaas-retention-'))
    service = await startService({ now: () => clock.now })
    writer = serverOf(service)
  })
  afterAll(async () => {
    await writer?.app.close()
    await service?.close()
    await rm(folder, { recursive: true, force: true })
  })
}

/**
 * Starts the service and makes the log, which is as it was made before each test of a file: writing it takes thirty times as long as
 * restoring it.
 */
export function useLog(): void {
  useService()
  beforeAll(async () => {
    await makeLog()
    await copyTables(service.services.sql as never, 'made')
  })
  beforeEach(async () => {
    await restoreTables(service.services.sql as never, 'made')
    startAnew(service)
    clock.now = PRESENT
  })
}

/** Makes the log: 23 entries from 400 days ago on, 3 hours apart; then 37 from 200 days ago on, wraps and unwraps by two keys in turn. */
export async function makeLog(): Promise<void> {
  clock.now = START
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  const post = (path: string, body: unknown) => writer.call(owner.secret, 'POST', path, body)
  keys = []
  for (const name of ['a', 'b']) keys.push((await post('/v1/keys', { name })).body.key_id)
  const dek = Buffer.alloc(32, 1).toString('base64')
  const tokens = [dek, dek]
  for (let id = 4; id <= ALL; id++) {
    clock.now = id <= OLD ? START + id * 3 * 3_600_000 : PRESENT - (ALL - id) * 5 * DAY_MS
    const [key_id, at] = [keys[id % 2], id % 2]
    const path = id % 4 < 2 ? 'wrap' : 'unwrap'
    const body = path === 'wrap' ? { dek } : { wrapped_key: tokens[at] }
    if (path === 'unwrap' && tokens[at] === dek) {
      tokens[at] = (await post(`/v1/keys/${key_id}/wrap`, { dek })).body.wrapped_key
      continue
    }
    const answer = await post(`/v1/keys/${key_id}/${path}`, body)
    if (answer.status !== 200) throw new Error(`${path} should answer 200, but answered ${answer.status}`)
    if (path === 'wrap') tokens[at] = answer.body.wrapped_key
  }
  clock.now = PRESENT
  history = (await owner.call('GET', '/v1/audit?order=asc&limit=100')).body.logs
  expect([history.length, history[OLD - 1]?.created_at.slice(0, 10)]).toEqual([
    ALL,
    new Date(START + OLD * 3 * 3_600_000).toISOString().slice(0, 10),
  ])
}

/** Purges the tenant's log. */
export const purge = (options: Partial<PurgeTenantOptions> = {}) =>
  purgeTenant(service.services, tenant_id, { ...RETENTION, ...options })
export const archiveName = () => `${tenant_id}-through-${OLD}.ndjson`
/** Restates the rows, as if the server crashed before it marked anything. */
export const restate = () => performAsSystem(service.services, tenant_id, restateRights({ through_id: OLD }))
/** Writes only the mark, as if the server crashed before it deleted anything. */
export const mark = async () => {
  await restate()
  return performAsSystem(service.services, tenant_id, purgeAudit(RETENTION))
}

export async function rowsLeft(): Promise<number[]> {
  const rows = await service.services.sql<{ id: number }[]>`
    select id from audit_log where tenant_id = ${tenant_id} order by id`
  return rows.map(({ id }) => id)
}

/** Reads everything that is stored of the tenant's log. */
export async function stored() {
  const { sql } = service.services
  return {
    heads: [...(await sql`select * from heads where tenant_id = ${tenant_id}`)],
    marks: [...(await sql`select * from purge_marks where tenant_id = ${tenant_id}`)],
    counts: [...(await sql`select * from audit_counts where tenant_id = ${tenant_id} order by day, action, key_id`)],
    rows: await rowsLeft(),
  }
}

export async function expectVerifies(expected: { total: number; purged: number }): Promise<void> {
  const { status, body } = await owner.call('GET', '/v1/audit/verify')
  expect([status, body.valid, body.reason]).toEqual([200, true, undefined])
  expect([body.total_entries, body.verified_entries, body.purged_through]).toEqual([
    expected.total,
    expected.total,
    expected.purged,
  ])
}

/** Expects each filter, total and page of the list to show exactly the entries that the purge left, and those added after it. */
export async function expectShows(purged: number, more: Listed[]): Promise<void> {
  const left = [...history.filter(({ id }) => id > purged), ...more]
  const times = [START, START + 30 * 3_600_000, PRESENT - 100 * DAY_MS, PRESENT].map((time) =>
    new Date(time).toISOString(),
  )
  const filters: [string, (entry: Listed) => boolean][] = [
    ['', () => true],
    ...keys.map((key): [string, (entry: Listed) => boolean] => [`&key_id=${key}`, ({ key_id }) => key_id === key]),
    ['&action=key.wrap', ({ action }) => action === 'key.wrap'],
    ['&action=audit.purge', ({ action }) => action === 'audit.purge'],
    ['&action=key.create', ({ action }) => action === 'key.create'],
    [`&action=key.unwrap&key_id=${keys[0]}`, (entry) => entry.action === 'key.unwrap' && entry.key_id === keys[0]],
    ['&after_id=30&action=key.wrap', ({ action, id }) => action === 'key.wrap' && id > 30],
    ...times.flatMap((time): [string, (entry: Listed) => boolean][] => [
      [`&date_from=${time}`, ({ created_at }) => created_at >= time],
      [`&date_to=${time}`, ({ created_at }) => created_at <= time],
      [`&date_to=${time}&action=key.wrap`, ({ created_at, action }) => created_at <= time && action === 'key.wrap'],
      [`&date_from=${time}&key_id=${keys[1]}`, ({ created_at, key_id }) => created_at >= time && key_id === keys[1]],
    ]),
  ]
  for (const [query, matches] of filters) {
    const expected = left.filter(matches).map(({ id }) => id)
    const { body } = await owner.call('GET', `/v1/audit?order=asc&limit=100${query}`)
    expect([query, body.total, body.logs.map(({ id }: Listed) => id)]).toEqual([query, expected.length, expected])
    const middle = (await owner.call('GET', `/v1/audit?limit=5&offset=7${query}`)).body
    expect([query, middle.total, middle.logs.map(({ id }: Listed) => id)]).toEqual([
      query,
      expected.length,
      [...expected].reverse().slice(7, 12),
    ])
  }
}

/** The entries that purges added, in order. */
export async function added(): Promise<Listed[]> {
  return (await owner.call('GET', `/v1/audit?order=asc&limit=100&after_id=${ALL}`)).body.logs
}

export async function exported(query = '') {
  const { body } = await owner.call('GET', `/v1/audit/export${query}`)
  return verifyExport(splitLines([Buffer.from(body as string)]), {
    publicKey: (await owner.call('GET', '/v1/audit/checkpoint')).body.public_key,
  })
}

/** Twelve months before a time. */
export function monthsBack(time: number): string {
  const date = new Date(time)
  date.setUTCFullYear(date.getUTCFullYear() - 1)
  return date.toISOString()
}

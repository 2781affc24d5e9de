// A database with two tenants whose logs contain every action, and copies of it from three moments: each attack on the log
// starts from these rows, and restoring them undoes it. A test can start any number of servers on it, each with caches of its own.

import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type postgres from 'postgres'
import { buildApp } from '../../../packages/server/src/app.js'
import { createCommitter } from '../../../packages/server/src/core/audit/append/committer.js'
import { deriveRowKey } from '../../../packages/server/src/core/crypto/key-hierarchy.js'
import { doDueWork } from '../../../packages/server/src/core/jobs/due-work.js'
import type { Services } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { createTenantStates } from '../../../packages/server/src/core/runner/tenant-state.js'
import { HeadWatches } from '../../../packages/server/src/guard/watch/head-watch.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { type Entry, entriesOf, openAuditKey } from '../../independent/stored.js'
import { copyOfFilled } from '../database/filled-database.js'
import { columnsOf } from '../database/migrations.js'
import { ROOT_KEY, type Service, startService } from '../service/service.js'

const DAY_MS = 86_400_000
const START = Date.parse('2026-01-05T09:00:00.000Z')
/** Every table that a tenant has rows in. */
const TABLES = [
  'tenants',
  'heads',
  'audit_log',
  'audit_counts',
  'purge_marks',
  'keys',
  'key_versions',
  'api_keys',
  'unrecorded_calls',
  'tenant_peppers',
  'anchored_heads',
]

/** The moments of the copies: before the last changes of rights, before the last plain entries, at the end. */
export type Moment = 'early' | 'late' | 'final'

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the fields that they expect, whatever the answer is
  body: any
}

/** A server on the scene's database, with its own caches and its own record of the heads that it has witnessed. */
export interface Server {
  services: Services
  alarms: string[]
  call(secret: string, method: string, path: string, body?: unknown): Promise<Answer>
}

/** A tenant, with a name for each thing that the attacks need. */
export interface Target {
  tenant_id: string
  /** its first API key, which may do everything and is never attacked */
  secret: string
  auditKey: KeyObject
  rowKey: KeyObject
  /** the entries that exist at the end, in order */
  entries: readonly Entry[]
  /** the last entries that the last purge and the one before it deleted; 0 without such a purge */
  purged_through: number
  purgedBefore: number
  /** the key of most entries: active, of several versions */
  key_id: string
  /** a second active key */
  other_key_id: string
  /** active at `early`, disabled later */
  disabled_key_id: string
  /** a DEK wrapped under the first version of `key_id`, and under its current one */
  wrapped: { first: string; current: string }
  limited: ApiKey
  expired: ApiKey
  /** revoked after `early` */
  revoked: ApiKey
}

interface ApiKey {
  id: string
  secret: string
}

export interface Scene {
  service: Service
  sql: postgres.Sql
  /** the tenant whose log was purged twice, and the one whose log was never purged */
  purged: Target
  whole: Target
  now(): number
  /** Makes a server that has cached and witnessed nothing yet. */
  server(): Server
  /**
   * Ends the servers made so far, except these. Later servers reuse their applications, which take longer to build
   * than most attacks.
   */
  endServers(except?: Iterable<Server>): void
  /** Restores every row as it was at a moment. */
  restore(moment: Moment): Promise<void>
  close(): Promise<void>
}

/** Makes the scene on a copy of the database that the run filled: filling takes seven times the CPU time of a copy. */
export async function makeScene(): Promise<Scene> {
  let passed = START
  const pass = (days: number) => {
    passed += days * DAY_MS
  }
  const { database, filled } = await copyOfFilled('audit_scene', (service) => fillScene(service, pass), {
    now: () => passed,
  })
  const { now, purged, whole } = filled
  const service = await startService({ database, now: () => now })
  const sql = service.services.sql as unknown as postgres.Sql
  const unused: Built[] = []
  const inUse = new Map<Server, Built>()
  return {
    service,
    sql,
    purged: await readTarget(sql, purged),
    whole: await readTarget(sql, whole),
    now: () => now,
    server() {
      const built = unused.pop() ?? build(service)
      const server = serverOf(service, built)
      inUse.set(server, built)
      return server
    },
    endServers(except = []) {
      const kept = new Set(except)
      for (const [server, built] of inUse) {
        if (kept.has(server)) continue
        inUse.delete(server)
        unused.push(built)
      }
    },
    restore: (moment) => restoreTables(sql, moment),
    async close() {
      for (const { app } of [...unused, ...inUse.values()]) await app.close()
      await service.close()
    },
  }
}

/** An application, and the services that its routes use. */
interface Built {
  app: FastifyInstance
  services: Services
}

function build({ services: shared }: Service): Built {
  const services = { ...shared }
  return { services, app: buildApp({ services, findDurability: async () => 'synchronous', logger: false }) }
}

/**
 * Makes another server on a service's database, which shares neither caches nor witnessed heads with it.
 * @param built the application of a server that is no longer used; a new one by default
 */
export function serverOf(service: Service, built = build(service)): Server & { app: FastifyInstance } {
  const { app, services } = built
  const alarms: string[] = []
  forget(services, (_, reason) => alarms.push(reason))
  return {
    app,
    services,
    alarms,
    async call(secret, method, url, body) {
      const answer = await app.inject({
        method: method as 'GET',
        url,
        headers: { authorization: `Bearer ${secret}` },
        ...(body === undefined ? {} : { payload: body as object }),
      })
      const isJson =
        /json/.test(String(answer.headers['content-type'])) && !/ndjson/.test(String(answer.headers['content-type']))
      return { status: answer.statusCode, body: isJson && answer.body ? answer.json() : answer.body }
    },
  }
}

/**
 * Makes a service forget what it witnessed, as if started now: after its tables were restored, that would raise an
 * alarm.
 */
export function startAnew({ services, alarms }: Service): void {
  forget(services, (tenant_id, reason) => alarms.push({ tenant_id, reason }))
}

function forget(services: Services, onAlarm: (tenant_id: string, reason: string) => void): void {
  const { sql, storeKeys } = services
  const { clock } = services.committer
  const fresh = {
    committer: createCommitter({ sql, clock, guard: new HeadWatches(onAlarm) }),
    states: createTenantStates({ sql, storeKeys }),
  }
  Object.assign(services, fresh satisfies Partial<Services>)
}

/** Copies every table into a new schema of this name, all from one moment, since a server may be writing to them. */
export async function copyTables(sql: postgres.Sql, moment: string): Promise<void> {
  const statements = TABLES.map((table) => `create table ${moment}.${table} as table public.${table}`)
  await sql.begin('isolation level repeatable read', (transaction) =>
    transaction.unsafe([`create schema ${moment}`, ...statements, restoreFunction(moment)].join('; ')),
  )
}

/**
 * Restores the rows of every table, or of some, from a copy. No server can append an entry meanwhile. Leaves
 * unchanged rows alone: each rewritten row leaves a dead one, which every later statement has to skip.
 */
export async function restoreTables(sql: postgres.Sql, moment: string, tables?: readonly string[]): Promise<void> {
  // The statements of one query are one transaction.
  await sql.unsafe(tables ? restoreStatements(moment, tables) : `select ${moment}.restore()`)
}

function restoreStatements(moment: string, tables: readonly string[]): string {
  const statements = tables.map((table) => {
    const columns = columnsOf(table)
    return `delete from ${table} where ${table} not in (select kept from ${moment}.${table} as kept);
       insert into ${table} (${columns}) select ${columns} from ${moment}.${table} except select ${columns} from ${table};`
  })
  return `lock table heads in exclusive mode; ${statements.join(' ')}`
}

/**
 * Makes a function, because PostgreSQL caches the plans of its statements, and a scene is restored hundreds of times.
 */
function restoreFunction(moment: string): string {
  return `create function ${moment}.restore() returns void language plpgsql as $$ begin ${restoreStatements(moment, TABLES)} end $$`
}

/** What all scenes of a run share. */
interface FilledScene {
  now: number
  purged: WrittenTarget
  whole: WrittenTarget
}

/** What the rows of a tenant do not say. */
type WrittenTarget = Omit<Target, 'auditKey' | 'rowKey' | 'entries'>

/** Fills a database with the rows of all moments, while days pass. */
async function fillScene(service: Service, pass: (days: number) => void): Promise<FilledScene> {
  const sql = service.services.sql as unknown as postgres.Sql
  const people = {
    purged: await newPerson(service, 'purged'),
    whole: await newPerson(service, 'whole'),
  }
  const { tenant_id } = people.purged
  const purge = () => purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
  await live(service, people.purged, pass)
  await live(service, people.whole, pass)
  pass(17) // now the first entries are over a month old, but none after the first nine days
  const { purged_through: purgedBefore } = await purge()
  await live(service, people.purged, pass)
  const { purged_through } = await purge()
  if (purgedBefore === 0 || purged_through <= purgedBefore) throw new Error('the scene needs two purges')

  await copyTables(sql, 'early')
  for (const person of Object.values(people)) await changeRights(person)
  await copyTables(sql, 'late')
  for (const person of Object.values(people)) await wrapSome(person, 4)
  await copyTables(sql, 'final')

  return {
    now: service.services.now(),
    purged: writtenTarget(people.purged, { purged_through, purgedBefore }),
    whole: writtenTarget(people.whole, { purged_through: 0, purgedBefore: 0 }),
  }
}

function writtenTarget(
  { tenant_id, secret, known }: Person,
  purge: Pick<Target, 'purged_through' | 'purgedBefore'>,
): WrittenTarget {
  return { tenant_id, secret, ...known, ...purge }
}

interface Person extends Pick<Target, 'tenant_id' | 'secret'> {
  call: (method: string, path: string, body?: unknown) => Promise<Answer>
  known: Pick<Target, 'key_id' | 'other_key_id' | 'disabled_key_id' | 'wrapped' | 'limited' | 'expired' | 'revoked'>
}

async function newPerson(service: Service, name: string): Promise<Person> {
  const owner = await service.createTenant({ name })
  return {
    tenant_id: owner.tenant.tenant_id,
    secret: owner.secret,
    known: undefined as unknown as Person['known'],
    async call(method, path, body) {
      const answer = await owner.call(method, path, body)
      if (answer.status >= 300 && answer.body?.code !== 'E_ENVELOPE_ONLY') {
        throw new Error(`${method} ${path} was answered ${answer.status}: ${JSON.stringify(answer.body)}`)
      }
      return answer
    },
  }
}

/** Performs every action that writes an entry, except the purge; nine days pass. */
async function live(service: Service, person: Person, pass: (days: number) => void): Promise<void> {
  const { call, tenant_id } = person
  const { services } = service
  const unique = () => randomBytes(4).toString('hex')
  const post = async (path: string, body?: unknown) => (await call('POST', path, body)).body
  const newKey = async (): Promise<{ id: string; name: string }> => post('/v1/keys', { name: `key ${unique()}` })
  const newApiKey = async (body: object): Promise<ApiKey> =>
    post('/v1/api-keys', { name: `client ${unique()}`, ...body })
  const wrap = async (id: string): Promise<string> => (await post(`/v1/keys/${id}/wrap`, { dek: dek() })).wrapped_key

  const [key, other, disabled, doomed, due] = [
    await newKey(),
    await newKey(),
    await newKey(),
    await newKey(),
    await newKey(),
  ]
  const first = await wrap(key.id)
  await post(`/v1/keys/${key.id}/rotate`)
  const second = await wrap(key.id)
  await post(`/v1/keys/${key.id}/unwrap`, { wrapped_key: first })
  await post(`/v1/keys/${key.id}/rewrap`, { wrapped_key: second })
  await post(`/v1/keys/${key.id}/rotate`)
  const limited = await newApiKey({ permissions: ['keys:read'], allowed_ips: ['10.0.0.0/8', '127.0.0.1'] })
  const expired = await newApiKey({
    permissions: ['encrypt', 'keys:read'],
    expires_at: new Date(services.now() + DAY_MS).toISOString(),
  })
  const revoked = await newApiKey({ permissions: ['encrypt', 'keys:read'] })
  const former = await newApiKey({ permissions: ['decrypt'] })
  await call('PATCH', `/v1/api-keys/${limited.id}`, {
    allowed_ips: ['10.0.0.0/8'],
    keys: ['shop/*'],
    budgets: { unwrap: { per_minute: 600 } },
    name: 'limited',
  })
  await call('DELETE', `/v1/api-keys/${former.id}`)
  await call('PATCH', `/v1/keys/${other.id}/rotation`, { interval_days: 3650 })
  await call('PATCH', `/v1/keys/${due.id}/rotation`, { interval_days: 2 })
  await call('DELETE', `/v1/keys/${disabled.id}`)
  await post(`/v1/keys/${disabled.id}/enable`)
  await post(`/v1/keys/${key.id}/export`)
  await post('/v1/encrypt', { key_id: key.id, plaintext: 'x' }) // refused, on record
  await performAsSystem(services, tenant_id, updateTenant({ envelope_only: false, monthly_encrypt_quota: 1_000 }))
  const bundle = await post('/v1/encrypt', { key_id: other.id, plaintext: 'ada' })
  await post('/v1/decrypt', bundle)
  await performAsSystem(services, tenant_id, updateTenant({ envelope_only: true }))
  await call('DELETE', `/v1/keys/${doomed.id}`)
  await post(`/v1/keys/${doomed.id}/destroy`, { confirm: doomed.name })
  await post(`/v1/keys/${doomed.id}/destroy/cancel`)
  await post(`/v1/keys/${doomed.id}/destroy`, { confirm: doomed.name })
  pass(9)
  await doDueWork(services)
  await call('PATCH', `/v1/keys/${due.id}/rotation`, { interval_days: null })
  const [current] = await Promise.all([wrap(key.id), wrap(other.id), wrap(due.id)])
  await post('/v1/batch', {
    operations: [
      { op: 'wrap', key_id: key.id, dek: dek() },
      { op: 'unwrap', key_id: key.id, wrapped_key: current },
      { op: 'encrypt', key_id: key.id, plaintext: 'x' },
    ],
  })
  person.known = {
    key_id: key.id,
    other_key_id: other.id,
    disabled_key_id: disabled.id,
    wrapped: { first, current },
    limited,
    expired,
    revoked,
  }
}

/** Revokes rights, so that an attacker gains something by restoring the earlier rows. */
async function changeRights({ call, known }: Person): Promise<void> {
  await call('DELETE', `/v1/keys/${known.disabled_key_id}`)
  await call('DELETE', `/v1/api-keys/${known.revoked.id}`)
  await call('POST', `/v1/keys/${known.other_key_id}/rotate`)
}

async function wrapSome({ call, known }: Person, times: number): Promise<void> {
  for (let at = 0; at < times; at++) await call('POST', `/v1/keys/${known.key_id}/wrap`, { dek: dek() })
}

async function readTarget(sql: postgres.Sql, written: WrittenTarget): Promise<Target> {
  const { tenant_id } = written
  const entries: Entry[] = []
  for await (const entry of entriesOf(sql, tenant_id)) entries.push(entry)
  const auditKey = createSecretKey(await openAuditKey(sql, Buffer.from(ROOT_KEY, 'base64'), tenant_id))
  return { ...written, auditKey, rowKey: deriveRowKey(auditKey), entries }
}

export function dek(): string {
  return randomBytes(32).toString('base64')
}

/** A blinded value: the first one of RFC 9497 A.1.2. */
export const ELEMENT = 'hj8zDMGhJZ7VpZmKI6z9N/tDUaeTpbPAkLZC3cQ5uUU='

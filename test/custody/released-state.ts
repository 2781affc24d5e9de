// The state of a release: a database that the built server and its commands fill, and what it must answer ever after. A release freezes
// one on each back end, in test/fixtures/released (released-state.test.ts).
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { type Client, createClient, date, json, number, text } from '../../packages/sdk/src/index.js'
import { decryptStream, encryptStream } from '../../packages/sdk/src/streams.js'
import { ELEMENT } from '../support/audit/audit-scene.js'
import { freshDatabase, type TestDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { DIGESTS, digestMigrations, RELEASED } from '../support/database/migrations.js'
import { runEaas, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'

/** The files beside `state.json`. */
export const FILES = { postgres: 'database.sql.gz', embedded: 'database.tar.gz', backup: 'backup.gz' }

const DAY_MS = 86_400_000
const PERMISSIONS = ['decrypt', 'keys:read']
/** More than a budget ever allows at once, so that the call is refused whatever came before it. */
const OVER_BUDGET = Array.from({ length: 21 }, () => ELEMENT)
/** Of answers, what every later call changes. */
const PASSING = new Set(['last_used_at', 'last_unwrapped_at', 'wraps'])

/** A call, and what the release answered. */
export interface Answered {
  secret: string
  method: string
  path: string
  body?: unknown
  status: number
  answer: unknown
}

export interface FrozenTenant {
  tenant_id: string
  secret: string
  key_id: string
  /** parts of the log in their order, each signed by `public_key`; the last one goes on where the others end */
  exports: { public_key: string; text: string }[]
  /** by their forms, see `formsOf` */
  stored: Record<string, unknown>
  /** an export of the key, which opens `stored.v1` */
  exported: string
}

export interface FrozenState {
  root_key: string
  public_key: string
  /** of the installation's log */
  checkpoint: string
  tenants: FrozenTenant[]
  calls: Answered[]
}

const PLAIN = 'called twice, \u{1F980}'
const ROW = { id: 7, email: 'Ada@example.org', born: new Date('1815-12-10'), age: 36, notes: { calls: [1, null] } }
const CONTEXT = { table: 'uploads', row: '7' }

/** Each form in which the SDK stores a value: how to write it, and how to read it; what is read is the same in every release. */
export function formsOf(eaas: Client, keyId: string, publicKey: string): Record<string, Form> {
  const fields = {
    email: text({ index: 'email_index', normalize: ['lowercase'] }),
    born: date(),
    age: number(),
    notes: json(),
  }
  const modelOf = (options: object): Form => {
    const model = eaas.model({ name: 'customers', keyId, bind: ['id'], fields, ...options })
    return {
      write: async () => JSON.parse(JSON.stringify(await model.encrypt(ROW))),
      read: async (stored) => {
        const row = stored as Awaited<ReturnType<typeof model.encrypt>>
        const { email_index } = await model.index({ email: 'ADA@example.org' })
        return [await model.decrypt(row), row.email_index === email_index]
      },
      expected: [{ ...ROW }, true],
    }
  }
  const value = { read: (stored: unknown) => eaas.decryptText(stored as string), expected: PLAIN }
  return {
    v1: { ...value, write: () => eaas.encrypt(PLAIN, { keyId, envelope: 1 }) },
    v2: { ...value, write: () => eaas.encrypt(PLAIN, { keyId }) },
    bound: {
      write: () => eaas.encrypt(PLAIN, { keyId, context: CONTEXT }),
      read: (stored) => eaas.decryptText(stored as string, { context: CONTEXT }),
      expected: PLAIN,
    },
    row: modelOf({}),
    text: modelOf({ format: 'text' }),
    sealed: modelOf({ sealed: 'row' }),
    oblivious: modelOf({ index: { by: 'oblivious', publicKey } }),
    service: modelOf({ index: { by: 'service' } }),
    stream: {
      write: async () =>
        bytesOf(new Blob([PLAIN]).stream().pipeThrough(encryptStream(eaas, { keyId, context: CONTEXT }))),
      read: async (stored) => {
        const bytes = new Blob([Buffer.from(stored as string, 'base64')]).stream()
        return Buffer.from(
          await bytesOf(bytes.pipeThrough(decryptStream(eaas, { context: CONTEXT }))),
          'base64',
        ).toString()
      },
      expected: PLAIN,
    },
  }
}

interface Form {
  write: () => Promise<unknown>
  read: (stored: unknown) => Promise<unknown>
  expected: unknown
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return Buffer.from(await new Response(stream as never).arrayBuffer()).toString('base64')
}

/** Fills a database on the back end of the running project, and writes it below the folder of the release. @throws if it is there */
export async function freezeState(release: string): Promise<void> {
  const database = await freshDatabase('frozen', { created: false })
  const into = join(RELEASED, release, database.backend)
  mkdirSync(join(into, '..'), { recursive: true })
  mkdirSync(into)
  const work = mkdtempSync(join(tmpdir(), 'eaas-frozen-'))
  try {
    const state = await fill(database, work)
    writeFileSync(join(into, 'state.json'), `${JSON.stringify(state, undefined, 1)}\n`)
    writeFileSync(join(into, FILES.backup), gzipSync(readFileSync(join(work, 'backup')), { level: 9 }))
    writeFileSync(join(into, FILES[database.backend]), gzipSync(dump(database), { level: 9 }))
    writeFileSync(join(into, '..', DIGESTS), digestMigrations())
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** All of a database: SQL that every supported PostgreSQL takes without psql, or the files of an embedded one. */
function dump(database: TestDatabase): Uint8Array {
  const maxBuffer = 2 ** 28
  if (database.backend === 'embedded') {
    return execFileSync('tar', ['-C', database.dataDir, '-cf', '-', 'postgres'], { maxBuffer })
  }
  const args = ['--inserts', '--no-owner', '--no-privileges', '--dbname', database.directUrl]
  const text = execFileSync(join(findPostgres() ?? '', 'pg_dump'), args, { maxBuffer, encoding: 'utf8' })
  return Buffer.from(text.replaceAll(/^(?:\\\w+ .*|set transaction_timeout .*)\n/gim, ''))
}

/** What the clock of a process shows, some days too early. */
function clockBehind(days: number): string {
  const program = `const { now } = Date; Date.now = () => now() - ${days * DAY_MS}
    globalThis.Date = class extends Date { constructor(...given) { given.length > 0 ? super(...given) : super(Date.now()) } }`
  return `--import=data:text/javascript,${encodeURIComponent(program)}`
}

async function fill(database: TestDatabase, work: string): Promise<FrozenState> {
  const root_key = randomBytes(32).toString('base64')
  const on = (environment: Record<string, string> = {}) => ({
    database,
    rootKey: root_key,
    environment: { EAAS_DESTROY_WINDOW_DAYS: '0', EAAS_CHECKPOINT_FILE: 'none', ...environment },
  })
  const eaas = async (args: string[], environment?: Record<string, string>) => {
    const { code, stdout, stderr } = await runEaas(args, on(environment))
    expect([args, code, stderr]).toEqual([args, 0, expect.any(String)])
    return stdout
  }
  const publicKey = async () => JSON.parse(await eaas(['audit', 'public-key', '--json'])).public_key as string

  // More than a year ago.
  const early = { NODE_OPTIONS: clockBehind(400), EAAS_MAX_CLOCK_SKEW_SECONDS: '0' }
  const tenants: FrozenTenant[] = []
  for (const [name, isEnvelopeOnly] of [
    ['acme', true],
    ['globex', false],
  ]) {
    const args = ['tenant', 'create', '--name', `${name}`, '--envelope-only', `${isEnvelopeOnly}`, '--json']
    const { tenant_id, api_key } = JSON.parse(await eaas(args, early))
    tenants.push({ tenant_id, secret: api_key.secret, key_id: '', exports: [], stored: {}, exported: '' })
  }
  const first = await startEaas(on(early))
  for (const tenant of tenants) {
    const post = posting(first.url, tenant.secret)
    tenant.key_id = (await post('/v1/keys', { name: 'users' })).key_id
    for (let at = 0; at < 6; at++) await post(`/v1/keys/${tenant.key_id}/wrap`, { dek: dek() })
  }
  await first.stop()

  // Today.
  const second = await startEaas(on())
  const calls: Answered[] = []
  for (const tenant of tenants) calls.push(...(await use(second.url, tenant)))
  await second.stop()
  const archives = join(work, 'archives')
  const purge = ['purge', '--archive', archives, '--resume', 'a release is frozen']
  await eaas(purge, { EAAS_AUDIT_RETENTION_MONTHS: '12' })
  const exportLogs = async () => {
    const public_key = await publicKey()
    for (const { tenant_id, exports } of tenants) {
      exports.push({ public_key, text: await eaas(['audit', 'export', '--tenant', tenant_id]) })
    }
  }
  const before = await publicKey()
  for (const { tenant_id, exports } of tenants) {
    const name = readdirSync(archives).find((file) => file.startsWith(tenant_id)) ?? expect.unreachable()
    exports.push({ public_key: before, text: readFileSync(join(archives, name), 'utf8') })
  }
  await exportLogs()
  await eaas(['store-key', 'rotate'])
  const third = await startEaas(on())
  for (const { secret, key_id } of tenants) await posting(third.url, secret)(`/v1/keys/${key_id}/wrap`, { dek: dek() })
  await third.stop()
  await exportLogs()
  const checkpoint = await eaas(['audit', 'checkpoint', '--installation'])
  await eaas(['backup', join(work, 'backup'), '--plain'])
  return { root_key, public_key: await publicKey(), checkpoint, tenants, calls }
}

const dek = () => randomBytes(32).toString('base64')

function posting(url: string, secret: string) {
  return async (path: string, body: unknown = {}, method = 'POST') => {
    const answer = await callsOf(secret)(url, method, path, body)
    expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 201, 204])])
    // biome-ignore lint/suspicious/noExplicitAny: whatever the answer is
    return answer.body as any
  }
}

/** Uses a tenant's key and makes others, in each of their states, and API keys; returns calls that show all of it. */
async function use(url: string, tenant: FrozenTenant): Promise<Answered[]> {
  const { secret, key_id } = tenant
  const post = posting(url, secret)
  const keyNamed = async (name: string): Promise<string> => (await post('/v1/keys', { name })).key_id
  const wrap = async (id: string): Promise<{ wrapped_key: string }> => post(`/v1/keys/${id}/wrap`, { dek: dek() })
  const opened: [id: string, wrapped: { wrapped_key: string }][] = [[key_id, await wrap(key_id)]]
  await post(`/v1/keys/${key_id}/rotate`)
  opened.push([key_id, await wrap(key_id)])
  const ids = {
    disabled: await keyNamed('disabled'),
    destroyed: await keyNamed('destroyed'),
    closed: await keyNamed('closed'),
  }
  for (const id of Object.values(ids)) opened.push([id, await wrap(id)])
  for (const id of [ids.disabled, ids.destroyed]) await post(`/v1/keys/${id}`, undefined, 'DELETE')
  await post(`/v1/keys/${ids.destroyed}/destroy`, { confirm: 'destroyed' })
  await post(`/v1/keys/${ids.closed}/rotate`)
  opened.push([ids.closed, await wrap(ids.closed)])
  await post(`/v1/keys/${ids.closed}`, { min_unwrap_version: 2 }, 'PATCH')
  await post(`/v1/keys/${ids.closed}/versions/1/destroy`, { confirm: 'closed' })
  const apiKey = (name: string, more: object): Promise<{ id: string; secret: string }> =>
    post('/v1/api-keys', { name, permissions: PERMISSIONS, ...more })
  const limited = await apiKey('limited', { keys: [key_id, 'customers/*'], allowed_ips: ['127.0.0.0/8', '::1/128'] })
  const budgets = { unwrap: { per_day: 2_000_000 }, hash: { per_minute: OVER_BUDGET.length - 1 } }
  const permissions = [...PERMISSIONS, 'hash']
  const budgeted = await apiKey('budgeted', { budgets, permissions })
  const exhausted = await apiKey('exhausted', { budgets, permissions })
  const revoked = await apiKey('revoked', {})
  await post(`/v1/api-keys/${revoked.id}`, undefined, 'DELETE')

  const client = createClient({ baseUrl: url, apiKey: secret })
  const { blind_hash_public_key: publicKey = '' } = await post(`/v1/keys/${key_id}`, undefined, 'GET')
  for (const [name, { write }] of Object.entries(formsOf(client, key_id, publicKey)))
    tenant.stored[name] = await write()
  client.close()
  tenant.exported = JSON.stringify(await post(`/v1/keys/${key_id}/export`, { confirm: 'users' }))

  const calls: Answered[] = []
  const answered = async (as: string, method: string, path: string, body?: unknown) => {
    const { status, body: answer } = await callsOf(as)(url, method, path, body)
    calls.push({
      secret: as,
      method,
      path,
      ...(body !== undefined && { body }),
      status,
      answer: withoutPassing(answer),
    })
  }
  for (const [id, wrapped] of opened) await answered(secret, 'POST', `/v1/keys/${id}/unwrap`, wrapped)
  for (const id of [key_id, ...Object.values(ids)]) {
    await answered(secret, 'GET', `/v1/keys/${id}`)
    await answered(secret, 'POST', '/v1/hash', { key_id: id, value: 'ada@example.org' })
    await answered(limited.secret, 'GET', `/v1/keys/${id}`)
  }
  const [[, wrapped] = expect.unreachable()] = opened
  for (const as of [limited, budgeted, revoked]) await answered(as.secret, 'POST', `/v1/keys/${key_id}/unwrap`, wrapped)
  await answered(limited.secret, 'POST', '/v1/keys', { name: 'refused' })
  await answered(budgeted.secret, 'POST', '/v1/hash', { key_id, value: 'ada@example.org' })
  await answered(exhausted.secret, 'POST', '/v1/hash/blind', { key_id, elements: OVER_BUDGET })
  await answered(secret, 'GET', '/v1/api-keys')
  await answered(secret, 'GET', '/v1/tenant')
  const sealed = await callsOf(secret)(url, 'POST', '/v1/encrypt', { key_id, plaintext: PLAIN })
  await answered(secret, 'POST', '/v1/decrypt', sealed.status === 200 ? sealed.body : { key_id })
  return calls
}

/** Of a value, what later calls leave as it is; a refusal keeps its code, not its words. */
function withoutPassing(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPassing)
  if (typeof value !== 'object' || value === null) return value
  if ('code' in value && 'status' in value) return { code: value.code, status: value.status }
  const kept = Object.entries(value).filter(([name]) => !PASSING.has(name))
  return Object.fromEntries(kept.map(([name, one]) => [name, withoutPassing(one)]))
}

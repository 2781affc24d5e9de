// What a destroyed key leaves in the files of the database: searched for byte by byte, in tables, indexes, statistics and write-ahead log.
import { copyFileSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '../../packages/server/src/core/store/db.js'
import { createErasure } from '../../packages/server/src/operate/store/erasure.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, createTenantInProcess } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { type RunningServer, startServer } from '../support/service/server.js'

const KEYS = 10
/** Of each key: so many that their samples are stored outside of the row that names them. */
const VERSIONS = 5
/** Of the iv, the ciphertext and the tag of a sealed secret, which follow format and number (key-hierarchy.md 2). */
const SEALED_BYTES = { from: 5, to: 65 }
/** PostgreSQL's compression keeps runs of eight bytes that do not repeat, from any byte on. */
const RUN_BYTES = 8

let database: TestDatabase
let server: RunningServer
let sql: postgres.Sql
let call: (method: string, path: string, body?: unknown) => Promise<{ status: number; body: { id: string } }>
/** sealed secrets by their key */
const sealed = new Map<string, Uint8Array[]>()

const environment = { EAAS_DESTROY_WINDOW_DAYS: '0', EAAS_LOG_LEVEL: 'info' }

beforeAll(async () => {
  database = await freshDatabase('erased', { migrated: true })
  server = await startServer({ database, environment })
  const { api_key } = await createTenantInProcess({ database }, 'acme')
  call = (method, path, body) => callsOf(api_key.secret)(server.url, method, path, body) as never
  sql = connectTo(database)
  for (let at = 0; at < KEYS; at++) {
    const { id } = (await call('POST', '/v1/keys', { name: `key ${at}` })).body
    for (let version = 1; version < VERSIONS; version++) await call('POST', `/v1/keys/${id}/rotate`)
    const rows = await sql<{ secret: Uint8Array }[]>`
      select wrapped_kek as secret from key_versions where key_id = ${id}
      union all select wrapped_hash_key from keys where key_id = ${id}`
    sealed.set(
      id,
      rows.map(({ secret }) => secret),
    )
  }
})
afterAll(async () => {
  await sql?.end()
  await server?.stop()
  await database?.drop()
})

/** Destroys half of the keys, and the first version of another one; returns the sealed secrets of these, and what is left. */
async function destroyHalf(): Promise<{ gone: Uint8Array[]; kept: Uint8Array[] }> {
  const ids = [...sealed.keys()]
  const doomed = ids.slice(0, KEYS / 2)
  for (const [at, id] of doomed.entries()) {
    expect((await call('DELETE', `/v1/keys/${id}`)).status).toBe(204)
    expect((await call('POST', `/v1/keys/${id}/destroy`, { confirm: `key ${at}` })).status).toBe(200)
  }
  const id = ids.at(-1) ?? ''
  const [first] = await sql<{ secret: Uint8Array }[]>`
    select wrapped_kek as secret from key_versions where key_id = ${id} and version = 1`
  if (!first) throw new Error('no version')
  await call('PATCH', `/v1/keys/${id}`, { min_unwrap_version: 2 })
  const body = { confirm: `key ${KEYS - 1}` }
  expect((await call('POST', `/v1/keys/${id}/versions/1/destroy`, body)).status).toBe(200)
  const secretsOf = (those: string[]) => those.flatMap((one) => sealed.get(one) ?? [])
  const isFirst = (secret: Uint8Array) => Buffer.compare(secret, first.secret) === 0
  return {
    gone: [...secretsOf(doomed), first.secret],
    kept: secretsOf(ids.slice(KEYS / 2)).filter((secret) => !isFirst(secret)),
  }
}

async function restart(meanwhile?: () => void): Promise<void> {
  await sql.end()
  await server.stop()
  meanwhile?.()
  await server.start()
  sql = connectTo(database)
}

const erased = () => expect.poll(() => server.log).toContain('erased what destroyed key versions had left')

it('finds runs of a secret in what PostgreSQL compressed', () => {
  const secret = Uint8Array.from({ length: 65 }, (_, at) => (at * 37) % 251)
  const compressed = [...secret].flatMap((byte, at) => (at % 8 === 3 ? [0, byte] : [byte]))
  const search = searchFor([secret])
  expect(search(Uint8Array.from(compressed)).size).toBe(1)
  expect(search(Buffer.from(Buffer.from(secret).toString('hex'))).size).toBe(1)
  expect(search(new Uint8Array(1_000)).size).toBe(0)
})

it('lets ANALYZE copy no sealed secret into the statistics, as it does from another table', async () => {
  await sql`create table copied as select wrapped_hash_key from keys`
  await sql`analyze`
  const rows = await sql<{ name: string }[]>`
    select tablename || '.' || attname as name from pg_stats where attname like 'wrapped%' order by 1`
  expect(rows.map(({ name }) => name)).toEqual(['copied.wrapped_hash_key'])
  await sql`drop table copied`
})

describe.runIf(backend() === 'embedded')('the files of the embedded database', () => {
  const dataDir = () => (database as Extract<TestDatabase, { dataDir: string }>).dataDir
  /** How many of the secrets are in any of the files. */
  const count = (secrets: Uint8Array[]) => {
    const search = searchFor(secrets)
    return new Set(filesBelow(dataDir()).flatMap((path) => [...search(readFileSync(path))])).size
  }

  it('hold no store key that was replaced, nor what it sealed, once a server was started again', async () => {
    const wrapped = await sql<{ secret: Uint8Array }[]>`select wrapped as secret from store_keys`
    const gone = [...wrapped.map(({ secret }) => secret.subarray(-SEALED_BYTES.to)), ...[...sealed.values()].flat()]
    expect(count(gone)).toBe(gone.length)
    expect(await runCommand(['store-key', 'rotate'], { database })).toMatchObject({ code: 0 })
    await restart(() => keepAsRecycled(join(dataDir(), 'postgres/pg_wal')))
    await erased()
    expect(count(gone)).toBe(0)
    for (const [id, secrets] of sealed) {
      const rows = await sql<{ secret: Uint8Array }[]>`
        select wrapped_kek as secret from key_versions where key_id = ${id}
        union all select wrapped_hash_key from keys where key_id = ${id}`
      expect(rows).toHaveLength(secrets.length)
      sealed.set(
        id,
        rows.map(({ secret }) => secret),
      )
    }
  })

  it('hold no secret of a destroyed key once a server was started again, and those of the other keys', async () => {
    const { gone, kept } = await destroyHalf()
    expect(count(gone)).toBe(gone.length)
    await restart(() => keepAsRecycled(join(dataDir(), 'postgres/pg_wal')))
    await erased()
    expect(count(gone)).toBe(0)
    expect(count(kept)).toBe(kept.length)
    await restart()
    await erased()
    expect(count(gone)).toBe(0)
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })
})

/** Leaves what a server of before the erasure did: files of the log under later names, with their content, to be written again. */
function keepAsRecycled(folder: string): void {
  const [newest = ''] = readdirSync(folder)
    .filter((name) => name.length === 24)
    .sort()
    .reverse()
  for (const later of [1, 2]) {
    const number = (Number.parseInt(newest.slice(16), 16) + later).toString(16).toUpperCase().padStart(8, '0')
    copyFileSync(join(folder, newest), join(folder, newest.slice(0, 16) + number))
  }
}

describe.runIf(backend() === 'postgres')('the tables in PostgreSQL', () => {
  const dead = async () => {
    await sql`select pg_stat_clear_snapshot()`
    const rows = await sql<{ relname: string; n_dead_tup: number; vacuum_count: number }[]>`
      select relname, n_dead_tup::integer, vacuum_count::integer from pg_stat_user_tables
      where relname in ('keys', 'key_versions') order by relname`
    return rows.map(({ n_dead_tup, vacuum_count }) => ({ n_dead_tup, vacuum_count }))
  }

  it('hold no earlier version of a row of a destroyed key once a server was started again', async () => {
    await destroyHalf()
    await expect.poll(async () => (await dead()).every(({ n_dead_tup }) => n_dead_tup > 0)).toBe(true)
    await restart()
    await erased()
    const [versions, keys] = await dead()
    expect([versions, keys]).toMatchObject([{ n_dead_tup: 0 }, { n_dead_tup: 0 }])
    expect(Math.min(versions?.vacuum_count ?? 0, keys?.vacuum_count ?? 0)).toBeGreaterThan(0)
  })

  it('are vacuumed again as long as a transaction of before a destruction may read them', async () => {
    const own = connect({ url: (database as Extract<TestDatabase, { url: string }>).directUrl, max: 1 })
    const erase = createErasure({ sql: own, isEmbedded: false })
    // A vacuum that takes longer than a call may.
    await own`set vacuum_cost_limit = 1; set vacuum_cost_delay = 50; set statement_timeout = 500`.simple()
    const versions = KEYS * VERSIONS
    expect(await erase()).toEqual({ outcome: 'erased', versions: versions / 2 + 1 })
    expect(await erase()).toEqual({ outcome: 'unchanged', versions: versions / 2 + 1 })
    await sql.begin('isolation level repeatable read', async (reader) => {
      await reader`select count(*) from keys`
      const left = [...sealed.keys()].slice(KEYS / 2)
      for (const [at, id] of left.entries()) {
        expect((await call('DELETE', `/v1/keys/${id}`)).status).toBe(204)
        expect((await call('POST', `/v1/keys/${id}/destroy`, { confirm: `key ${KEYS / 2 + at}` })).status).toBe(200)
      }
      expect(await erase()).toEqual({ outcome: 'held', versions })
    })
    await expect.poll(erase).toEqual({ outcome: 'erased', versions })
    await own.end()
  })
})

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
}

/** Creates the search for runs of bytes of secrets, as bytes or in hexadecimal; it returns the secrets that it finds in a file. */
function searchFor(secrets: readonly Uint8Array[]): (file: Uint8Array) => Set<Uint8Array> {
  const runs = new Map<string, Uint8Array>()
  for (const secret of secrets) {
    for (let at = SEALED_BYTES.from; at + RUN_BYTES <= SEALED_BYTES.to; at++) {
      const run = Buffer.from(secret.slice(at, at + RUN_BYTES))
      runs.set(run.toString('latin1'), secret)
      runs.set(run.toString('hex').slice(0, RUN_BYTES), secret)
    }
  }
  const mayBegin = new Uint8Array(65_536)
  for (const run of runs.keys()) mayBegin[(run.charCodeAt(0) << 8) | run.charCodeAt(1)] = 1
  return (file) => {
    const bytes = Buffer.from(file.buffer, file.byteOffset, file.length)
    const found = new Set<Uint8Array>()
    for (let at = 0; at + RUN_BYTES <= bytes.length; at++) {
      if (mayBegin[((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)] === 0) continue
      const secret = runs.get(bytes.toString('latin1', at, at + RUN_BYTES))
      if (secret) found.add(secret)
    }
    return found
  }
}

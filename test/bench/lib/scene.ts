// What every server measurement needs: PostgreSQL with durable commits, servers on it, tenants with a key and its tokens.
import { randomBytes } from 'node:crypto'
import { findPostgres } from '../../support/database/find-postgres.js'
import { type PostgresServer, startPostgres } from '../../support/database/postgres.js'
import { type GuardedDir, guardedDir } from '../../support/run/guarded-dir.js'
import type { Node } from '../arguments.mjs'
import { findPinning, type Pinning, pinPostgres, postgresCpuMs } from './cpus.js'
import { type LoadOptions, load, type Target, type Throughput } from './load.js'
import { cpuMs, type Database, eaas, type Place, type Running } from './process.js'
import { withSpread } from './report.js'
import { spread, type Turn } from './rounds.js'

export interface Options {
  quick: boolean
  full: boolean
  rounds: number
  /** of load a case and round */
  seconds: number
}

export interface Scene {
  options: Options & { turn: Turn }
  guard: GuardedDir
  pinning: Pinning | undefined
  place: Place & { node: string }
  postgres: PostgresServer
  /** An empty database of its own. */
  database(): Promise<Database>
  /** An empty folder of the embedded database. */
  dataDir(): Database
  /** What is made once for all Nodes. */
  shared<T>(name: string, make: () => Promise<T>): Promise<T>
  load(target: Target, overrides?: Partial<LoadOptions>): Promise<Throughput>
}

export interface Stage {
  on(node: Node, turn: Turn): Scene
  close(): Promise<void>
}

let names = 0

export async function openStage(options: Options): Promise<Stage> {
  const bin = findPostgres()
  if (bin === undefined) throw new Error('the bench needs PostgreSQL: install it, or set EAAS_TEST_POSTGRES_BIN')
  const pinning = findPinning()
  const guard = guardedDir('eaas-bench')
  const postgres = await startPostgres({ bin })
  pinPostgres(postgres, pinning?.others)
  const { seconds } = options
  const made = new Map<string, Promise<unknown>>()
  return {
    on: (node, turn) => ({
      options: { ...options, turn },
      guard,
      pinning,
      place: { guard, cpus: pinning?.tested, node: node.path },
      postgres,
      database: async () => ({ url: await postgres.createDatabase(`bench_${++names}`) }),
      dataDir: () => ({ dataDir: `${guard.path}/data-${++names}` }),
      shared<T>(name: string, make: () => Promise<T>) {
        const found = made.get(name) ?? make()
        made.set(name, found)
        return found as Promise<T>
      },
      load: (target, overrides = {}) =>
        load(target, { connections: 64, seconds, cpus: pinning?.others, folder: guard.path, ...overrides }),
    }),
    async close() {
      await guard.remove()
      await postgres.remove()
    },
  }
}

const TOKENS = 64

export interface Tenant {
  tenant_id: string
  secret: string
  keyId: string
  /** wrapped keys under the key */
  tokens: string[]
  // biome-ignore lint/suspicious/noExplicitAny: the callers know what they asked for
  post(path: string, body: unknown): Promise<any>
}

/** Posts with an API key. @throws unless the answer is a success */
export function callerOf({ url }: Running, secret: string): Tenant['post'] {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  return async (path, body) => {
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${path} was answered ${response.status}: ${await response.text()}`)
    return response.json()
  }
}

/** Makes a tenant with server mode, one key, and wrapped keys under it. */
export async function makeTenant(database: Database, server: Running): Promise<Tenant> {
  const name = `bench ${++names}`
  const { tenant_id, api_key } = await eaas(database, ['tenant', 'create', '--name', name, '--envelope-only', 'false'])
  const post = callerOf(server, api_key.secret)
  const { id: keyId } = await post('/v1/keys', { name: 'bench' })
  const dek = () => randomBytes(32).toString('base64')
  const operations = Array.from({ length: TOKENS }, () => ({ op: 'wrap', key_id: keyId, dek: dek() }))
  const { results } = await post('/v1/batch', { operations })
  const tokens = results.map(({ body }: { body: { wrapped_key: string } }) => body.wrapped_key)
  return { tenant_id, secret: api_key.secret, keyId, tokens, post }
}

export function unwrapTarget({ url }: Running, { keyId, tokens, secret }: Tenant): Target {
  const bodies = tokens.map((wrapped_key) => JSON.stringify({ wrapped_key }))
  return { url, path: `/v1/keys/${keyId}/unwrap`, bodies, secret }
}

export type MeasuredCall = 'unwrap' | 'wrap' | 'encrypt 256 B' | 'decrypt 256 B' | 'hash'

/** The calls that are measured one by one. */
export async function callTargets(server: Running, tenant: Tenant): Promise<Record<MeasuredCall, Target>> {
  const { keyId, secret, post } = tenant
  const to = (path: string, body: unknown) => ({ url: server.url, path, secret, bodies: [JSON.stringify(body)] })
  const plaintext = randomBytes(128).toString('hex')
  const { plaintext: _, ...bundle } = { plaintext, ...(await post('/v1/encrypt', { key_id: keyId, plaintext })) }
  return {
    unwrap: unwrapTarget(server, tenant),
    wrap: to(`/v1/keys/${keyId}/wrap`, { dek: randomBytes(32).toString('base64') }),
    'encrypt 256 B': to('/v1/encrypt', { key_id: keyId, plaintext }),
    'decrypt 256 B': to('/v1/decrypt', bundle),
    hash: to('/v1/hash', { key_id: keyId, value: 'ada@example.org' }),
  }
}

/** Batches of unwraps, each batch one request. */
export function batchTarget({ url }: Running, { keyId, tokens, secret }: Tenant, items: number): Target {
  const operations = Array.from({ length: items }, (_, at) => ({
    op: 'unwrap',
    key_id: keyId,
    wrapped_key: tokens[at % tokens.length],
  }))
  return { url, path: '/v1/batch', bodies: [JSON.stringify({ operations })], secret }
}

/** Throughput, with what a request took of the process under test, in µs. */
export interface Cost extends Throughput {
  cpuUs: number
  /** and of PostgreSQL */
  databaseUs: number
}

/** Puts a load on a process and says what it cost. */
export async function measure(
  scene: Scene,
  { pid }: Pick<Running, 'pid'>,
  target: Target,
  overrides?: Partial<LoadOptions>,
): Promise<Cost> {
  const [cpu, database] = [cpuMs(pid), postgresCpuMs(scene.postgres)]
  const result = await scene.load(target, overrides)
  const aRequest = (ms: number) => (ms * 1_000) / result.requests
  return {
    ...result,
    cpuUs: aRequest(cpuMs(pid) - cpu),
    databaseUs: aRequest(postgresCpuMs(scene.postgres) - database),
  }
}

/** Remembers each measurement whole, and gives the rounds what they compare. */
export function recorder() {
  const costs = new Map<string, Cost[]>()
  /** one figure of a case, without the round that warmed up */
  const figures = (name: string, figure: keyof Cost) => (costs.get(name) ?? []).slice(1).map((cost) => cost[figure])
  const failed = (name: string) => figures(name, 'failed').reduce((sum, count) => sum + count, 0)
  return {
    costs,
    async record(name: string, measuring: Promise<Cost>): Promise<number> {
      const cost = await measuring
      costs.set(name, [...(costs.get(name) ?? []), cost])
      return cost.perSecond
    },
    figures,
    /** how many calls failed in all cases */
    failures: () => [...costs.keys()].reduce((sum, name) => sum + failed(name), 0),
    /** figures of a case for a row of a table; of `failed`, the sum */
    cells: (name: string, wanted: readonly (keyof Cost)[]) =>
      wanted.map((figure) => (figure === 'failed' ? String(failed(name)) : withSpread(spread(figures(name, figure))))),
  }
}

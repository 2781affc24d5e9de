// Two tenants on one server: what the wraps of one take while the other sends the worst that it may. Held against the same requests
// sent to another server of the same database, so that the machine has the same to do. Not pinned.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { run } from '../lib/load.js'
import { type Database, type Place, type Running, startServer } from '../lib/process.js'
import { type BarRow, type Findings, short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene, type Tenant } from '../lib/scene.js'

const CALLER = fileURLToPath(new URL('caller.mjs', import.meta.url))
const EVERY_MS = 5
const CLIENTS = 2
const BODY_BYTES = 8 * 1_048_576
/** As many as a caller makes at once. */
const [KEYS, VERSIONS] = [10_000, 100]
const AT_ONCE = 64

export interface Call {
  method: string
  path: string
  /** with the body */
  file?: string
}

export interface Timed {
  calls: number
  failed: number
  p50: number
  p99: number
  most: number
}

export async function measureNeighbours(scene: Scene): Promise<Findings> {
  const place = { guard: scene.guard, cpus: undefined }
  const cases = [
    await measureCase(scene, place, { name: 'PostgreSQL', database: await scene.database() }),
    await measureCase(scene, place, { name: 'embedded', database: scene.dataDir() }),
  ]
  return {
    bars: cases.flatMap(({ bars }) => bars),
    tables: [
      {
        title: `A tenant's wraps, one each ${EVERY_MS} ms, while another tenant calls without pause, ${CLIENTS} calls at once`,
        columns: ['the other tenant', 'p50 ms', 'p99 ms', 'slowest ms', 'failed', 'calls of the other', 'failed'],
        rows: cases.flatMap(({ rows }) => rows),
      },
    ],
    plots: [],
  }
}

async function measureCase(
  scene: Scene,
  place: Place,
  { name, database }: { name: string; database: Database },
): Promise<{ bars: BarRow[]; rows: string[][] }> {
  const environment = { EAAS_LOG_LEVEL: 'silent' }
  const server = await startServer(place, database, { environment })
  const other = database.url === undefined ? undefined : await startServer(place, database, { environment })
  const { seconds } = scene.options
  try {
    const tenant = await makeTenant(database, server)
    const pressing = await makeTenant(database, server)
    const worst = await worstCalls(scene, pressing)
    const wrap = [callOf(scene, 'wrap', `/v1/keys/${tenant.keyId}/wrap`, { dek: dek() })]
    const found = new Map<string, { timed: Timed; pressed: Timed | undefined }[]>()
    const measure = (kind: string, pressed?: { on: Running; calls: readonly Call[] }) => async () => {
      const presses =
        pressed && call(pressed.on, { secret: pressing.secret, calls: pressed.calls, clients: CLIENTS, seconds })
      const timed = await call(server, { secret: tenant.secret, calls: wrap, clients: 1, seconds, everyMs: EVERY_MS })
      found.set(kind, [...(found.get(kind) ?? []), { timed, pressed: await presses }])
      return timed.p99
    }
    const kinds = Object.entries(worst)
    const measured = await interleave(
      Object.fromEntries([
        ['quiet', measure('quiet')],
        ...kinds.map(([kind, calls]) => [kind, measure(kind, { on: server, calls })]),
        ...(other
          ? kinds.map(([kind, calls]) => [
              `${kind}, to another server`,
              measure(`${kind}, to another server`, { on: other, calls }),
            ])
          : []),
      ]),
      scene.options,
    )
    return {
      bars: kinds.flatMap(([kind]) => {
        const row = (against: string, bar: { atMost?: number }): BarRow => ({
          what: `${name}, ${kind} by another tenant: p99 of a wrap`,
          against,
          measured: spread(
            ratios(measured[kind] ?? [], measured[against === 'nobody calls' ? 'quiet' : `${kind}, ${against}`] ?? []),
          ),
          ...bar,
        })
        return other ? [row('to another server', { atMost: 2 }), row('nobody calls', {})] : [row('nobody calls', {})]
      }),
      rows: [...found].map(([kind, runs]) => {
        const counted = runs.slice(1)
        const of = (figure: keyof Timed) => counted.map(({ timed }) => timed[figure])
        const pressed = (figure: keyof Timed) => counted.map((run) => run.pressed?.[figure] ?? 0)
        const sum = (values: number[]) => String(values.reduce((all, value) => all + value, 0))
        return [
          `${name}: ${kind}`,
          short(spread(of('p50')).median),
          withSpread(spread(of('p99'))),
          short(spread(of('most')).median),
          sum(of('failed')),
          sum(pressed('calls')),
          sum(pressed('failed')),
        ]
      }),
    }
  } finally {
    await Promise.all([server.stop(), other?.stop()])
  }
}

/** The requests that cost the most of each kind, all of them answered with success. */
async function worstCalls(scene: Scene, { keyId, tokens, post }: Tenant): Promise<Record<string, Call[]>> {
  const { id: manyVersions } = await post('/v1/keys', { name: 'versions' })
  const quick = scene.options.quick ? 10 : 1
  await repeat(VERSIONS - 1, () => post(`/v1/keys/${manyVersions}/rotate`, {}))
  await repeat(KEYS / quick - 2, () => post('/v1/keys', { name: randomBytes(8).toString('hex') }))
  const batch = (name: string, count: number, item: (at: number) => object) =>
    callOf(scene, name, '/v1/batch', {
      operations: Array.from({ length: count }, (_, at) => ({ ...item(at), key_id: keyId })),
    })
  const encrypts = (count: number) => {
    const bytes = Math.min(65_536, Math.floor(BODY_BYTES / count) - 120)
    const plaintext = 'x'.repeat(bytes)
    return batch(`encrypt-${count}`, count, () => ({ op: 'encrypt', plaintext }))
  }
  return {
    'bodies of 8 MiB': [encrypts(1_000), encrypts(127)],
    'batches of 1,000': [
      batch('wraps', 1_000, () => ({ op: 'wrap', dek: dek() })),
      batch('unwraps', 1_000, (at) => ({ op: 'unwrap', wrapped_key: tokens[at % tokens.length] })),
    ],
    'long lists': [
      { method: 'GET', path: '/v1/keys' },
      { method: 'GET', path: `/v1/keys/${manyVersions}` },
      { method: 'POST', path: `/v1/keys/${manyVersions}/export` },
    ],
  }
}

function callOf({ guard }: Scene, name: string, path: string, body: object): Call {
  const file = `${guard.path}/${name}-${randomBytes(4).toString('hex')}.json`
  writeFileSync(file, JSON.stringify(body))
  return { method: 'POST', path, file }
}

function dek(): string {
  return randomBytes(32).toString('base64')
}

async function repeat(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const client = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
}

/** Calls as `caller.mjs` is told to, from a process of its own. */
export async function call({ url }: Running, options: object): Promise<Timed> {
  const output = await run([process.execPath, CALLER, JSON.stringify({ url, ...options })])
  const [, json = ''] = /^RESULT (.*)$/m.exec(output) ?? []
  return JSON.parse(json)
}

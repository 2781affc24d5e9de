// What bends as the work grows: connections, offered load, keys, sizes. Tenants are in tenants.ts.
import { randomBytes } from 'node:crypto'
import type { LoadOptions, Target } from '../lib/load.js'
import { type Running, startServer } from '../lib/process.js'
import { type Findings, withSpread } from '../lib/report.js'
import { interleave, spread } from '../lib/rounds.js'
import {
  batchTarget,
  type Cost,
  makeTenant,
  measure,
  recorder,
  type Scene,
  type Tenant,
  unwrapTarget,
} from '../lib/scene.js'

const MOST_ROUNDS = 3

export async function measureGrowth(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    const all = [
      await byConnections(scene, server, tenant),
      await bySize(scene, server, tenant),
      await byBatch(scene, server, tenant),
      await byKeys(scene, server, tenant),
    ]
    return { bars: [], tables: all.flatMap(({ tables }) => tables), plots: all.flatMap(({ plots }) => plots) }
  } finally {
    await server.stop()
  }
}

interface Case {
  /** how much there is of what grows */
  at: number
  target: Target
  overrides?: Partial<LoadOptions>
}

/** The medians of each case, and how a figure is written. */
async function measureCases(scene: Scene, server: Running, cases: readonly Case[]) {
  const { record, figures } = recorder()
  const { quick, rounds, turn } = scene.options
  await interleave(
    Object.fromEntries(
      cases.map(({ at, target, overrides }) => [
        `${at} `, // in the order of the list, as a whole number would not be
        () => record(String(at), measure(scene, server, target, overrides)),
      ]),
    ),
    { rounds: quick ? 1 : Math.min(MOST_ROUNDS, rounds), turn },
  )
  const of = (at: number, figure: keyof Cost) => spread(figures(String(at), figure))
  return {
    median: (at: number, figure: keyof Cost) => of(at, figure).median,
    cell: (at: number, figure: keyof Cost, times = 1) => {
      const { median, min, max } = of(at, figure)
      return withSpread({ median: median * times, min: min * times, max: max * times })
    },
  }
}

async function byConnections(scene: Scene, server: Running, tenant: Tenant): Promise<Omit<Findings, 'bars'>> {
  const counts = scene.options.quick ? [1, 64] : [1, 2, 8, 32, 64, 256, 1_000]
  const target = unwrapTarget(server, tenant)
  const cases = counts.map((connections) => ({ at: connections, target, overrides: { connections } }))
  const { median, cell } = await measureCases(scene, server, cases)
  return {
    tables: [
      {
        title: 'Growth: connections',
        columns: ['connections', 'unwraps a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'failed'],
        rows: counts.map((at) => [
          String(at),
          ...(['perSecond', 'p50', 'p99', 'cpuUs', 'failed'] as const).map((figure) => cell(at, figure)),
        ]),
      },
    ],
    plots: [
      {
        file: 'connections',
        title: 'Unwraps a second by connections',
        x: { label: 'connections', log: true },
        y: { label: 'unwraps a second' },
        lines: [{ name: 'unwrap', points: counts.map((at) => [at, median(at, 'perSecond')]) }],
      },
      {
        file: 'latency',
        title: 'Latency against load',
        x: { label: 'unwraps a second (by more and more connections)' },
        y: { label: 'milliseconds', log: true },
        lines: (['p50', 'p99'] as const).map((figure) => ({
          name: figure,
          points: counts.map((at) => [median(at, 'perSecond'), median(at, figure)]),
        })),
      },
    ],
  }
}

async function bySize(scene: Scene, server: Running, { keyId, secret }: Tenant): Promise<Omit<Findings, 'bars'>> {
  const sizes = [16, 256, 4_096, 65_536]
  const cases = sizes.map((at) => {
    const body = JSON.stringify({ key_id: keyId, plaintext: randomBytes(at / 2).toString('hex') })
    return { at, target: { url: server.url, path: '/v1/encrypt', secret, bodies: [body] } }
  })
  const { median, cell } = await measureCases(scene, server, cases)
  return {
    tables: [
      {
        title: 'Growth: size of the value, encrypt on the server',
        columns: ['bytes', 'requests a second', 'p99 ms', 'CPU µs a request'],
        rows: sizes.map((at) => [String(at), cell(at, 'perSecond'), cell(at, 'p99'), cell(at, 'cpuUs')]),
      },
    ],
    plots: [
      {
        file: 'server-sizes',
        title: 'Encrypt on the server by size of the value',
        x: { label: 'bytes', log: true },
        y: { label: 'CPU µs a request', log: true },
        lines: [{ name: 'encrypt', points: sizes.map((at) => [at, median(at, 'cpuUs')]) }],
      },
    ],
  }
}

async function byBatch(scene: Scene, server: Running, tenant: Tenant): Promise<Omit<Findings, 'bars'>> {
  const counts = scene.options.quick ? [1, 100] : [1, 10, 30, 100, 300, 1_000]
  const cases = counts.map((at) => ({ at, target: batchTarget(server, tenant, at) }))
  const { median, cell } = await measureCases(scene, server, cases)
  return {
    tables: [
      {
        title: 'Growth: items in a batch',
        columns: ['items', 'unwraps a second', 'p99 ms', 'CPU µs an item'],
        rows: counts.map((at) => [String(at), cell(at, 'perSecond', at), cell(at, 'p99'), cell(at, 'cpuUs', 1 / at)]),
      },
    ],
    plots: [
      {
        file: 'batch',
        title: 'Unwraps a second by items in a batch',
        x: { label: 'items in a batch', log: true },
        y: { label: 'unwraps a second' },
        lines: [{ name: 'unwrap', points: counts.map((at) => [at, median(at, 'perSecond') * at]) }],
      },
    ],
  }
}

async function byKeys(scene: Scene, server: Running, { secret, post }: Tenant): Promise<Omit<Findings, 'bars'>> {
  const counts = scene.options.quick ? [10, 100] : [10, 1_000, 9_999] // a tenant has one besides, and 10,000 at most
  const operations: string[] = []
  await repeat(Math.max(...counts), async (at) => {
    const { id } = await post('/v1/keys', { name: `growth ${at}` })
    const { wrapped_key } = await post(`/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })
    operations.push(JSON.stringify({ operations: [{ op: 'unwrap', key_id: id, wrapped_key }] }))
  })
  // By batches of one, whose path is the same whatever the key.
  const cases = counts.map((at) => ({
    at,
    target: { url: server.url, path: '/v1/batch', secret, bodies: operations.slice(0, at) },
  }))
  const { cell } = await measureCases(scene, server, cases)
  const table = {
    title: 'Growth: keys in use, of a tenant that has the most of them',
    columns: ['keys in use', 'unwraps a second', 'p99 ms', 'CPU µs a request'],
    rows: counts.map((at) => [String(at), cell(at, 'perSecond'), cell(at, 'p99'), cell(at, 'cpuUs')]),
  }
  return { tables: [table], plots: [] }
}

const AT_ONCE = 16

/** Runs the task for each number below the count, several at a time. */
async function repeat(count: number, task: (at: number) => Promise<void>): Promise<void> {
  let next = 0
  const loop = async () => {
    while (next < count) await task(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, loop))
}

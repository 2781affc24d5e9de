// What bends as the work grows: connections, offered load, keys, sizes. Tenants are in tenants.ts.
import { randomBytes } from 'node:crypto'
import { fsyncMs } from '../lib/fsync.js'
import { type Running, startServer } from '../lib/process.js'
import { type BarRow, type Findings, type Plot, short, type Table, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { batchTarget, makeTenant, measure, type Scene, type Tenant, unwrapTarget } from '../lib/scene.js'

export async function measureGrowth(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    await measure(scene, server, unwrapTarget(server, tenant)) // warms up
    const single = await onOneConnection(scene, server, tenant)
    const connections = await byConnections(scene, server, tenant)
    const sizes = await bySize(scene, server, tenant)
    const batches = await byBatch(scene, server, tenant)
    const keys = await byKeys(scene, server, tenant)
    return {
      bars: [single],
      tables: [connections.table, sizes.table, batches.table, keys],
      plots: [...connections.plots, sizes.plot, batches.plot],
    }
  } finally {
    await server.stop()
  }
}

/** A call by itself waits for its own commit, so for one flush of the disk at least. */
async function onOneConnection(scene: Scene, server: Running, tenant: Tenant): Promise<BarRow> {
  const target = unwrapTarget(server, tenant)
  const { call, fsync } = await interleave(
    {
      call: async () => (await measure(scene, server, target, { connections: 1 })).p50,
      fsync: () => fsyncMs(scene.guard.path),
    },
    scene.options,
  )
  return {
    what: 'one connection: median latency of an unwrap',
    against: 'one fsync of the same disk',
    measured: spread(ratios(call, fsync)),
    atMost: 1.2,
    note: `${withSpread(spread(call))} ms; fsync ${withSpread(spread(fsync))} ms`,
  }
}

async function byConnections(scene: Scene, server: Running, tenant: Tenant): Promise<{ table: Table; plots: Plot[] }> {
  const rows: { connections: number; perSecond: number; p50: number; p99: number; failed: number; cpuUs: number }[] = []
  for (const connections of scene.options.quick ? [1, 8, 64, 256] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000]) {
    rows.push({ connections, ...(await measure(scene, server, unwrapTarget(server, tenant), { connections })) })
  }
  const columns = ['connections', 'unwraps a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'failed']
  return {
    table: {
      title: 'Growth: connections',
      columns,
      rows: rows.map((row) => [
        String(row.connections),
        ...[row.perSecond, row.p50, row.p99, row.cpuUs].map(short),
        String(row.failed),
      ]),
    },
    plots: [
      {
        file: 'connections',
        title: 'Unwraps a second by connections',
        x: { label: 'connections', log: true },
        y: { label: 'unwraps a second' },
        lines: [{ name: 'unwrap', points: rows.map((row) => [row.connections, row.perSecond]) }],
      },
      {
        file: 'latency',
        title: 'Latency against load',
        x: { label: 'unwraps a second (by more and more connections)' },
        y: { label: 'milliseconds', log: true },
        lines: [
          { name: 'p50', points: rows.map((row) => [row.perSecond, row.p50]) },
          { name: 'p99', points: rows.map((row) => [row.perSecond, row.p99]) },
        ],
      },
    ],
  }
}

async function bySize(scene: Scene, { url, pid }: Running, { keyId, secret }: Tenant) {
  const rows: [number, number, number, number][] = []
  for (const size of [16, 256, 4_096, 65_536]) {
    const body = JSON.stringify({ key_id: keyId, plaintext: randomBytes(size / 2).toString('hex') })
    const target = { url, path: '/v1/encrypt', secret, bodies: [body] }
    const { perSecond, p99, cpuUs } = await measure(scene, { url, pid } as Running, target)
    rows.push([size, perSecond, p99, cpuUs])
  }
  const table: Table = {
    title: 'Growth: size of the value, encrypt on the server',
    columns: ['bytes', 'requests a second', 'p99 ms', 'CPU µs a request'],
    rows: rows.map((row) => row.map((value, at) => (at === 0 ? String(value) : short(value)))),
  }
  const plot: Plot = {
    file: 'server-sizes',
    title: 'Encrypt on the server by size of the value',
    x: { label: 'bytes', log: true },
    y: { label: 'CPU µs a request', log: true },
    lines: [{ name: 'encrypt', points: rows.map(([size, , , cpuUs]) => [size, cpuUs]) }],
  }
  return { table, plot }
}

async function byBatch(scene: Scene, server: Running, tenant: Tenant) {
  const rows: [number, number, number, number][] = []
  for (const items of scene.options.quick ? [1, 10, 100] : [1, 3, 10, 30, 100, 300, 1_000]) {
    const { perSecond, p99, cpuUs } = await measure(scene, server, batchTarget(server, tenant, items))
    rows.push([items, perSecond * items, p99, cpuUs / items])
  }
  const table: Table = {
    title: 'Growth: items in a batch',
    columns: ['items', 'unwraps a second', 'p99 ms', 'CPU µs an item'],
    rows: rows.map((row) => row.map((value, at) => (at === 0 ? String(value) : short(value)))),
  }
  const plot: Plot = {
    file: 'batch',
    title: 'Unwraps a second by items in a batch',
    x: { label: 'items in a batch', log: true },
    y: { label: 'unwraps a second' },
    lines: [{ name: 'unwrap', points: rows.map(([items, perSecond]) => [items, perSecond]) }],
  }
  return { table, plot }
}

async function byKeys(scene: Scene, server: Running, { secret, post }: Tenant): Promise<Table> {
  const rows: string[][] = []
  const bodies: { path: string; body: string }[] = []
  const counts = scene.options.quick ? [10, 100] : [10, 100, 1_000, 9_999] // a tenant has one besides, and 10,000 at most
  for (const count of counts) {
    const add = async (at: number) => {
      const { id } = await post('/v1/keys', { name: `growth ${at}` })
      const { wrapped_key } = await post(`/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })
      bodies.push({ path: id, body: wrapped_key })
    }
    await grow(bodies.length, count, add)
    // By batches of one, whose path is the same whatever the key.
    const list = bodies.map(({ path, body }) =>
      JSON.stringify({ operations: [{ op: 'unwrap', key_id: path, wrapped_key: body }] }),
    )
    const target = { url: server.url, path: '/v1/batch', secret, bodies: list }
    await measure(scene, server, target, { seconds: 2 })
    const { perSecond, p99, cpuUs } = await measure(scene, server, target)
    rows.push([String(count), short(perSecond), short(p99), short(cpuUs), short(server.rss() / 2 ** 20)])
  }
  return {
    title: 'Growth: keys of a tenant, all of them in use',
    columns: ['keys', 'unwraps a second', 'p99 ms', 'CPU µs a request', 'RSS MiB'],
    rows,
  }
}

const AT_ONCE = 16

/** Runs the task for each number from one to before the other, several at a time. */
async function grow(from: number, to: number, task: (at: number) => Promise<void>): Promise<void> {
  let next = from
  const loop = async () => {
    while (next < to) await task(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, loop))
}

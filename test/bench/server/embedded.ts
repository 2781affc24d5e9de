// The embedded database against PostgreSQL; and what a server costs that nobody calls: its start and its memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Database, startServer } from '../lib/process.js'
import { type BarRow, type Findings, short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

const IDLE_MS = 3_000
const MIB = 2 ** 20
const environment = { EAAS_LOG_LEVEL: 'silent' }

export async function measureEmbedded(scene: Scene): Promise<Findings> {
  const onPostgres = await scene.database()
  const onEmbedded = scene.dataDir()
  const postgres = await startServer(scene.place, onPostgres, { environment })
  const embedded = await startServer(scene.place, onEmbedded, { environment })
  try {
    const postgresTarget = unwrapTarget(postgres, await makeTenant(onPostgres, postgres))
    const embeddedTarget = unwrapTarget(embedded, await makeTenant(onEmbedded, embedded))
    const { costs, record, cells } = recorder()
    const measured = await interleave(
      {
        postgres: () => record('PostgreSQL', measure(scene, postgres, postgresTarget)),
        embedded: () => record('embedded', measure(scene, embedded, embeddedTarget)),
      },
      scene.options,
    )
    return {
      bars: [
        {
          what: 'unwrap on the embedded database',
          against: 'on PostgreSQL',
          measured: spread(ratios(measured.embedded, measured.postgres)),
          atLeast: 0.6,
        },
      ],
      tables: [
        {
          title: 'Unwrap by database, 64 connections',
          columns: ['database', 'requests a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'RSS MiB after'],
          rows: [...costs.keys()].map((name) => [
            name,
            ...cells(name, ['perSecond', 'p50', 'p99', 'cpuUs']),
            short((name === 'embedded' ? embedded : postgres).rss() / MIB),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await postgres.stop()
    await embedded.stop()
  }
}

export async function measureIdle(scene: Scene): Promise<Findings> {
  const times = scene.options.quick ? 2 : 3
  const cases = {
    'PostgreSQL, first start': { database: () => scene.database(), ready: 1_000, cpu: undefined, rss: 120 },
    'PostgreSQL, next start': { database: once(() => scene.database()), ready: 1_000, cpu: 300, rss: 120 },
    'embedded, first start': { database: async () => scene.dataDir(), ready: 1_000, cpu: undefined, rss: 300 },
    'embedded, next start': { database: once(async () => scene.dataDir()), ready: 1_000, cpu: undefined, rss: 300 },
  }
  const ready: Record<string, number[]> = {}
  const readyCpu: Record<string, number[]> = {}
  const rss: Record<string, number[]> = {}
  for (let round = -1; round < times; round++) {
    for (const [name, { database }] of Object.entries(cases)) {
      await scene.options.turn()
      const server = await startServer({ ...scene.place, cpus: undefined }, await database(), { environment })
      if (round >= 0) await sleep(IDLE_MS)
      const bytes = server.rss()
      await server.stop()
      if (round < 0) continue // makes the database that the next starts find
      ready[name] = [...(ready[name] ?? []), server.readyMs]
      readyCpu[name] = [...(readyCpu[name] ?? []), server.readyCpuMs]
      rss[name] = [...(rss[name] ?? []), bytes / MIB]
    }
  }
  const bars = Object.entries(cases).flatMap(([name, bar]): BarRow[] => [
    { what: `ready: ${name}`, against: '', measured: spread(ready[name] ?? []), unit: 'ms', atMost: bar.ready },
    {
      what: `ready: ${name}: CPU`,
      against: '',
      measured: spread(readyCpu[name] ?? []),
      unit: 'ms',
      ...(bar.cpu === undefined ? {} : { atMost: bar.cpu }),
    },
    {
      what: `RSS idle: ${name}`,
      against: '',
      measured: spread(rss[name] ?? []),
      unit: 'MiB',
      ...(bar.rss === undefined ? {} : { atMost: bar.rss }),
    },
  ])
  return { bars, tables: [], plots: [] }
}

function once(make: () => Promise<Database>): () => Promise<Database> {
  let made: Promise<Database> | undefined
  return () => {
    made ??= make()
    return made
  }
}

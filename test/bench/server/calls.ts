// One process, 64 connections, PostgreSQL with fsync: each call against a raw Fastify echo in the same rounds.
import { startProgram, startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { callTargets, type MeasuredCall, makeTenant, measure, recorder, type Scene } from '../lib/scene.js'

export async function measureCalls(scene: Scene): Promise<Findings> {
  const { place, options } = scene
  const database = await scene.database()
  const server = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const echo = await startProgram(place, 'server/echo-fastify.mjs')
  try {
    const targets = await callTargets(server, await makeTenant(database, server))
    const { record, figures, cells } = recorder()
    const call = (name: MeasuredCall) => [name, () => record(name, measure(scene, server, targets[name]))] as const
    const calls = [call('unwrap'), call('wrap'), call('encrypt 256 B'), call('decrypt 256 B'), call('hash')]
    const echoed = { url: echo.url, path: '/echo', bodies: targets.unwrap.bodies }
    await interleave(
      { echo: () => record('echo', measure(scene, echo, echoed)), ...Object.fromEntries(calls) },
      options,
    )
    return {
      bars: [
        ...calls.map(
          ([name]): BarRow => ({
            what: `${name}, 64 connections`,
            against: 'raw Fastify echo, by CPU',
            measured: spread(ratios(figures('echo', 'cpuUs'), figures(name, 'cpuUs'))),
            ...(name === 'unwrap' ? { atLeast: 0.27 } : {}),
          }),
        ),
        {
          what: 'unwrap, 64 connections: p99',
          against: '',
          measured: spread(figures('unwrap', 'p99')),
          unit: 'ms',
          atMost: 15,
        },
      ],
      tables: [
        {
          title: 'Calls, one process, 64 connections, PostgreSQL with fsync',
          columns: ['call', 'requests a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'of PostgreSQL', 'failed'],
          rows: ['echo', ...calls.map(([name]) => name)].map((name) => [
            name,
            ...cells(name, ['perSecond', 'p50', 'p99', 'cpuUs', 'databaseUs', 'failed']),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await Promise.all([server.stop(), echo.stop()])
  }
}

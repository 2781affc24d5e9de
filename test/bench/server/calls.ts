// One process, 64 connections, PostgreSQL with fsync: each call against a raw Fastify echo in the same rounds.
import type { Target } from '../lib/load.js'
import { startProgram, startServer } from '../lib/process.js'
import type { Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import {
  batchTarget,
  callTargets,
  type MeasuredCall,
  makeTenant,
  measure,
  recorder,
  type Scene,
  unwrapTarget,
} from '../lib/scene.js'

const ITEMS = 100

export async function measureCalls(scene: Scene): Promise<Findings> {
  const { place, options } = scene
  const silentOn = await scene.database()
  const loggingOn = await scene.database()
  const silent = await startServer(place, silentOn, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const logging = await startServer(place, loggingOn)
  const echo = await startProgram(place, 'server/echo-fastify.mjs')
  try {
    const tenant = await makeTenant(silentOn, silent)
    const loggingTenant = await makeTenant(loggingOn, logging)
    const targets = await callTargets(silent, tenant)
    const { costs, record, figures, cells } = recorder()
    const { bodies } = targets.unwrap
    const on = (server: typeof silent, target: Target, name: string) => () =>
      record(name, measure(scene, server, target))
    const call = (name: MeasuredCall) => on(silent, targets[name], name)
    const measured = await interleave(
      {
        echo: on(echo, { url: echo.url, path: '/echo', bodies }, 'echo'),
        unwrap: call('unwrap'),
        'unwrap, log info': on(logging, unwrapTarget(logging, loggingTenant), 'unwrap, log info'),
        wrap: call('wrap'),
        'encrypt 256 B': call('encrypt 256 B'),
        'decrypt 256 B': call('decrypt 256 B'),
        hash: call('hash'),
        'batch of 100 unwraps': on(silent, batchTarget(silent, tenant, ITEMS), 'batch of 100 unwraps'),
      },
      options,
    )
    const against = (name: keyof typeof measured, atLeast: number) => ({
      what: `${name}, 64 connections`,
      against: 'raw Fastify echo',
      measured: spread(ratios(measured[name], measured.echo)),
      atLeast,
      note: `by CPU time a request: ${short(spread(figures('echo', 'cpuUs')).median / spread(figures(name, 'cpuUs')).median)}`,
    })
    return {
      bars: [
        against('unwrap', 0.45),
        against('unwrap, log info', 0.45),
        against('wrap', 0.4),
        against('encrypt 256 B', 0.4),
        against('decrypt 256 B', 0.4),
        against('hash', 0.4),
        {
          what: 'batch of 100 unwraps, items a second',
          against: 'single unwraps',
          measured: spread(
            ratios(
              measured['batch of 100 unwraps'].map((value) => value * ITEMS),
              measured.unwrap,
            ),
          ),
          atLeast: 4,
        },
        {
          what: 'unwrap, log at info as shipped',
          against: 'log silent',
          measured: spread(ratios(measured['unwrap, log info'], measured.unwrap)),
          atLeast: 0.85,
        },
      ],
      tables: [
        {
          title: 'Calls, one process, 64 connections, PostgreSQL with fsync',
          columns: ['call', 'requests a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'GC µs', 'failed'],
          rows: [...costs.keys()].map((name) => [
            name,
            ...cells(name, ['perSecond', 'p50', 'p99', 'cpuUs', 'gcUs', 'failed']),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await Promise.all([silent, logging, echo].map((process) => process.stop()))
  }
}

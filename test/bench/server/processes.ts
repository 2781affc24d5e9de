// Two processes that serve one hot tenant, against one process: nothing may starve, nothing may fail. Not pinned.
import { startServer } from '../lib/process.js'
import type { Findings } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

export async function measureProcesses(scene: Scene): Promise<Findings> {
  const place = { ...scene.place, cpus: undefined }
  const environment = { EAAS_LOG_LEVEL: 'silent' }
  const [aloneOn, sharedOn] = [await scene.database(), await scene.database()]
  const alone = await startServer(place, aloneOn, { environment })
  const first = await startServer(place, sharedOn, { environment })
  const second = await startServer(place, sharedOn, { environment })
  try {
    const aloneTarget = unwrapTarget(alone, await makeTenant(aloneOn, alone))
    const shared = await makeTenant(sharedOn, first)
    const { costs, record, figures, failures, cells } = recorder()
    const half = { connections: 32 }
    await interleave(
      {
        one: () => record('one process', measure(scene, alone, aloneTarget)),
        async two() {
          const [a] = await Promise.all([
            record('two processes: the first', measure(scene, first, unwrapTarget(first, shared), half)),
            record('two processes: the second', measure(scene, second, unwrapTarget(second, shared), half)),
          ])
          return a
        },
      },
      scene.options,
    )
    const worst = figures('two processes: the first', 'p99').map((p99, at) =>
      Math.max(p99, figures('two processes: the second', 'p99')[at] ?? 0),
    )
    const failed = failures()
    return {
      bars: [
        {
          what: 'two processes, one hot tenant: the worse p99',
          against: 'one process',
          measured: spread(ratios(worst, figures('one process', 'p99'))),
          atMost: 5,
        },
        {
          what: 'two processes, one hot tenant: failed calls',
          against: '',
          measured: { median: failed, min: failed, max: failed },
          atMost: 0,
        },
      ],
      tables: [
        {
          title: 'Two processes on one tenant, 32 connections each',
          columns: ['', 'requests a second', 'p50 ms', 'p99 ms', 'failed'],
          rows: [...costs.keys()].map((name) => [name, ...cells(name, ['perSecond', 'p50', 'p99', 'failed'])]),
        },
      ],
      plots: [],
    }
  } finally {
    await Promise.all([alone, first, second].map((server) => server.stop()))
  }
}

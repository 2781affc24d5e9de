// What a budget costs a call: unwraps by an API key that has one, against unwraps by one that has none.
import { startServer } from '../lib/process.js'
import type { Findings } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

const PLAIN = 'without a budget'
const BUDGETED = 'with a budget'
/** So many that no call is refused. */
const BUDGET = { unwrap: { per_minute: 1_000_000_000, per_day: 1_000_000_000 } }

export async function measureLimits(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    const plain = unwrapTarget(server, tenant)
    const created = { name: 'bench', permissions: ['unwrap'], budgets: BUDGET }
    const budgeted = { ...plain, secret: (await tenant.post('/v1/api-keys', created)).secret }
    const { record, cells } = recorder()
    const measured = await interleave(
      {
        plain: () => record(PLAIN, measure(scene, server, plain)),
        budgeted: () => record(BUDGETED, measure(scene, server, budgeted)),
      },
      scene.options,
    )
    return {
      bars: [
        {
          what: 'unwrap by an API key with a budget',
          against: 'with none',
          measured: spread(ratios(measured.budgeted, measured.plain)),
          note: 'it counts in the database before the answer',
        },
      ],
      tables: [
        {
          title: 'Unwraps by an API key with a budget and by one without; 64 connections',
          columns: ['', 'requests a second', 'p99 ms', 'CPU µs a request', 'failed'],
          rows: [PLAIN, BUDGETED].map((name) => [name, ...cells(name, ['perSecond', 'p99', 'cpuUs', 'failed'])]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

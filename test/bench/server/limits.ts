// What binding and limits cost a call: unwraps with a context, and by API keys that are restricted, against unwraps with neither.
import { randomBytes } from 'node:crypto'
import type { Target } from '../lib/load.js'
import { startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, type Tenant, unwrapTarget } from '../lib/scene.js'

const PLAIN = 'unwrap'
const BUDGETED = 'by an API key with a budget'
/** So many that no call is refused. */
const BUDGET = { unwrap: { per_minute: 1_000_000_000, per_day: 1_000_000_000 } }
const USE = {
  purpose: 'data',
  context: { model: 'customers', field: 'email', row: '8f0c2c1e-5a55-4a6c-9a53-6a2f0f4f1b11' },
}

export async function measureLimits(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    const plain = unwrapTarget(server, tenant)
    const by = async (limits: object): Promise<Target> => {
      const name = `bench ${Object.keys(limits)}`
      const { secret } = await tenant.post('/v1/api-keys', { name, permissions: ['unwrap'], ...limits })
      return { ...plain, secret }
    }
    const cases: Record<string, Target> = {
      [PLAIN]: plain,
      'with a context': { ...plain, bodies: await bodiesWithUse(tenant) },
      'by an API key with a list of keys and of addresses': await by({
        keys: [tenant.keyId, 'customers/*'],
        allowed_ips: ['10.0.0.0/8', '127.0.0.0/8', '::1/128'],
      }),
      [BUDGETED]: await by({ budgets: BUDGET }),
    }
    const { record, figures } = recorder()
    await interleave(
      Object.fromEntries(
        Object.entries(cases).map(([name, target]) => [name, () => record(name, measure(scene, server, target))]),
      ),
      scene.options,
    )
    const names = Object.keys(cases)
    return {
      bars: names.slice(1).map(
        (name): BarRow => ({
          what: `unwrap ${name}: CPU a call`,
          against: 'with neither',
          measured: spread(ratios(figures(name, 'cpuUs'), figures(PLAIN, 'cpuUs'))),
          // A budget counts in the database before the answer.
          ...(name === BUDGETED ? {} : { atMost: 1.05 }),
        }),
      ),
      tables: [
        {
          title: 'Unwraps with a context, and by restricted API keys; 64 connections',
          columns: ['', 'requests a second', 'p99 ms', 'CPU µs a request', 'failed'],
          rows: names.map((name) => [
            name,
            ...(['perSecond', 'p99', 'cpuUs'] as const).map((figure) => withSpread(spread(figures(name, figure)))),
            short(figures(name, 'failed').reduce((sum, count) => sum + count, 0)),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

/** Bodies of unwraps, of as many wrapped keys as the tenant has, that are bound to a purpose and a context. */
async function bodiesWithUse({ keyId, tokens, post }: Tenant): Promise<string[]> {
  const operations = tokens.map(() => ({
    op: 'wrap',
    key_id: keyId,
    dek: randomBytes(32).toString('base64'),
    ...USE,
  }))
  const { results } = await post('/v1/batch', { operations })
  return results.map(({ body }: { body: { wrapped_key: string } }) =>
    JSON.stringify({ wrapped_key: body.wrapped_key, ...USE }),
  )
}

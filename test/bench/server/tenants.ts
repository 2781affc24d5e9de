// 64 connections over many tenants, against the same over one: each tenant has its own chain, so a commit gathers from all of them.
import { randomBytes } from 'node:crypto'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { openInstallation } from '../../../packages/server/src/installation.js'
import { createTenant } from '../../../packages/server/src/operators/tenants.js'
import type { Target } from '../lib/load.js'
import { type Database, ROOT_KEY, type Running, startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { callerOf, measure, recorder, type Scene } from '../lib/scene.js'

const AT_ONCE = 16

export async function measureTenants(scene: Scene): Promise<Findings> {
  const counts = scene.options.quick ? [1, 100] : [1, 100, 1_000]
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const targets = await makeTenants(database, server, Math.max(...counts))
    const { record, figures, cells } = recorder()
    const nameOf = (count: number) => String(count)
    await interleave(
      Object.fromEntries(
        counts.map((count) => [
          nameOf(count),
          () => record(nameOf(count), measure(scene, server, targetOf(server, targets.slice(0, count)))),
        ]),
      ),
      scene.options,
    )
    const against = (count: number, figure: 'cpuUs' | 'perSecond') =>
      spread(ratios(figures(nameOf(count), figure), figures(nameOf(1), figure)))
    const bars = counts.slice(1).flatMap((count): BarRow[] => [
      { what: `${count} tenants: CPU a call`, against: 'one tenant', measured: against(count, 'cpuUs'), atMost: 1.3 },
      {
        what: `${count} tenants: calls a second`,
        against: 'one tenant',
        measured: against(count, 'perSecond'),
        atLeast: 0.7,
      },
    ])
    return {
      bars,
      tables: [
        {
          title: 'Unwraps over many tenants, 64 connections',
          columns: ['tenants', 'unwraps a second', 'p99 ms', 'CPU µs a request', 'of PostgreSQL', 'failed'],
          rows: counts
            .map(nameOf)
            .map((name) => [name, ...cells(name, ['perSecond', 'p99', 'cpuUs', 'databaseUs', 'failed'])]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

interface TenantTarget {
  secret: string
  path: string
  body: string
}

function targetOf({ url }: Running, requests: readonly TenantTarget[]): Target {
  return { url, path: '', bodies: [], requests }
}

/** Makes tenants with a key each, beside the server, as its command line does it, without a process for each tenant. */
async function makeTenants(database: Database, server: Running, count: number): Promise<TenantTarget[]> {
  const config = readConfig({ EAAS_DATABASE_URL: database.url, EAAS_ROOT_KEY: ROOT_KEY })
  const installation = await openInstallation({ config, onAlarm: () => undefined })
  const { services } = installation
  const targets: TenantTarget[] = []
  let next = 0
  const loop = async () => {
    while (next < count) {
      const name = `tenant ${next++}`
      const tenant = await createTenant(services, { name, envelope_only: true })
      const { secret } = tenant.api_key
      const post = callerOf(server, secret)
      const { id } = await post('/v1/keys', { name })
      const { wrapped_key } = await post(`/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })
      targets.push({ secret, path: `/v1/keys/${id}/unwrap`, body: JSON.stringify({ wrapped_key }) })
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, loop))
    return targets
  } finally {
    await installation.close()
  }
}

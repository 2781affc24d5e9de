// kill -9 of PostgreSQL under load, and connections that are cut.
// In `npm run test:slow` also of single connections' processes, with short and long outages.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { IS_SLOW_RUN, rounds } from '../support/run/rounds.js'
import { connectTo, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'
import { untilHealthy } from './crash-run.js'
import { checkInvariants } from './invariants.js'
import { crashPostgresRepeatedly, describePostgresFigures, type PostgresCrashOptions } from './postgres-crash-run.js'

/** The service promises to work again within this time after its database does. */
const RECOVERY_MS = 5_000
const CRASHES: PostgresCrashOptions = IS_SLOW_RUN
  ? { kills: 40, betweenMs: [200, 3_000], downMs: [0, 8_000], backendEvery: 4 }
  : { kills: 2, betweenMs: [400, 1_000], downMs: [2_000, 6_000] }
const TIMEOUT_MS = rounds(5, 30) * 60_000
const CUTS = rounds(8, 40)
const BETWEEN_CUTS_MS = 100
const CLIENTS = 16
const SHOWN_STDERR = 4_000

describe.skipIf(backend() === 'embedded')(
  'PostgreSQL killed under load (the embedded one dies with the server)',
  () => {
    it('keeps what was acknowledged, and is served again within 5 s of taking connections', {
      timeout: TIMEOUT_MS,
    }, async () => {
      const figures = await crashPostgresRepeatedly(CRASHES)
      console.log(describePostgresFigures(figures))
      expect(figures.violations).toEqual([])
      expect(figures.acked).toBeGreaterThan(100)
      expect(figures.recoveredMs.at(-1)).toBeLessThanOrEqual(RECOVERY_MS)
    })
  },
)

describe.skipIf(backend() === 'embedded')('a server whose connections are cut (an embedded one has one socket)', () => {
  it('lives on, and every acknowledged call stands', { timeout: 120_000 }, async () => {
    const { database, tenant_id, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    const load = await startLoad({
      target: () => eaas.url,
      secret: api_key.secret,
      clients: CLIENTS,
      mix: { unwrap: 30, wrap: 30, hash: 10, create: 15, rotate: 15 }, // changes are transactions of several statements
    })
    const sql = connectTo(database)
    try {
      for (let cut = 0; cut < CUTS; cut++) {
        await sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'eaas'`
        await sleep(BETWEEN_CUTS_MS)
      }
      await load.stop()
      await untilHealthy(eaas.url).catch((cause) => {
        throw new Error(`the server is not healthy: ${eaas.stderr.slice(-SHOWN_STDERR)}`, { cause })
      })
      const { violations } = await checkInvariants(sql, {
        tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: eaas.url,
        secret: api_key.secret,
        mostUnacknowledged: CUTS * CLIENTS,
      })
      expect(violations).toEqual([])
    } finally {
      await sql.end()
      await eaas.stop()
    }
  })
})

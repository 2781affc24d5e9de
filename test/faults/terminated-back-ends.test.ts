// An administrator, or a failover, ends the database's idle sessions: no call fails whose statement was not executed, and none is recorded twice.
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { rounds } from '../support/run/rounds.js'
import { connectTo } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'
import { ROOT_KEY, startService } from '../support/service/service.js'
import { checkInvariants } from './invariants.js'

const ROUNDS = rounds(10, 40)
const CLIENTS = 4
const PAUSE_MS = 5
/** How many calls succeed between two rounds: a call is sent once more, so it may meet one round and not two. */
const CALLS_BETWEEN = 8 * CLIENTS

/** Ends the idle sessions of servers; the number of them is the process's output. */
const TERMINATE = `
  import postgres from 'postgres'
  const sql = postgres(process.argv[1], { max: 1 })
  const [{ ended }] = await sql\`
    select count(pg_terminate_backend(pid, 5000))::int as ended from pg_stat_activity
    where datname = current_database() and application_name = 'eaas' and state = 'idle'\`
  await sql.end()
  console.log(ended)`

describe.skipIf(backend() === 'embedded')('a server whose idle sessions the database ends', () => {
  it('fails no call, and records each once', { timeout: 120_000 }, async () => {
    const service = await startService()
    const { tenant, secret } = await service.createTenant({ envelope_only: false })
    const load = await startLoad({
      target: () => service.url,
      secret,
      clients: CLIENTS,
      mix: { unwrap: 40, wrap: 40, hash: 20 },
      pauseMs: () => PAUSE_MS,
    })
    if (service.database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const sql = connectTo(service.database)
    let ended = 0
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const before = load.acked()
        await expect.poll(load.acked, { interval: 10, timeout: 60_000 }).toBeGreaterThan(before + CALLS_BETWEEN)
        // The server, which is this process, learns of it after it has sent the calls that arrived meanwhile.
        const { stdout } = spawnSync(process.execPath, [
          '--input-type=module',
          '-e',
          TERMINATE,
          service.database.directUrl,
        ])
        ended += Number(stdout)
      }
      await load.stop()
      expect([load.failures(), ended > ROUNDS]).toEqual([0, true])
      const { violations } = await checkInvariants(sql, {
        tenant_id: tenant.tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: service.url,
        secret,
        mostUnacknowledged: 0,
      })
      expect(violations).toEqual([])
    } finally {
      await load.stop()
      await sql.end()
      await service.close()
    }
  })
})

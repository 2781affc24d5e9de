// kill -9 of PostgreSQL under load while the server keeps running: it must recover by itself.

import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { inject } from 'vitest'
import { findPostgres } from '../support/database/find-postgres.js'
import { type PostgresServer, startPostgres } from '../support/database/postgres.js'
import {
  connectTo,
  createTenantInProcess,
  type EaasProcess,
  ROOT_KEY,
  startEaas,
} from '../support/service/eaas-process.js'
import { callsOf, startLoad } from '../support/service/load.js'
import { percentile, untilHealthy } from './crash-run.js'
import { checkInvariants, type Findings } from './invariants.js'

const CLIENTS = 16
const POLL_MS = 20
const RECOVERY_TIMEOUT_MS = 60_000
const SHOWN_STDERR = 4_000

export interface PostgresCrashFigures extends Findings {
  kills: number
  acked: number
  failures: number
  /** from the moment when the database takes connections to the first call that the server carries out, sorted */
  recoveredMs: number[]
}

export interface PostgresCrashOptions {
  kills: number
  /** the shortest and the longest time under load between two kills, in milliseconds */
  betweenMs: [number, number]
  /** the shortest and the longest time that the database stays down, in milliseconds */
  downMs: [number, number]
  /** every n-th kill hits one connection's process only, after which PostgreSQL restarts by itself; none by default */
  backendEvery?: number
}

/** Kills PostgreSQL under load, starts it again, and checks the invariants after the last start. */
export async function crashPostgresRepeatedly(options: PostgresCrashOptions): Promise<PostgresCrashFigures> {
  const { kills, betweenMs, downMs, backendEvery = Number.POSITIVE_INFINITY } = options
  const bin = findPostgres()
  if (!bin) throw new Error('there is no PostgreSQL to kill')
  const cluster = await startPostgres({ bin, runDir: inject('runDir') })
  try {
    const url = await cluster.createDatabase('crash')
    const database = { backend: 'postgres' as const, url, directUrl: url, drop: () => Promise.resolve() }
    const { tenant_id, api_key } = await createTenantInProcess({ database }, 'crash')
    const eaas = await startEaas({ database })
    const load = await startLoad({ target: () => eaas.url, secret: api_key.secret, clients: CLIENTS })
    const recoveredMs: number[] = []
    for (let kill = 1; kill <= kills; kill++) {
      await sleep(randomInt(...betweenMs))
      if (kill % backendEvery === 0) {
        await killConnection(cluster)
        await untilAccepting(cluster.url)
      } else {
        await cluster.kill()
        await sleep(randomInt(...downMs))
        await cluster.start()
      }
      const from = performance.now()
      await untilServed(eaas, api_key.secret)
      recoveredMs.push(Math.round(performance.now() - from))
    }
    await untilHealthy(eaas.url)
    await load.stop()

    const sql = connectTo(database)
    try {
      const findings = await checkInvariants(sql, {
        tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: eaas.url,
        secret: api_key.secret,
        mostUnacknowledged: kills * CLIENTS,
      })
      return {
        ...findings,
        kills,
        acked: load.acked(),
        failures: load.failures(),
        recoveredMs: recoveredMs.sort((a, b) => a - b),
      }
    } finally {
      await sql.end()
      await eaas.stop()
    }
  } finally {
    await cluster.remove()
  }
}

/** Writes the figures as one line for the output of the run. */
export function describePostgresFigures({
  kills,
  acked,
  failures,
  entries,
  unacknowledged,
  recoveredMs,
}: PostgresCrashFigures): string {
  return (
    `kill -9 of PostgreSQL: ${kills} kills, ${acked} acknowledged calls, ${failures} answered 5xx, ${entries} entries, ` +
    `${unacknowledged} of them of calls without a good answer; the server served again after ` +
    `${percentile(recoveredMs, 0.5)} ms (p50), ${recoveredMs.at(-1)} ms (most)`
  )
}

/** Kills one connection's process. PostgreSQL then assumes damaged shared memory, ends all its processes and recovers. */
async function killConnection({ url }: PostgresServer): Promise<void> {
  const sql = postgres(url, { max: 1 })
  try {
    const [victim] = await sql<{ pid: number }[]>`
      select pid from pg_stat_activity where application_name = 'eaas' order by random() limit 1`
    if (victim) process.kill(victim.pid, 'SIGKILL')
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function untilAccepting(url: string): Promise<void> {
  await poll('PostgreSQL did not take connections', async () => {
    const sql = postgres(url, { max: 1, connect_timeout: 5 })
    try {
      await sql`select 1`
      return true
    } catch {
      return false // still recovering: the caller tries again
    } finally {
      await sql.end({ timeout: 1 })
    }
  })
}

async function untilServed(eaas: EaasProcess, secret: string): Promise<void> {
  const call = callsOf(secret)
  await poll('the server did not serve', async () => {
    try {
      return (await call(eaas.url, 'GET', '/v1/keys?limit=1')).status === 200
    } catch (cause) {
      throw new Error(`the server took no call: ${eaas.stderr.slice(-SHOWN_STDERR)}`, { cause })
    }
  })
}

async function poll(otherwise: string, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + RECOVERY_TIMEOUT_MS
  while (Date.now() < deadline) {
    if (await isDone()) return
    await sleep(POLL_MS)
  }
  throw new Error(`${otherwise} within ${RECOVERY_TIMEOUT_MS} ms`)
}

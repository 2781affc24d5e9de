// kill -9 of the server under load, again and again, on the back end of the running vitest project.
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { connectTo, type EaasProcess, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'
import { checkInvariants, type Findings } from './invariants.js'

const CLIENTS = 16
/** One start in this many is killed too, as in a crash loop. */
const KILLED_START = 5
const KILLED_START_MS = 400
const HEALTHY_TIMEOUT_MS = 60_000

export interface CrashFigures extends Findings {
  kills: number
  acked: number
  wraps: number
  /** from the start of the process to its first healthy answer, sorted */
  readyMs: number[]
}

/**
 * Kills a server under load, starts it again, and checks the invariants after the last start.
 * @param betweenMs the shortest and the longest time under load between two kills, in milliseconds
 * @param leastAcked calls that are acknowledged by the last kill; a share of them before each
 */
export async function crashRepeatedly({
  kills,
  betweenMs: [shortest, longest],
  leastAcked = 0,
}: {
  kills: number
  betweenMs: [number, number]
  leastAcked?: number
}): Promise<CrashFigures> {
  const { database, tenant_id, api_key } = await databaseWithTenant()
  const eaas = await startEaas({ database })
  let url: string | undefined = eaas.url
  const load = await startLoad({ target: () => url, secret: api_key.secret, clients: CLIENTS })

  const readyMs: number[] = []
  let killed = 0
  while (killed < kills) {
    await sleep(randomInt(shortest, longest))
    while (load.acked() < (leastAcked * (killed + 1)) / kills) await sleep(shortest) // a slow machine needs longer
    await eaas.kill9()
    url = undefined
    killed += 1
    if (killed % KILLED_START === 0) {
      const starting = Promise.allSettled([eaas.start()])
      await sleep(randomInt(KILLED_START_MS))
      await eaas.kill9()
      await starting
    }
    const from = performance.now()
    await eaas.start()
    await untilHealthy(eaas.url)
    readyMs.push(Math.round(performance.now() - from))
    url = eaas.url
  }
  await sleep(shortest)
  await load.stop()

  const sql = connectTo(database)
  try {
    const findings = await checkInvariants(sql, {
      tenant_id,
      rootKey: ROOT_KEY,
      load,
      url: eaas.url,
      secret: api_key.secret,
      mostUnacknowledged: killed * CLIENTS,
    })
    if (load.failures() > 0) findings.violations.push(`${load.failures()} calls were answered 5xx: ${eaas.stderr}`)
    return {
      ...findings,
      kills: killed,
      acked: load.acked(),
      wraps: load.wraps.length,
      readyMs: readyMs.sort((a, b) => a - b),
    }
  } finally {
    await sql.end()
    await eaas.stop()
  }
}

/** Waits until a server reports that it is healthy. */
export async function untilHealthy(url: EaasProcess['url']): Promise<void> {
  const deadline = Date.now() + HEALTHY_TIMEOUT_MS
  while (Date.now() < deadline) {
    const { status } = await fetch(`${url}/health`)
    if (status === 200) return
    await sleep(20)
  }
  throw new Error(`the server was not healthy within ${HEALTHY_TIMEOUT_MS} ms`)
}

/** The value below which a share of the sorted values lies. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Writes the figures as one line for the output of the run. */
export function describeFigures(
  name: string,
  { kills, acked, wraps, entries, unacknowledged, readyMs }: CrashFigures,
): string {
  return (
    `${name}: ${kills} kills, ${acked} acknowledged calls (${wraps} wraps), ${entries} entries, ${unacknowledged} of them ` +
    `of unanswered calls; ready after ${percentile(readyMs, 0.5)} ms (p50), ${percentile(readyMs, 0.95)} ms (p95)`
  )
}

// Half an hour at half of what the server can do: what it holds must not grow, and its log must be whole at the end.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { percentile } from '../faults/crash-run.js'
import { checkInvariants } from '../faults/invariants.js'
import { backend, isPooled } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { connectTo, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { callsOf, startLoad } from '../support/service/load.js'

const MINUTE_MS = 60_000
const MINUTES = 30
const WARM_UP = 10
/** Full load is counted after its first seconds, in which both sides are compiled. */
const STARTING_MS = 10_000
const FULL_LOAD_MS = 20_000
const TIMEOUT_MS = 60 * MINUTE_MS
const CLIENTS = 16
/** How far the mean of the last five minutes may be above that of the five after the warm-up. */
const GROWTH_MIB = 16
const GROWTH_HANDLES = 8
/** Few new keys: a tenant has hundreds, and the server keeps them in memory. */
const MIX = { unwrap: 4_500, hash: 4_400, wrap: 1_098, create: 1, rotate: 1 }
/** What people and monitors ask for beside the load, each once a second. */
const READS = ['/health', '/metrics', '/v1/keys', '/v1/api-keys', '/v1/audit?limit=100', '/v1/tenant', '/v1/usage']

interface Sample {
  minute: number
  rssMib: number
  handles: number
}

function sampleOf(pid: number, minute: number): Sample {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return { minute, rssMib: Number(kib) / 1_024, handles: readdirSync(`/proc/${pid}/fd`).length }
}

/** Reads the answer to its end: a connection whose answer nobody reads stays open until the garbage collector finds it. */
async function metricsOf(url: string): Promise<{ status: number }> {
  const answer = await fetch(`${url}/metrics`)
  await answer.text()
  return answer
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

/** The slope of the line with the least squares, per hour. */
function slopeOf(samples: Sample[]): number {
  const [x, y] = [mean(samples.map(({ minute }) => minute)), mean(samples.map(({ rssMib }) => rssMib))]
  const products = samples.map(({ minute, rssMib }) => (minute - x) * (rssMib - y))
  return (60 * mean(products)) / mean(samples.map(({ minute }) => (minute - x) ** 2))
}

describe.skipIf(backend() === 'embedded' || isPooled())('a server at half load', () => {
  it('holds no more after half an hour, and its log has every call', { timeout: TIMEOUT_MS }, async () => {
    const { database, tenant_id, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    // The latencies of each minute; the calls of all clients share the slots of one schedule.
    const minutes: number[][] = []
    const began = performance.now()
    const minuteNow = () => (performance.now() - began) / MINUTE_MS
    let betweenMs = 0
    let slot = 0
    const load = await startLoad({
      target: () => eaas.url,
      secret: api_key.secret,
      clients: CLIENTS,
      mix: MIX,
      pauseMs() {
        slot = Math.max(performance.now(), slot + betweenMs)
        return slot - performance.now()
      },
      onAcked(tookMs) {
        const window = Math.floor(minuteNow())
        minutes[window] ??= []
        minutes[window]?.push(tookMs)
      },
    })
    await sleep(STARTING_MS)
    const ackedBefore = load.acked()
    await sleep(FULL_LOAD_MS)
    const fullRate = (load.acked() - ackedBefore) / (FULL_LOAD_MS / 1_000)
    betweenMs = 2_000 / fullRate

    const samples: Sample[] = []
    const reads: Record<number, number> = {}
    const read = callsOf(api_key.secret)
    while (minuteNow() < MINUTES) {
      for (const path of READS) {
        const { status } = path === '/metrics' ? await metricsOf(eaas.url) : await read(eaas.url, 'GET', path)
        reads[status] = (reads[status] ?? 0) + 1
      }
      samples.push(sampleOf(eaas.pid, minuteNow()))
      await sleep(1_000)
    }
    await load.stop()

    const p99 = minutes.map((window) =>
      percentile(
        window.sort((a, b) => a - b),
        0.99,
      ),
    )
    const between = (from: number, to: number) => samples.filter(({ minute }) => minute >= from && minute < to)
    const [early, late] = [between(WARM_UP, WARM_UP + 5), between(MINUTES - 5, MINUTES)]
    const rss = (window: Sample[]) => mean(window.map(({ rssMib }) => rssMib))
    const handles = (window: Sample[]) => mean(window.map((sample) => sample.handles))
    console.log(
      `soak: full load ${Math.round(fullRate)} calls/s; ${load.acked()} calls in ${MINUTES} minutes; RSS ` +
        `${rss(early).toFixed(1)} MiB in minutes ${WARM_UP} to ${WARM_UP + 5}, ${rss(late).toFixed(1)} MiB in the last five, slope ` +
        `${slopeOf(between(WARM_UP, MINUTES)).toFixed(1)} MiB/h; handles ${handles(early).toFixed(1)}, then ${handles(late).toFixed(1)}; ` +
        `p99 by minute in ms: ${p99.map((ms) => ms.toFixed(1)).join(' ')}`,
    )
    const sql = connectTo(database)
    try {
      const { secret } = api_key
      const findings = await checkInvariants(sql, {
        ...{ tenant_id, rootKey: ROOT_KEY, load, url: eaas.url, secret, mostUnacknowledged: 0 },
      })
      console.log(`soak: ${findings.entries} entries, ${findings.violations.length} violations`)
      expect(findings.violations).toEqual([])
    } finally {
      await sql.end()
    }
    expect(load.failures()).toBe(0)
    expect(Object.keys(reads)).toEqual(['200'])
    expect(rss(late) - rss(early)).toBeLessThan(GROWTH_MIB)
    expect(handles(late) - handles(early)).toBeLessThan(GROWTH_HANDLES)
    const { code, stderr } = await eaas.stop()
    expect(code).toBe(0)
    expect(stderr).not.toMatch(/"level":[56]0/)
  })
})

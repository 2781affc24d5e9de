// Measures calls while something else happens: their latencies and failures, and the memory of the server.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Calls, callsOf } from './load.js'

export interface Latencies {
  calls: number
  failed: number
  /** milliseconds */
  p50: number
  p99: number
  max: number
}

export interface LatencyOptions {
  url: string
  secret: string
  clients: number
  /** pause of each client between two calls, milliseconds */
  pauseMs: number
  /** how long, or what to wait for */
  during: number | Promise<unknown>
}

/** Wraps and unwraps under a key of its own, from many clients, and measures each call. */
export async function measureLatencies({ url, secret, clients, pauseMs, during }: LatencyOptions): Promise<Latencies> {
  const owner = callsOf(secret)
  const { body: key } = await owner(url, 'POST', '/v1/keys', { name: `latency ${randomBytes(6).toString('hex')}` })
  const path = `/v1/keys/${key.key_id}`
  const dek = randomBytes(32).toString('base64')
  const { wrapped_key } = (await owner(url, 'POST', `${path}/wrap`, { dek })).body
  const times: number[] = []
  let failed = 0
  let isOver = false
  const client = async (call: Calls) => {
    await sleep(Math.random() * pauseMs)
    while (!isOver) {
      const from = performance.now()
      const { status } = await call(url, 'POST', `${path}/unwrap`, { wrapped_key })
      times.push(performance.now() - from)
      if (status !== 200) failed += 1
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, () => client(callsOf(secret))))
  await (typeof during === 'number' ? sleep(during) : during)
  isOver = true
  await all
  times.sort((a, b) => a - b)
  const at = (share: number) => Math.round((times[Math.floor((times.length - 1) * share)] ?? 0) * 10) / 10
  return { calls: times.length, failed, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Reads the memory of a process in MiB from Linux; NaN elsewhere. */
export function residentMiB(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Number.NaN
    throw error
  }
}

/** Waits for the work, and returns the most memory that the process had meanwhile. */
export async function peakMiB(pid: () => number, work: Promise<unknown>): Promise<number> {
  let peak = Number.NaN
  const look = () => {
    const now = residentMiB(pid())
    if (Number.isNaN(peak) || now > peak) peak = now // NaN of a process that has just ended is not larger
  }
  look()
  const watching = setInterval(look, 50)
  try {
    await work
  } finally {
    clearInterval(watching)
  }
  return Math.round(peak)
}

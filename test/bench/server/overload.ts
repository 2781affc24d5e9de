// Batches of 1,000 wraps, more at once than the server can work off: throughput, and whether /health answers meanwhile. Not pinned.
import { randomBytes } from 'node:crypto'
import { startServer } from '../lib/process.js'
import { type Findings, short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'

const ITEMS = 1_000
const PAUSE_MS = 100

interface Run {
  perSecond: number
  refused: number
  other: number
  healthMs: number
}

export async function measureOverload(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const place = { guard: scene.guard, cpus: undefined }
  const server = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const { keyId, secret } = await makeTenant(database, server)
    const operations = Array.from({ length: ITEMS }, () => ({
      op: 'wrap',
      key_id: keyId,
      dek: randomBytes(32).toString('base64'),
    }))
    const body = JSON.stringify({ operations })
    const runs = new Map<number, Run[]>()
    const run = (clients: number) => async () => {
      const seconds = Math.max(4, scene.options.seconds)
      const found = await overload({ url: server.url, secret, body, clients, seconds })
      runs.set(clients, [...(runs.get(clients) ?? []), found])
      return found.perSecond
    }
    const measured = await interleave({ ten: run(10), thirty: run(30), many: run(150) }, scene.options)
    const counted = (clients: number) => (runs.get(clients) ?? []).slice(1)
    const health = [10, 30, 150].flatMap((clients) => counted(clients).map(({ healthMs }) => healthMs))
    const other = [10, 30, 150].flatMap(counted).reduce((sum, run) => sum + run.other, 0)
    return {
      bars: [
        {
          what: '30 batches of 1,000 at once: operations a second',
          against: '10 at once',
          measured: spread(ratios(measured.thirty, measured.ten)),
          atLeast: 0.8,
        },
        {
          what: '150 batches of 1,000 at once: operations a second',
          against: '10 at once',
          measured: spread(ratios(measured.many, measured.ten)),
        },
        { what: 'the slowest /health meanwhile', against: '', measured: spread(health), unit: 'ms', atMost: 1_000 },
        {
          what: 'batches answered otherwise than 200, or 503 with Retry-After',
          against: '',
          measured: { median: other, min: other, max: other },
          atMost: 0,
        },
      ],
      tables: [
        {
          title: 'Batches of 1,000 wraps; a client that is refused waits as long as the answer says',
          columns: ['at once', 'operations a second', 'refused batches', 'slowest /health ms'],
          rows: [10, 30, 150].map((clients) => [
            String(clients),
            withSpread(spread(counted(clients).map(({ perSecond }) => perSecond))),
            short(spread(counted(clients).map(({ refused }) => refused)).median),
            withSpread(spread(counted(clients).map(({ healthMs }) => healthMs))),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

async function overload({
  url,
  secret,
  body,
  clients,
  seconds,
}: {
  url: string
  secret: string
  body: string
  clients: number
  seconds: number
}): Promise<Run> {
  const until = performance.now() + seconds * 1_000
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  let [done, refused, other, healthMs] = [0, 0, 0, 0]
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  const client = async () => {
    while (performance.now() < until) {
      const answer = await fetch(`${url}/v1/batch`, { method: 'POST', headers, body })
      await answer.arrayBuffer()
      const retryAfter = Number(answer.headers.get('retry-after'))
      if (answer.status === 200 && performance.now() < until) done += ITEMS
      else if (answer.status === 503 && retryAfter > 0) {
        refused += 1
        await pause(Math.min(retryAfter * 1_000, Math.max(0, until - performance.now())))
      } else if (answer.status !== 200) other += 1
    }
  }
  const look = async () => {
    while (performance.now() < until) {
      const from = performance.now()
      await (await fetch(`${url}/health`)).arrayBuffer()
      healthMs = Math.max(healthMs, performance.now() - from)
      await pause(PAUSE_MS)
    }
  }
  const from = performance.now()
  await Promise.all([look(), ...Array.from({ length: clients }, client)])
  return { perSecond: done / Math.min(seconds, (performance.now() - from) / 1_000), refused, other, healthMs }
}

import { makeLongLog } from '../../support/audit/long-log.js'
import { ROOT_KEY, startServer } from '../lib/process.js'
import { type BarRow, type Findings, short, type Table, withSpread } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'

const CALLERS = 64
const DAY_MS = 86_400_000

export async function measureAppend(scene: Scene): Promise<Findings> {
  const { rounds, seconds } = scene.options
  const { url } = await scene.database()
  const target = { url, rootKey: ROOT_KEY, callers: CALLERS, seconds, rounds }
  const measured = await runWorker(scene, 'audit/append-worker.ts', target)
  return {
    bars: [],
    tables: [
      {
        title: 'Audit append, PostgreSQL with fsync',
        columns: ['', 'entries a second'],
        rows: Object.entries(measured).map(([name, values]) => [name, withSpread(spread(values as number[]))]),
      },
    ],
    plots: [],
  }
}

export async function measureScale(scene: Scene): Promise<Findings> {
  const { quick, full } = scene.options
  const sizes = quick
    ? [2_000, 20_000]
    : full
      ? [50_000, 100_000, 1_000_000, 5_000_000, 10_000_000]
      : [50_000, 100_000, 1_000_000]
  const rows: { entries: number; first: number[]; verifyUs: number; share: number; growth: number; elapsed: number }[] =
    []
  for (const entries of sizes) {
    const { url, log } = await scene.shared(`log of ${entries}`, async () => {
      const { url = '' } = await scene.database()
      const to = Date.now() - DAY_MS
      const from = to - 300 * DAY_MS
      return { url, log: await makeLongLog({ url, rootKey: ROOT_KEY, name: 'long', entries, from, to }) }
    })
    const server = await startServer(scene.place, { url }, { environment: { EAAS_LOG_LEVEL: 'silent' } })
    const first = await firstPage(server.url, log.secret, quick ? 20 : 200)
    await server.stop()
    const { verify, hmac, growth, elapsed } = await runWorker(scene, 'audit/scale-worker.ts', {
      url,
      rootKey: ROOT_KEY,
      tenant_id: log.tenant_id,
      entries,
      rounds: entries > 1_000_000 ? 1 : 3,
    })
    rows.push({
      entries,
      first,
      verifyUs: (spread(verify).median * 1_000) / entries,
      share: spread(ratios(hmac, verify)).median,
      growth: Math.max(...growth) / 2 ** 20,
      elapsed: spread(elapsed).median,
    })
  }
  const [small, large] = [rows.find(({ entries }) => entries >= 50_000) ?? rows[0], rows.at(-1)]
  const million = rows.find(({ entries }) => entries >= 1_000_000) ?? large
  const one = (value = Number.NaN) => ({ median: value, min: value, max: value })
  const bars: BarRow[] = [
    {
      what: `first page with exact total, ${count(large?.entries)} entries`,
      against: `${count(small?.entries)} entries`,
      measured: one(spread(large?.first ?? []).median / spread(small?.first ?? []).median),
      atMost: 2,
    },
    {
      what: `verify ${count(million?.entries)} entries`,
      against: 'HMAC alone over the same bytes, by CPU time',
      measured: one(million?.share),
      atLeast: 0.35,
    },
    {
      what: `RSS growth while verifying ${count(million?.entries)} entries`,
      against: '',
      measured: one(million?.growth),
      unit: 'MiB',
      atMost: 162,
    },
  ]
  const table: Table = {
    title: 'Growth: entries of the audit log',
    columns: ['entries', 'first page ms', 'verify: CPU µs an entry', 'entries a second', 'RSS growth MiB'],
    rows: rows.map(({ entries, first, verifyUs, growth, elapsed }) => [
      count(entries),
      withSpread(spread(first)),
      short(verifyUs),
      short((entries * 1_000) / elapsed),
      short(growth),
    ]),
  }
  const points = (value: (row: (typeof rows)[number]) => number) =>
    rows.map((row): [number, number] => [row.entries, value(row)])
  return {
    bars,
    tables: [table],
    plots: [
      {
        file: 'entries',
        title: 'A longer audit log',
        x: { label: 'entries', log: true },
        y: { label: 'milliseconds, CPU µs an entry' },
        lines: [
          { name: 'first page, ms', points: points(({ first }) => spread(first).median) },
          { name: 'verify, µs an entry', points: points(({ verifyUs }) => verifyUs) },
        ],
      },
    ],
  }
}

async function firstPage(url: string, secret: string, times: number): Promise<number[]> {
  const took: number[] = []
  for (let at = -10; at < times; at++) {
    const startedAt = performance.now()
    const response = await fetch(`${url}/v1/audit`, { headers: { authorization: `Bearer ${secret}` } })
    const text = await response.text()
    if (!response.ok) throw new Error(`/v1/audit was answered ${response.status}: ${text}`)
    if (at >= 0) took.push(performance.now() - startedAt)
  }
  return took
}

function count(entries = Number.NaN): string {
  return entries.toLocaleString('en-US')
}

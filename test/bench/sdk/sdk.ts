// The SDK against other ways to do the same; see worker.mjs. The service is a real one, on the embedded database.
import { spawnSync } from 'node:child_process'
import { startServer } from '../lib/process.js'
import { type BarRow, type Findings, short } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'
import { type Measured, peersOf, textPlot, textTable } from './text.js'

const EAAS = 'eaas'
const CLOAK = 'cloak'
const AWS = 'aws-crypto, caching CMM'
const BYTES = [2 ** 20, 2 ** 24]

export async function measureSdk(scene: Scene): Promise<Findings> {
  const { quick, rounds } = scene.options
  const database = scene.dataDir()
  const server = await startServer({ guard: scene.guard, cpus: scene.pinning?.others }, database, {
    environment: { EAAS_LOG_LEVEL: 'silent' },
  })
  try {
    const { secret, keyId } = await makeTenant(database, server)
    const target = { baseUrl: server.url, apiKey: secret, keyId }
    const results = await runWorker(scene, 'sdk/worker.mjs', { ...target, rounds, targetMs: quick ? 10 : 30 })
    const engine = await runWorker(scene, 'sdk/engine-worker.ts', { sizes: BYTES, rounds, targetMs: 100 })
    return {
      bars: [...textBars(results.text), ...byteBars(engine), ...manyBars(results.many)],
      tables: [textTable(results.text, 'encrypt', 'Node'), textTable(results.text, 'decrypt', 'Node')],
      plots: [textPlot(results.text, 'encrypt', 'Node'), textPlot(results.text, 'decrypt', 'Node')],
    }
  } finally {
    await server.stop()
  }
}

/** Bars for text there and back; at 64 KiB, for each direction. */
function textBars(text: Record<string, Measured>): BarRow[] {
  const bars: BarRow[] = []
  for (const [size, measured] of Object.entries(text)) {
    const one = (peer: string, direction: string) => measured[`${peer}/${direction}`] ?? []
    const both = (peer: string) => one(peer, 'encrypt').map((us, at) => us + (one(peer, 'decrypt')[at] ?? Number.NaN))
    const fastest = (cost: (peer: string) => number[]) =>
      peersOf(measured)
        .filter((peer) => /^(cloak|ciphersweet)/.test(peer))
        .sort((a, b) => spread(cost(a)).median - spread(cost(b)).median)[0] ?? CLOAK
    const against = (what: string, cost: (peer: string) => number[], atLeast?: number, peer = fastest(cost)) =>
      bars.push({
        what: `text of ${size} B, ${what}`,
        against: peer,
        measured: spread(ratios(cost(peer), cost(EAAS))),
        ...(atLeast === undefined ? {} : { atLeast }),
      })
    const large = Number(size) >= 65_536
    if (!large) against('there and back', both, 1.4)
    against('encrypt', (peer) => one(peer, 'encrypt'), large ? 3 : undefined)
    against('decrypt', (peer) => one(peer, 'decrypt'), large ? 2.5 : undefined)
    if (!large) against('there and back', both, 30, AWS)
  }
  return bars
}

function byteBars(bytes: Record<string, Measured>): BarRow[] {
  return Object.entries(bytes).flatMap(([size, measured]) => {
    const openssl = opensslBytesPerSecond(Number(size))
    return ['encrypt', 'decrypt'].map((direction) => ({
      what: `${Number(size) / 2 ** 20} MiB, bytes in, bytes out, ${direction}`,
      against: 'openssl speed -evp aes-256-gcm',
      measured: spread((measured[direction] ?? []).map((us) => (Number(size) * 1e6) / us / openssl)),
      atLeast: 0.5,
      note: `openssl: ${short(openssl / 2 ** 20)} MiB/s`,
    }))
  })
}

/** How many bytes openssl encrypts in a second of CPU time. */
export function opensslBytesPerSecond(size: number): number {
  const { stdout } = spawnSync(
    'openssl',
    ['speed', '-mr', '-seconds', '1', '-bytes', String(size), '-evp', 'aes-256-gcm'],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )
  return Number(stdout.trim().split(':').at(-1))
}

interface Many {
  together: number[]
  togetherCpu: number[]
  singles: number[]
  asking: number[]
  requests: Record<string, number>
}

function manyBars({ together, togetherCpu, singles, asking, requests }: Many): BarRow[] {
  const what = '6,000 fields of 40 B in 1,000 records, one call'
  const requested = requests.together ?? Number.NaN
  return [
    {
      what,
      against: '6,000 awaited calls, each with a DEK of its own',
      measured: spread(ratios(asking, together)),
      atLeast: 20,
      note: 'by elapsed time; measured with 600 of them',
    },
    {
      what,
      against: '6,000 awaited calls with a warm DEK',
      measured: spread(ratios(singles, together)),
    },
    { what: `${what}: ms of CPU`, against: '', measured: spread(togetherCpu), atMost: 60 },
    {
      what: `${what}: requests`,
      against: '',
      measured: { median: requested, min: requested, max: requested },
      atMost: 1,
    },
  ]
}

// The SDK against other ways to do the same; see worker.mjs. The service is a real one, on the embedded database.
import { startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'
import { type Measured, textPlot, textTable } from './text.js'

const EAAS = 'eaas'
const CLOAK = 'cloak'
const AWS = 'aws-crypto, caching CMM'

export async function measureSdk(scene: Scene): Promise<Findings> {
  const { quick, rounds } = scene.options
  const database = scene.dataDir()
  const server = await startServer({ ...scene.place, cpus: scene.pinning?.others }, database, {
    environment: { EAAS_LOG_LEVEL: 'silent' },
  })
  try {
    const { secret, keyId } = await makeTenant(database, server)
    const target = { baseUrl: server.url, apiKey: secret, keyId }
    const results = await runWorker(scene, 'sdk/worker.mjs', { ...target, rounds, targetMs: quick ? 10 : 30 })
    return {
      bars: [...textBars(results.text, results.major), ...manyBars(results.many), ...searchBars(results.search)],
      tables: [textTable(results.text, 'encrypt', 'Node'), textTable(results.text, 'decrypt', 'Node')],
      plots: [textPlot(results.text, 'encrypt', 'Node'), textPlot(results.text, 'decrypt', 'Node')],
    }
  } finally {
    await server.stop()
  }
}

/** Bars for text there and back; at 64 KiB, for each direction. */
function textBars(text: Record<string, Measured>, major: number): BarRow[] {
  return Object.entries(text).flatMap(([size, measured]) => {
    const one = (peer: string, direction: string) => measured[`${peer}/${direction}`] ?? []
    const both = (peer: string) => one(peer, 'encrypt').map((us, at) => us + (one(peer, 'decrypt')[at] ?? Number.NaN))
    const bar = (what: string, cost: (peer: string) => number[], against: string, atLeast?: number): BarRow => ({
      what: `text of ${size} B, ${what}`,
      against,
      measured: spread(ratios(cost(against), cost(EAAS))),
      ...(atLeast === undefined ? {} : { atLeast }),
    })
    const isLarge = Number(size) >= 65_536
    const least = Number(size) < 4_096 && major < 24 ? 1 : 1.6
    return [
      bar('there and back', both, CLOAK, isLarge ? undefined : least),
      bar('encrypt', (peer) => one(peer, 'encrypt'), CLOAK, isLarge ? 3 : undefined),
      bar('decrypt', (peer) => one(peer, 'decrypt'), CLOAK, isLarge ? 2.5 : undefined),
      bar('there and back', both, AWS, isLarge ? undefined : 30),
    ]
  })
}

interface Many {
  together: number[]
  togetherCpu: number[]
  singles: number[]
  asking: number[]
  requests: number[]
}

function manyBars({ together, togetherCpu, singles, asking, requests }: Many): BarRow[] {
  const what = '6,000 fields of 40 B in 1,000 records, one call'
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
      atLeast: 1.3,
    },
    { what: `${what}: ms of CPU`, against: '', measured: spread(togetherCpu), atMost: 60 },
    { what: `${what}: requests`, against: '', measured: spread(requests), atMost: 1 },
  ]
}

function searchBars({ ms, requests }: Record<'ms' | 'requests', number[]>): BarRow[] {
  const what = 'the index of a value to search by'
  return [
    { what, against: '', measured: spread(ms), unit: 'ms', atMost: 0.1 },
    { what: `${what}: requests`, against: '', measured: spread(requests), atMost: 0 },
  ]
}

// Files through `@eaas/sdk/streams` in Node, against openssl.
import { spawnSync } from 'node:child_process'
import type { BarRow, Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'

const MIB = 2 ** 20
/** As files of Node deliver them. */
const CHUNK_BYTES = 65_536
const MOST_ROUNDS = 3

export async function measureStreams(scene: Scene): Promise<Findings> {
  const { quick, rounds } = scene.options
  const size = (quick ? 16 : 1_024) * MIB
  const measured = await runWorker(scene, 'sdk/streams-worker.ts', { rounds: Math.min(MOST_ROUNDS, rounds), size })
  const openssl = opensslBytesPerSecond(CHUNK_BYTES)
  const opensslUs = (size * 1e6) / openssl
  const note = `openssl: ${short(openssl / MIB)} MiB/s`
  const reading: number[] = measured.read.map((us: number) => us + opensslUs)
  const bars = ['encrypt', 'decrypt'].map(
    (direction): BarRow => ({
      what: `a file of ${size / MIB} MiB, ${direction}`,
      against: 'reading it, and openssl speed -evp aes-256-gcm',
      measured: spread(ratios(reading, measured[direction])),
      atLeast: 0.4,
      note,
    }),
  )
  const memory = { what: `a file of ${size / MIB} MiB: growth of RSS`, against: '', measured: spread(measured.growth) }
  return { bars: [...bars, { ...memory, unit: 'MiB', atMost: 61 }], tables: [], plots: [] }
}

/** How many bytes openssl encrypts in a second of CPU time. */
function opensslBytesPerSecond(size: number): number {
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

// Files through `@eaas/sdk/streams` in Node, against openssl.
import type { BarRow, Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'
import { opensslBytesPerSecond } from './sdk.js'

const MIB = 2 ** 20
/** As files of Node deliver them. */
const CHUNK_BYTES = 65_536

export async function measureStreams(scene: Scene): Promise<Findings> {
  const { quick, rounds } = scene.options
  const size = (quick ? 16 : 256) * MIB
  const measured = await runWorker(scene, 'sdk/streams-worker.ts', { rounds, size })
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
  return { bars, tables: [], plots: [] }
}

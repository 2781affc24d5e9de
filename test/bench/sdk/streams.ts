// Files through `@eaas/sdk/streams` in Node, against openssl and node:crypto.
import type { BarRow, Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'
import { opensslBytesPerSecond } from './sdk.js'

const MIB = 2 ** 20
/** As files and sockets of Node deliver them. */
const CHUNK_BYTES = 65_536

export async function measureStreams(scene: Scene): Promise<Findings> {
  const { quick, rounds } = scene.options
  const size = (quick ? 16 : 256) * MIB
  const measured = await runWorker(scene, 'sdk/streams-worker.ts', { rounds, size, chunkBytes: CHUNK_BYTES })
  const openssl = opensslBytesPerSecond(CHUNK_BYTES)
  const opensslUs = (size * 1e6) / openssl
  const note = `openssl: ${short(openssl / MIB)} MiB/s`
  const bars = ['encrypt', 'decrypt'].flatMap((direction): BarRow[] => {
    const own: number[] = measured[`eaas/${direction}`]
    const what = `a stream of ${size / MIB} MiB in chunks of 64 KiB, ${direction}`
    const reading: number[] = measured['file/read'].map((us: number) => us + opensslUs)
    return [
      {
        what: `a file of ${size / MIB} MiB, ${direction}`,
        against: 'reading it, and openssl speed -evp aes-256-gcm',
        measured: spread(ratios(reading, measured[`file/${direction}`])),
        atLeast: 0.4,
        note,
      },
      {
        what,
        against: 'openssl speed -evp aes-256-gcm',
        measured: spread(own.map((us) => opensslUs / us)),
        note,
      },
      {
        what,
        against: 'node:crypto, one key and one iv',
        measured: spread(ratios(measured[`node:crypto/${direction}`], own)),
      },
    ]
  })
  return { bars, tables: [], plots: [] }
}

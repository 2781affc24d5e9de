// Encrypts so many MiB and decrypts them again, in a process of its own: how much its memory grew, and whether all came back.
// Arguments: the MiB. Prints JSON.
import { createHash } from 'node:crypto'
import { createClient } from '../../packages/sdk/src/index.js'
import { decryptStream, encryptStream } from '../../packages/sdk/src/streams.js'
import { createTestService } from '../../packages/sdk/src/testing.js'

const MIB = 1_048_576
/** What the code itself, the service in memory and the first buffers need is not the stream's. */
const WARM_UP_MIB = 32

const eaas = createClient(createTestService())
const { id: keyId } = await eaas.keys.create({ name: 'files' })
const context = { file: 'large' }

/** So many MiB, each another one. */
function source(mib: number, hash: { update(bytes: Uint8Array): unknown }): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream(
    {
      pull(controller) {
        if (at === mib) return controller.close()
        const chunk = new Uint8Array(MIB).fill(at++)
        hash.update(chunk)
        controller.enqueue(chunk)
      },
    },
    { highWaterMark: 0 },
  )
}

async function pass(mib: number): Promise<{ peak: number; bytes: number; isSame: boolean }> {
  const [given, taken] = [createHash('sha256'), createHash('sha256')]
  const through = source(mib, given)
    .pipeThrough(encryptStream(eaas, { keyId, context }))
    .pipeThrough(decryptStream(eaas, { context }))
  let [peak, bytes, unmeasured] = [0, 0, 0]
  for await (const chunk of through as unknown as AsyncIterable<Uint8Array>) {
    taken.update(chunk)
    bytes += chunk.length
    unmeasured += chunk.length
    if (unmeasured < MIB) continue
    unmeasured = 0
    peak = Math.max(peak, process.memoryUsage.rss())
  }
  return { peak, bytes, isSame: given.digest('hex') === taken.digest('hex') }
}

const { peak: before } = await pass(WARM_UP_MIB)
const { peak, bytes, isSame } = await pass(Number(process.argv[2]))
eaas.close()
console.log(JSON.stringify({ grownMiB: (peak - before) / MIB, bytes, isSame }))

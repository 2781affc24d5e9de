// Streams of bytes in Node: from a file, against reading it. Prints `RESULT <json>`: CPU µs for the whole, by what was done, round by round,
// and the growth of RSS in MiB.
import { randomBytes } from 'node:crypto'
import { appendFileSync, createReadStream, createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { createClient } from '../../../packages/sdk/src/index.js'
import { decryptStream, encryptStream } from '../../../packages/sdk/src/streams.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { interleave } from '../lib/rounds.js'

const MIB = 2 ** 20
const { rounds, size } = JSON.parse(process.argv[2] ?? '{}')
const eaas = createClient(createTestService())
const { id: keyId } = await eaas.keys.create({ name: 'files' })
const context = { file: '1' }
const encrypting = () => encryptStream(eaas, { keyId, context })

const folder = mkdtempSync(join(tmpdir(), 'eaas-bench-streams-'))
const files = { plaintext: join(folder, 'plaintext'), sealed: join(folder, 'sealed') }
for (let left = size; left > 0; left -= MIB) appendFileSync(files.plaintext, randomBytes(MIB))
const before = process.memoryUsage.rss()
await fileStream(files.plaintext)
  .pipeThrough(encrypting())
  .pipeTo(Writable.toWeb(createWriteStream(files.sealed)))

const measured = await interleave(
  {
    read: () => cpuUs(() => drain(fileStream(files.plaintext))),
    encrypt: () => cpuUs(() => drain(fileStream(files.plaintext).pipeThrough(encrypting()))),
    decrypt: () => cpuUs(() => drain(fileStream(files.sealed).pipeThrough(decryptStream(eaas, { context })))),
  },
  { rounds },
)
eaas.close()
rmSync(folder, { recursive: true })
const growth = [process.resourceUsage().maxRSS / 1_024 - before / MIB]
console.log(`RESULT ${JSON.stringify({ ...measured, growth })}`)

/** A file as Node delivers it, in chunks of 64 KiB. */
function fileStream(path: string): ReadableStream<Uint8Array> {
  return Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  // Node iterates over streams; the types are those of browsers.
  for await (const _ of stream as unknown as AsyncIterable<Uint8Array>);
}

async function cpuUs(task: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await task()
  const { user, system } = process.cpuUsage(before)
  return user + system
}

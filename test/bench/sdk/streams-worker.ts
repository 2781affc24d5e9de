// Streams of bytes in Node: from memory, against node:crypto with one key and one iv for the whole, and from a file, against reading it.
// Prints `RESULT <json>`: CPU µs for the whole, by what was done, round by round.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createClient } from '../../../packages/sdk/src/index.js'
import { decryptStream, encryptStream } from '../../../packages/sdk/src/streams.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { interleave } from '../lib/rounds.js'

const { rounds, size, chunkBytes } = JSON.parse(process.argv[2] ?? '{}')
const eaas = createClient(createTestService())
const { id: keyId } = await eaas.keys.create({ name: 'files' })
const context = { file: '1' }
const [key, iv] = [randomBytes(32), randomBytes(12)]
const plaintext = cut(randomBytes(size), chunkBytes)
const sealed = await collect(readable(plaintext).pipeThrough(encryptStream(eaas, { keyId, context })))

const cipher = createCipheriv('aes-256-gcm', key, iv)
const enciphered = plaintext.map((chunk) => cipher.update(chunk))
cipher.final()
const tag = cipher.getAuthTag()

const folder = mkdtempSync(join(tmpdir(), 'eaas-bench-streams-'))
const files = { plaintext: join(folder, 'plaintext'), sealed: join(folder, 'sealed') }
writeFileSync(files.plaintext, Buffer.concat(plaintext))
writeFileSync(files.sealed, Buffer.concat(sealed))

const measured = await interleave(
  {
    'eaas/encrypt': () => cpuUs(() => drain(readable(plaintext).pipeThrough(encryptStream(eaas, { keyId, context })))),
    'eaas/decrypt': () => cpuUs(() => drain(readable(sealed).pipeThrough(decryptStream(eaas, { context })))),
    'file/read': () => cpuUs(() => drain(fileStream(files.plaintext))),
    'file/encrypt': () =>
      cpuUs(() => drain(fileStream(files.plaintext).pipeThrough(encryptStream(eaas, { keyId, context })))),
    'file/decrypt': () => cpuUs(() => drain(fileStream(files.sealed).pipeThrough(decryptStream(eaas, { context })))),
    'node:crypto/encrypt': () =>
      cpuUs(async () => {
        const one = createCipheriv('aes-256-gcm', key, iv)
        for (const chunk of plaintext) one.update(chunk)
        one.final()
      }),
    'node:crypto/decrypt': () =>
      cpuUs(async () => {
        const one = createDecipheriv('aes-256-gcm', key, iv).setAuthTag(tag)
        for (const chunk of enciphered) one.update(chunk)
        one.final()
      }),
  },
  { rounds },
)
eaas.close()
rmSync(folder, { recursive: true })
console.log(`RESULT ${JSON.stringify(measured)}`)

function cut(bytes: Uint8Array, length: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / length) }, (_, at) =>
    bytes.subarray(at * length, (at + 1) * length),
  )
}

function readable(chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream(
    {
      pull(controller) {
        const chunk = chunks[at++]
        if (chunk) controller.enqueue(chunk)
        else controller.close()
      },
    },
    { highWaterMark: 0 },
  )
}

/** A file as Node delivers it, in chunks of 64 KiB. */
function fileStream(path: string): ReadableStream<Uint8Array> {
  return Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>
}

/** Node iterates over streams; the types are those of browsers. */
function iterable(stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  return stream as unknown as AsyncIterable<Uint8Array>
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = []
  for await (const chunk of iterable(stream)) chunks.push(chunk)
  return chunks
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  for await (const _ of iterable(stream));
}

async function cpuUs(task: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await task()
  const { user, system } = process.cpuUsage(before)
  return user + system
}

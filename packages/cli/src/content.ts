/** Tells from its beginning what a file or standard input holds, without reading the rest. */
import { MAX_STREAM_HEADER_BYTES } from '@eaas/protocol'
import { type Input, readText } from './files.js'
import { UsageError } from './io.js'

/** The longest envelope text that is read: a little more than the longest plaintext needs. */
const MAX_ENVELOPE_BYTES = 400_000_000

type Form = 'stream' | 'text' | 'json'

export interface Content {
  form: Form
  /** The first bytes: at least a stream's first line, if there are enough. */
  head: Uint8Array
  bytes: ReadableStream<Uint8Array>
  /** Reads the text of an envelope. Call it instead of reading `bytes`. @throws UsageError when it is not UTF-8 */
  readText(): Promise<string>
}

/** @throws UsageError when it does not begin as encrypted data does */
export async function readContent(input: Input): Promise<Content> {
  const chunks = (input.stream as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let head = new Uint8Array(0)
  while (head.length < MAX_STREAM_HEADER_BYTES) {
    const { done, value } = await chunks.next()
    if (done) break
    first.push(value)
    head = new Uint8Array([...head, ...value.subarray(0, MAX_STREAM_HEADER_BYTES - head.length)])
  }
  async function* all(): AsyncGenerator<Uint8Array, void> {
    yield* first
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value
  }
  const form = formOf(head)
  if (form === undefined) {
    input.stream.destroy()
    throw new UsageError(`${input.name}: neither an encrypted stream, nor the text or the JSON of an envelope`)
  }
  return {
    form,
    head,
    bytes: streamOf(all(), () => input.stream.destroy()),
    readText: async () => (await readText({ name: input.name, chunks: all() }, MAX_ENVELOPE_BYTES)).trim(),
  }
}

function formOf(head: Uint8Array): Form | undefined {
  const text = new TextDecoder().decode(head).trimStart()
  if (text.startsWith('{"format":"eaas/stream/')) return 'stream'
  if (text.startsWith('eaas.')) return 'text'
  return text.startsWith('{') ? 'json' : undefined
}

/** Makes a stream of chunks. `cancel` runs when the reader cancels it. */
export function streamOf(chunks: AsyncIterator<Uint8Array>, cancel: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel,
    },
    { highWaterMark: 0 },
  )
}

/** Streams of bytes that generators make. However a stream ends, its generator ends too and frees what it holds. */

import { AbortedError, InvalidInputError } from '../errors.js'
import { type Binary, type Bytes, kindOf, readBinary } from '../input.js'
import { onAbort } from '../waiting.js'
import { type Chunks, createHandover } from './handover.js'

/** What a generator may use while it runs. */
export interface Lifetime {
  /** Aborted when the stream ends before its generator does, for whatever cause. */
  readonly signal: AbortSignal
  /** Ends the stream with `E_ABORTED` when a client is closed. @throws AbortedError if it is closed already */
  endWith(closed: AbortSignal): void
}

/**
 * Makes a stream that runs a generator as it is read: nothing before, and nothing in advance. Aborting
 * `signal` ends it.
 */
export function createReadable(
  generate: (lifetime: Lifetime) => AsyncGenerator<Uint8Array, void>,
  signal: AbortSignal | undefined,
  ended: (failure?: { error: unknown }) => void = () => undefined,
): { readable: ReadableStream<Bytes>; fail: (error: unknown) => void } {
  const ending = new AbortController()
  const stopListening = [onAbort(signal, () => fail(new AbortedError(signal)))]
  const generator = generate({
    signal: ending.signal,
    endWith(closed) {
      if (closed.aborted) throw new AbortedError()
      stopListening.push(onAbort(closed, () => fail(new AbortedError())))
    },
  })
  let controller: ReadableStreamDefaultController<Bytes> | undefined
  let isOver = false
  const end = () => {
    isOver = true
    for (const stop of stopListening) stop()
  }
  const fail = (error: unknown) => {
    if (isOver) return
    end()
    controller?.error(error)
    ended({ error })
    ending.abort(error) // first: a generator that waits for the network ends only then
    generator.return().catch(() => undefined) // the stream has its error
  }
  const readable = new ReadableStream<Bytes>(
    {
      start(given) {
        controller = given
      },
      async pull(given) {
        try {
          const { value, done } = await generator.next()
          if (isOver) return
          if (!done) return given.enqueue(value as Bytes) // no engine returns shared memory
          end()
          given.close()
          ended()
        } catch (error) {
          fail(error)
        }
      },
      cancel: (reason) => fail(reason ?? new DOMException('the reader cancelled the stream', 'AbortError')),
    },
    { highWaterMark: 0 },
  )
  return { readable, fail }
}

/**
 * Makes a pair of streams whose generator turns the bytes of one into those of the other. A write settles once its
 * chunk was used, so a writer is never faster than the reader, however long the chunks are: a `TransformStream` would
 * buffer everything that one chunk becomes.
 */
export function createTransform(
  generate: (chunks: Chunks, lifetime: Lifetime) => AsyncGenerator<Uint8Array, void>,
  signal: AbortSignal | undefined,
): TransformStream<Binary, Bytes> {
  const handover = createHandover()
  let controller: WritableStreamDefaultController | undefined
  const { readable, fail } = createReadable(
    (lifetime) => generate(handover, lifetime),
    signal,
    (failure) => {
      handover.end(failure)
      if (failure) controller?.error(failure.error)
    },
  )
  const writable = new WritableStream<Binary>({
    start(given) {
      controller = given
      // Not by the sink's `abort`: it is called only after the write in progress, which waits for the reader.
      const abort = () => {
        controller = undefined // it has its error; Node 20 fails on a second one here
        fail(given.signal.reason)
      }
      given.signal.addEventListener('abort', abort, { once: true })
    },
    async write(chunk) {
      const bytes = readBinary(chunk)
      if (bytes) return handover.give(bytes)
      const error = new InvalidInputError(
        `a chunk of a stream must be bytes, got ${kindOf(chunk)}`,
        'Pipe text through a TextEncoderStream first.',
      )
      fail(error)
      throw error
    },
    close: () => handover.give(undefined),
  })
  return { readable, writable }
}

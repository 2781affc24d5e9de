/** Turns generators into byte streams, one chunk at a time. However a stream ends, its generator frees its memory. */
import { AbortedError, InvalidInputError } from '../errors.js'
import { type Binary, type Bytes, kindOf, readBinary } from '../input.js'
import { onAbort } from '../waiting.js'

export interface Lifetime {
  /** Aborted if the stream ends before its generator, for whatever reason. */
  readonly signal: AbortSignal
  /** Ends the stream with `E_ABORTED` once a client is closed. @throws AbortedError if it is already closed */
  endWith(closed: AbortSignal): void
}

/** Runs a generator only as it is read, without reading ahead. Aborting `signal` ends it. */
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
    ending.abort(error) // first, since it ends a generator that waits for the network
    generator.return().catch(() => undefined) // the stream already has its error
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

/** A write settles once its chunk was used. A `TransformStream` would buffer everything that a chunk becomes. */
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
      // Not in the sink's `abort`, which is called only after the current write, and that waits for the reader.
      const abort = () => {
        controller = undefined // it already has its error, and Node 20 fails on a second one
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

export interface Chunks {
  /** Returns the next chunk, or undefined at the end. The previous one belongs to the writer again. */
  next(): Promise<Uint8Array | undefined>
}

type Gift = { chunk: Uint8Array | undefined; used(): void; refuse(error: unknown): void }

function createHandover() {
  let given: Gift | undefined
  let taken: Gift | undefined
  let waiting: { resolve(chunk: Uint8Array | undefined): void; reject(error: unknown): void } | undefined
  let over: { error: unknown } | undefined
  return {
    next(): Promise<Uint8Array | undefined> {
      taken?.used()
      taken = given
      given = undefined
      if (over) return Promise.reject(over.error)
      if (taken) return Promise.resolve(taken.chunk)
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    give(chunk: Uint8Array | undefined): Promise<void> {
      if (over) return Promise.reject(over.error)
      return new Promise((used, refuse) => {
        const gift = { chunk, used, refuse }
        if (waiting) taken = gift
        else given = gift
        waiting?.resolve(chunk)
        waiting = undefined
      })
    },
    end(failure: { error: unknown } | undefined) {
      over = failure
      for (const gift of [given, taken]) failure ? gift?.refuse(failure.error) : gift?.used()
      if (failure) waiting?.reject(failure.error)
    },
  }
}

// Encrypted streams (stream.md), through what applications call, with every engine.
import { decodeHex, decodeStreamHeader, encodeBase64, findStreamHeaderEnd, SEGMENT_BYTES } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { loadOn } from '../../../../test/support/platforms/platform.js'
import { rounds } from '../../../../test/support/run/rounds.js'
import {
  buildStream,
  plaintextOf,
  type StreamVector,
  streamVectors,
} from '../../../../test/support/vectors/stream-vectors.js'
import { type Client, createClient, type EngineName, isEaasError } from '../index.js'
import { decryptStream, encryptStream, openRange, rewrapStream } from '../streams.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { chunked, collect, collectUntilError, isSame } from '../test-support/stream-bytes.js'

const ENGINES = ['node', 'web', 'noble'] as const
const EDGES = [0, 1, 15, 16, 17, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES]

const { service, connect } = useClients()
const context = { table: 'uploads', file: '7' }

/** A client of a service that unwraps everything to the DEK of a vector. */
function connectTo(vector: StreamVector, engine: EngineName): Client {
  const stream = buildStream(vector)
  const end = findStreamHeaderEnd(stream)
  const fetch = async () => {
    const { key_id, key_version } = decodeStreamHeader(stream.subarray(0, end))
    return Response.json({ dek: encodeBase64(decodeHex(vector.dek)), key_id, key_version })
  }
  return connect({ baseUrl: 'https://eaas.test', engine, fetch })
}

async function encrypted(plaintext: Uint8Array, eaas: Client = connect()): Promise<Uint8Array> {
  return collect(chunked(plaintext).pipeThrough(encryptStream(eaas, { keyId, context })))
}

describe.each(ENGINES)('an encrypted stream, by engine %s', (engine) => {
  it.each(streamVectors.open)('opens the published vector: $name', async (vector) => {
    const eaas = connectTo(vector, engine)
    const stream = buildStream(vector)
    const plaintext = plaintextOf(vector.plaintext.name, vector.plaintext.bytes)
    const { context } = vector
    expect(isSame(await collect(chunked(stream).pipeThrough(decryptStream(eaas, { context }))), plaintext)).toBe(true)
    const source = new Blob([stream as BlobPart])
    expect(isSame(await collect(openRange(eaas, source, { context })), plaintext)).toBe(true)
  })

  it('ends each published vector that must not open with an error, after as much as the vector says', async () => {
    const outcomes: unknown[] = []
    for (const vector of streamVectors.refuse) {
      const eaas = connectTo(vector, engine)
      const chunks = chunked(buildStream(vector), [70_000])
      const decrypting = chunks.pipeThrough(decryptStream(eaas, { context: vector.context }))
      const { bytes, error } = await collectUntilError(decrypting)
      const isPrefix = isSame(bytes, plaintextOf(vector.plaintext.name, bytes.length))
      outcomes.push([vector.name, (error as { code?: string }).code, bytes.length, isPrefix])
    }
    expect(outcomes).toEqual(
      streamVectors.refuse.map(({ name, error, prefix }) => [
        name,
        error === 'format' ? 'E_INVALID_INPUT' : 'E_DECRYPTION',
        prefix,
        true,
      ]),
    )
  })

  it('comes back from every size and every way to cut it into chunks', async () => {
    const [eaas, reader] = [connect({ engine }), connect({ engine })]
    const sizes = fc.oneof(
      fc.constantFrom(...EDGES, 3 * SEGMENT_BYTES),
      fc.nat({ max: 3 * SEGMENT_BYTES + 100 }),
      fc.nat({ max: 100 }),
    )
    const lengths = fc.array(
      fc.oneof(
        fc.constantFrom(1, SEGMENT_BYTES, SEGMENT_BYTES + 16, 3 * SEGMENT_BYTES),
        fc.integer({ min: 1, max: 200_000 }),
      ),
      { minLength: 1, maxLength: 5 },
    )
    await fc.assert(
      fc.asyncProperty(sizes, lengths, lengths, fc.nat(), async (size, written, stored, seed) => {
        const plaintext = Uint8Array.from({ length: size }, (_, at) => (at * 31 + seed) & 255)
        // One chunk of a byte in front of longer ones: 200,000 chunks of a byte would take seconds.
        const few = (list: number[]) => (size > 1_000 ? [...list, 50_000] : list)
        const sealing = chunked(plaintext, few(written)).pipeThrough(encryptStream(eaas, { keyId, context }))
        const stream = await collect(sealing)
        expect(stream.length).toBe(512 + size + 16 * Math.max(1, Math.ceil(size / SEGMENT_BYTES)))
        const opening = chunked(stream, few(stored)).pipeThrough(decryptStream(reader, { context }))
        expect(isSame(await collect(opening), plaintext)).toBe(true)
      }),
      { numRuns: rounds(engine === 'noble' ? 10 : 25, 300) },
    )
  })

  it('gives any part that is asked for, from a File and by ranges', async () => {
    const eaas = connect({ engine })
    const plaintext = plaintextOf('parts', 20 * SEGMENT_BYTES + 123)
    const stream = await encrypted(plaintext, eaas)
    const read = async (start: number, end: number) => stream.slice(start, end)
    const position = fc.oneof(
      fc.nat({ max: plaintext.length }),
      fc.constantFrom(...EDGES),
      fc.constantFrom(plaintext.length, plaintext.length - 1, plaintext.length - 123, 16 * SEGMENT_BYTES),
    )
    await fc.assert(
      fc.asyncProperty(position, position, fc.boolean(), async (one, other, isFile) => {
        const [from, to] = [Math.min(one, other, plaintext.length - 1), Math.max(one, other)]
        const source = isFile ? new File([stream as BlobPart], 'stored') : read
        const part = await collect(openRange(eaas, source, { from, to, context }))
        expect(isSame(part, plaintext.slice(from, to))).toBe(true)
      }),
      { numRuns: rounds(engine === 'noble' ? 15 : 40, 500) },
    )
  })
})

describe('an encrypted stream', () => {
  it('takes one wrap for all streams of a key, and one for each with a DEK of its own', async () => {
    const eaas = connect()
    const streams = [await encrypted(plaintextOf('a', 10), eaas), await encrypted(plaintextOf('a', 10), eaas)]
    expect(service.count('wrap')).toBe(1)
    const [one, two] = streams.map((stream) => decodeStreamHeader(stream.subarray(0, 512)))
    expect(one?.wrapped_key).toBe(two?.wrapped_key)
    expect(one?.salt).not.toEqual(two?.salt)
    expect(one?.commitment).not.toEqual(two?.commitment)
    for (const dek of ['call', 'record'] as const) {
      const own = await collect(chunked(plaintextOf('a', 10)).pipeThrough(encryptStream(eaas, { keyId, context, dek })))
      const reading = chunked(own).pipeThrough(decryptStream(connect(), { context }))
      expect(isSame(await collect(reading), plaintextOf('a', 10))).toBe(true)
    }
    expect(service.count('wrap')).toBe(3)
    expect(service.count('unwrap')).toBe(2)
  })

  it('is no copy of its plaintext, and differs each time', async () => {
    const plaintext = new Uint8Array(1_000).fill(7)
    const [one, two] = [await encrypted(plaintext), await encrypted(plaintext)]
    expect(isSame(one, two)).toBe(false)
    expect(Buffer.from(one).includes(Buffer.from(plaintext.subarray(0, 16)))).toBe(false)
  })

  it('uses no network before it is read', async () => {
    const eaas = connect()
    const { readable, writable } = encryptStream(eaas, { keyId })
    const writing = writable.getWriter().write(new Uint8Array(1))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(service.requests).toEqual([])
    await readable.cancel()
    await expect(writing).rejects.toMatchObject({ name: 'AbortError' })
    expect(service.requests).toEqual([])
  })

  it('takes chunks of every kind of bytes, and nothing else', async () => {
    const eaas = connect()
    const { readable, writable } = encryptStream(eaas, { keyId })
    const writer = writable.getWriter()
    const writing = (async () => {
      await writer.write(new Uint8Array([1, 2]).buffer)
      await writer.write(new DataView(new Uint8Array([0, 3, 0]).buffer, 1, 1))
      await writer.write(Buffer.from([4]))
      await writer.write(new Uint8Array(0))
      await writer.write(new Uint16Array([5]))
      await writer.close()
    })()
    const stream = await collect(readable)
    await writing
    const plaintext = await collect(chunked(stream).pipeThrough(decryptStream(eaas)))
    expect([...plaintext]).toEqual([1, 2, 3, 4, 5, 0])
    for (const chunk of ['text', 7, null, undefined, {}, [1]]) {
      const refusing = encryptStream(eaas, { keyId })
      const reading = collectUntilError(refusing.readable)
      await expect(refusing.writable.getWriter().write(chunk as never)).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
      })
      expect((await reading).error).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })

  it('says with its error that what came before is only a beginning', async () => {
    const eaas = connect()
    const stream = await encrypted(plaintextOf('cut', 3 * SEGMENT_BYTES), eaas)
    const cut = chunked(stream.subarray(0, -1)).pipeThrough(decryptStream(eaas, { context }))
    const { error } = await collectUntilError(cut)
    expect(error).toMatchObject({
      code: 'E_DECRYPTION',
      message: expect.stringContaining('131072 bytes of plaintext before are authentic, but they are not all'),
      hint: expect.stringContaining('Discard what was read'),
    })
  })

  it('passes an error of its source on to its reader', async () => {
    const eaas = connect()
    const broken = new Error('the connection broke')
    let sent = 0
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < 3) controller.enqueue(new Uint8Array(SEGMENT_BYTES))
        else controller.error(broken)
      },
    })
    const { error } = await collectUntilError(source.pipeThrough(encryptStream(eaas, { keyId })))
    expect(error).toBe(broken)
  })

  it.each([
    ['encryptStream', (eaas: Client) => encryptStream(eaas, { keyId })],
    ['decryptStream', (eaas: Client) => decryptStream(eaas)],
  ])('ends on both sides when the service refuses: %s', async (_, make) => {
    const stream = await encrypted(plaintextOf('refused', 10))
    service.intercept = (_, response) => {
      response.writeHead(403, { 'content-type': 'application/problem+json' })
      response.end(
        JSON.stringify({ type: 'about:blank', title: 'Forbidden', status: 403, detail: 'no', code: 'E_FORBIDDEN' }),
      )
      return true
    }
    const { readable, writable } = make(connect())
    const reading = collectUntilError(readable)
    const writer = writable.getWriter()
    await expect(writer.write(stream).then(() => writer.close())).rejects.toMatchObject({ code: 'E_API' })
    expect((await reading).error).toMatchObject({ code: 'E_API', httpStatus: 403 })
  })
})

describe('the end of a stream, before its end', () => {
  const endings: [
    string,
    (scene: {
      eaas: Client
      abort: AbortController
      reader: ReadableStreamDefaultReader
      writer: WritableStreamDefaultWriter
    }) => unknown,
    object,
  ][] = [
    ['the reader cancels', ({ reader }) => reader.cancel(new Error('enough')), { message: 'enough' }],
    ['the reader cancels without a reason', ({ reader }) => reader.cancel(), { name: 'AbortError' }],
    ['the writer aborts', ({ writer }) => writer.abort(new Error('gone')), { message: 'gone' }],
    ['the writer aborts without a reason', ({ writer }) => writer.abort(), { name: 'AbortError' }],
    ['the signal is aborted', ({ abort }) => abort.abort(), { code: 'E_ABORTED' }],
    ['the client is closed', ({ eaas }) => eaas.close(), { code: 'E_ABORTED', message: 'the client is closed' }],
  ]

  it.each(endings)('ends both sides, and seals nothing more: %s', async (name, act, error) => {
    const encrypt = vi.spyOn(crypto.subtle, 'encrypt')
    try {
      const [eaas, abort] = [connect({ engine: 'web' }), new AbortController()]
      const { readable, writable } = encryptStream(eaas, { keyId, signal: abort.signal })
      const [reader, writer] = [readable.getReader(), writable.getWriter()]
      const writing = writer.write(new Uint8Array(10 * SEGMENT_BYTES))
      writing.catch(() => undefined)
      await reader.read()
      await reader.read()
      const sealed = encrypt.mock.calls.length
      await act({ eaas, abort, reader, writer })
      if (name !== 'the writer aborts without a reason') await expect(writing).rejects.toMatchObject(error)
      if (!name.startsWith('the reader')) await expect(reader.read()).rejects.toMatchObject(error)
      else expect(await reader.read()).toEqual({ done: true, value: undefined })
      expect(
        await writer.write(new Uint8Array(1)).then(
          () => 'written',
          () => 'refused',
        ),
      ).toBe('refused')
      await new Promise((resolve) => setTimeout(resolve, 10))
      expect(encrypt.mock.calls.length).toBe(sealed)
    } finally {
      encrypt.mockRestore()
    }
  })

  it.each(endings)('ends a call to the service that is under way: %s', async (name, act, error) => {
    const asked = new Promise<void>((resolve) => {
      service.intercept = () => {
        resolve()
        return true // and never answers
      }
    })
    const [eaas, abort] = [connect(), new AbortController()]
    const { readable, writable } = encryptStream(eaas, { keyId, signal: abort.signal })
    const [reader, writer] = [readable.getReader(), writable.getWriter()]
    const reading = reader.read()
    reading.catch(() => undefined)
    await asked
    await act({ eaas, abort, reader, writer })
    if (name.startsWith('the reader')) expect(await reading).toEqual({ done: true, value: undefined })
    else await expect(reading).rejects.toMatchObject(error)
    // A writer that gives no reason has none; the platform says so.
    if (!name.startsWith('the writer')) await expect(writer.closed).rejects.toMatchObject(error)
  })

  it.each<[string, boolean]>([
    ['before it is read', true],
    ['while it waits for its first line', false],
  ])('ends with the client that is closed %s', async (_, isClosedBefore) => {
    for (const make of [decryptStream, rewrapStream]) {
      const eaas = connect()
      await eaas.keys.list()
      const { readable, writable } = make(eaas)
      if (isClosedBefore) eaas.close()
      const sides = [readable.getReader().read(), writable.getWriter().closed]
      const errors = sides.map((side) => failure(side))
      await new Promise((resolve) => setTimeout(resolve, 10))
      eaas.close()
      for (const error of errors) expect((await error).code).toBe('E_ABORTED')
    }
  })

  it('reads no range of a source for a client that is closed', async () => {
    const [eaas, source] = [connect(), vi.fn()]
    const range = openRange(eaas, source)
    eaas.close()
    expect((await collectUntilError(range)).error).toMatchObject({ code: 'E_ABORTED' })
    expect(source).not.toHaveBeenCalled()
  })

  it('stops listening to the signal at the end', async () => {
    const abort = new AbortController()
    const eaas = connect()
    const sealing = chunked(new Uint8Array(10)).pipeThrough(encryptStream(eaas, { keyId, signal: abort.signal }))
    const stream = await collect(sealing)
    abort.abort()
    expect(isSame(await collect(chunked(stream).pipeThrough(decryptStream(eaas))), new Uint8Array(10))).toBe(true)
    for (const make of [encryptStream, decryptStream]) {
      expect(() => make(eaas, { keyId, signal: abort.signal } as never)).toThrow()
    }
  })
})

describe('the pace of a stream', () => {
  it('is its reader’s: of a chunk of 64 MiB, no more is sealed than was asked for', async () => {
    const encrypt = vi.spyOn(crypto.subtle, 'encrypt')
    try {
      const { readable, writable } = encryptStream(connect({ engine: 'web' }), { keyId })
      const reader = readable.getReader()
      let isWritten = false
      const writing = writable.getWriter().write(new Uint8Array(64 * 2 ** 20))
      const noting = writing.then(
        () => {
          isWritten = true
        },
        () => undefined,
      )
      await reader.read() // the header
      for (let read = 1; read <= 5; read++) {
        await reader.read()
        await new Promise((resolve) => setTimeout(resolve, 2))
        expect(encrypt.mock.calls.length).toBe(read)
      }
      expect(isWritten).toBe(false)
      await reader.cancel()
      await noting
    } finally {
      encrypt.mockRestore()
    }
  })

  it.each([
    ['one chunk of 4 MiB', [4 * 2 ** 20], 4 * 2 ** 20],
    ['chunks of a segment', [SEGMENT_BYTES], 4 * 2 ** 20],
    ['chunks of a segment and a byte', [SEGMENT_BYTES + 1], 4 * 2 ** 20],
    ['chunks of 100 bytes', [100], 2 ** 20],
  ])('copies no byte more than three times, whatever the chunks: %s', async (_, lengths, size) => {
    const eaas = connect({ engine: 'node' })
    const plaintext = new Uint8Array(size)
    const set = Uint8Array.prototype.set
    let copied = 0
    const counting = vi.spyOn(Uint8Array.prototype, 'set').mockImplementation(function (this: Uint8Array, from, at) {
      copied += from.length
      set.call(this, from, at)
    })
    try {
      const sealing = chunked(plaintext, lengths).pipeThrough(encryptStream(eaas, { keyId }))
      for await (const _ of sealing as unknown as AsyncIterable<Uint8Array>);
    } finally {
      counting.mockRestore()
    }
    expect(copied).toBeLessThan(3 * size)
  })

  it.each(['node', 'noble'] as const)(
    'leaves the event loop its turns, with engine %s and a source that is always ready',
    async (engine) => {
      let [turns, isOver] = [0, false]
      const count = () => {
        turns += 1
        if (!isOver) setImmediate(count)
      }
      const size = engine === 'node' ? 128 * 2 ** 20 : 8 * 2 ** 20
      const eaas = connect({ engine })
      await encrypted(new Uint8Array(1), eaas) // its DEK
      const sealing = chunked(new Uint8Array(size), [SEGMENT_BYTES]).pipeThrough(encryptStream(eaas, { keyId }))
      setImmediate(count)
      for await (const _ of sealing as unknown as AsyncIterable<Uint8Array>);
      isOver = true
      expect(turns).toBeGreaterThan(3)
    },
  )
})

describe('what is no client', () => {
  it.each([undefined, null, {}, 'eaas', { encrypt: 1 }])('is refused: %j', (eaas) => {
    const error = expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringContaining('createClient') })
    for (const make of [encryptStream, decryptStream, openRange])
      expect(() => make(eaas as never, {} as never)).toThrow(error)
  })

  it('does not show what streams use of a client', () => {
    const eaas = createClient({ baseUrl: 'https://eaas.test', apiKey: 'x' })
    expect(Object.keys(eaas).filter((name) => /part|stream/i.test(name))).toEqual([])
    expect(JSON.stringify(eaas)).not.toContain('parts')
    eaas.close()
  })

  it.each(['node', 'web', 'noble'] as const)(
    'one of another copy of the SDK is one, and what was altered fails with engine %s as always',
    async (engine) => {
      const eaas = connect({ engine })
      const altered = await encrypted(new Uint8Array(SEGMENT_BYTES + 3), eaas)
      altered[altered.length - 1] = (altered.at(-1) ?? 0) ^ 1
      const other = await loadOn<typeof import('../streams.js')>({}, new URL('../streams.ts', import.meta.url))
      for (const stream of [
        chunked(altered).pipeThrough(other.decryptStream(eaas, { context })),
        other.openRange(eaas, new Blob([altered as BlobPart]), { context }),
      ]) {
        const { bytes, error } = await collectUntilError(stream)
        expect(bytes.length).toBe(SEGMENT_BYTES)
        expect(isEaasError(error) && error.code).toBe('E_DECRYPTION')
        expect(error).toMatchObject({ message: expect.stringContaining(`The ${SEGMENT_BYTES} bytes of plaintext`) })
      }
    },
  )

  it('a copy of a client is one', async () => {
    const copy = { ...connect() }
    expect((await encrypted(new Uint8Array(3), copy)).length).toBe(512 + 19)
  })
})

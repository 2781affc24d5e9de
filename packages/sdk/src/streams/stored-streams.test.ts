// Parts of a stored stream (stream.md 6), and its first line, wrapped again.
import { SEALED_SEGMENT_BYTES, SEGMENT_BYTES } from '@eaas/protocol'
import { beforeAll, describe, expect, it } from 'vitest'
import { plaintextOf } from '../../../../test/support/vectors/stream-vectors.js'
import { createClient } from '../index.js'
import {
  decryptStream,
  encryptStream,
  openRange,
  type RangeOptions,
  rewrapFirstLine,
  rewrapStream,
} from '../streams.js'
import { chunked, collect, collectUntilError, isSame } from '../test-support/stream-bytes.js'
import { createTestService } from '../testing.js'

const HEADER_BYTES = 512
const context = { table: 'uploads', file: '7' }
const service = createTestService()
const eaas = createClient(service)
const plaintext = plaintextOf('stored', 40 * SEGMENT_BYTES + 100)
let keyId: string
let stored: Uint8Array

beforeAll(async () => {
  keyId = (await eaas.keys.create({ name: 'uploads' })).id
  stored = await encrypted(plaintext)
})

function encrypted(bytes: Uint8Array): Promise<Uint8Array> {
  return collect(chunked(bytes).pipeThrough(encryptStream(eaas, { keyId, context })))
}

/** A source over bytes, and the ranges that were read of it. */
function sourceOf(bytes: Uint8Array) {
  const reads: [start: number, end: number][] = []
  const read = async (start: number, end: number) => {
    reads.push([start, end])
    return bytes.slice(start, end)
  }
  return { read, reads }
}

const codeOf = async (bytes: Uint8Array, part: RangeOptions) => {
  const { bytes: given, error } = await collectUntilError(openRange(eaas, sourceOf(bytes).read, { context, ...part }))
  return [(error as { code?: string } | undefined)?.code, given.length]
}

describe('a part of a stored stream', () => {
  it('takes the header and its own segments, at most 16 of them at a time', async () => {
    const { read, reads } = sourceOf(stored)
    const part = await collect(
      openRange(eaas, read, { from: 3 * SEGMENT_BYTES + 5, to: 3 * SEGMENT_BYTES + 10, context }),
    )
    expect(isSame(part, plaintext.slice(3 * SEGMENT_BYTES + 5, 3 * SEGMENT_BYTES + 10))).toBe(true)
    const at = (segment: number) => HEADER_BYTES + segment * SEALED_SEGMENT_BYTES
    expect(reads.splice(0)).toEqual([
      [0, 1_536],
      [at(3), at(4) + 1],
    ])
    await collect(openRange(eaas, read, { from: SEGMENT_BYTES, context }))
    expect(reads).toEqual([
      [0, 1_536],
      [at(1), at(17) + 1],
      [at(17), at(33) + 1],
      [at(33), at(49) + 1],
    ])
  })

  it('is read as its reader reads it, and no further', async () => {
    const { read, reads } = sourceOf(stored)
    const reader = openRange(eaas, read, { context }).getReader()
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(reads).toEqual([])
    await reader.read()
    await reader.cancel()
    expect(reads.length).toBe(2)
  })

  it('ends at the end of the plaintext, where `to` lies behind it', async () => {
    const from = plaintext.length - 10
    for (const to of [undefined, plaintext.length, plaintext.length + 1, 2 ** 52]) {
      expect(
        isSame(await collect(openRange(eaas, sourceOf(stored).read, { from, to, context })), plaintext.slice(from)),
      ).toBe(true)
    }
    for (const length of [0, 1, SEGMENT_BYTES]) {
      const [bytes, blob] = [
        plaintextOf('short', length),
        new Blob([(await encrypted(plaintextOf('short', length))) as BlobPart]),
      ]
      expect(isSame(await collect(openRange(eaas, blob, { to: 2 ** 40, context })), bytes)).toBe(true)
    }
  })

  it('is empty where it has no byte, and reads no segment', async () => {
    const { read, reads } = sourceOf(stored)
    expect((await collect(openRange(eaas, read, { from: 5, to: 5, context }))).length).toBe(0)
    expect(reads.length).toBe(1)
  })

  it('does not begin behind the end', async () => {
    expect(await codeOf(stored, { from: plaintext.length })).toEqual(['E_INVALID_INPUT', 0])
    expect(await codeOf(stored, { from: plaintext.length + 1, to: plaintext.length + 2 })).toEqual([
      'E_INVALID_INPUT',
      0,
    ])
    // Nothing authentic is there: it may as well have been cut.
    expect(await codeOf(stored, { from: plaintext.length + SEGMENT_BYTES })).toEqual(['E_DECRYPTION', 0])
  })

  it('does not open where the stream was cut or lengthened at its end', async () => {
    const at = (segment: number) => HEADER_BYTES + segment * SEALED_SEGMENT_BYTES
    const part = { from: 2 * SEGMENT_BYTES, to: 3 * SEGMENT_BYTES }
    expect(await codeOf(stored, part)).toEqual([undefined, SEGMENT_BYTES])
    for (const end of [at(3), at(3) - 1, at(2) + 100, at(2) + 16, at(2) + 1, at(2)]) {
      expect(await codeOf(stored.slice(0, end), part)).toEqual(['E_DECRYPTION', 0])
    }
    const tail = { from: 40 * SEGMENT_BYTES }
    const longer = new Uint8Array(stored.length + 1)
    longer.set(stored)
    expect(await codeOf(longer, tail)).toEqual(['E_DECRYPTION', 0])
    expect(await codeOf(stored.slice(0, -1), tail)).toEqual(['E_DECRYPTION', 0])
    expect(await codeOf(stored.slice(0, at(40)), tail)).toEqual(['E_DECRYPTION', 0])
    expect(await codeOf(stored.slice(0, at(40)), { from: 0 })).toEqual(['E_DECRYPTION', 39 * SEGMENT_BYTES])
  })

  it('does not open where segments were exchanged, nor in another context', async () => {
    const at = (segment: number) => HEADER_BYTES + segment * SEALED_SEGMENT_BYTES
    const exchanged = stored.slice()
    exchanged.set(stored.subarray(at(5), at(6)), at(6))
    exchanged.set(stored.subarray(at(6), at(7)), at(5))
    expect(await codeOf(exchanged, { from: 6 * SEGMENT_BYTES, to: 6 * SEGMENT_BYTES + 1 })).toEqual(['E_DECRYPTION', 0])
    expect(await codeOf(exchanged, { from: 7 * SEGMENT_BYTES, to: 7 * SEGMENT_BYTES + 1 })).toEqual([undefined, 1])
    expect(await codeOf(stored, { context: { ...context, file: '8' } })).toEqual(['E_DECRYPTION', 0])
    expect(await codeOf(stored.slice(1), {})).toEqual(['E_INVALID_INPUT', 0])
    expect(await codeOf(new Uint8Array(0), {})).toEqual(['E_INVALID_INPUT', 0])
  })

  it('comes from a source that honours ranges: one that gives more is refused', async () => {
    const { error } = await collectUntilError(openRange(eaas, async () => stored, { from: 5, to: 6, context }))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT', hint: expect.stringContaining('206') })
    const nothing = openRange(eaas, (async () => 'text') as never, { context })
    expect((await collectUntilError(nothing)).error).toMatchObject({ code: 'E_INVALID_INPUT' })
    for (const source of [undefined, null, {}, 'path', new Uint8Array(3)]) {
      expect(() => openRange(eaas, source as never)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    }
  })

  it('passes errors of its source on, and tells it when nobody reads any more', async () => {
    const broken = new Error('the connection broke')
    const failing = openRange(eaas, () => Promise.reject(broken), { context })
    expect((await collectUntilError(failing)).error).toBe(broken)
    let given: AbortSignal | undefined
    const hanging = openRange(eaas, (_start, _end, signal) => {
      given = signal
      return new Promise<Uint8Array>(() => undefined)
    })
    const reader = hanging.getReader()
    const reading = reader.read()
    await expect.poll(() => given).toBeDefined()
    await reader.cancel()
    expect(given?.aborted).toBe(true)
    await reading
  })

  it.each([
    { from: -1 },
    { from: 1.5 },
    { from: Number.NaN },
    { from: '1' },
    { to: -1 },
    { from: 2, to: 1 },
    { from: 2 ** 48 + 1 },
  ])('refuses %j', (part) => {
    const make = () => openRange(eaas, new Blob([]), part as never)
    expect(make).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})

describe('a stored stream whose DEK is wrapped again', () => {
  it('differs in its first line only, and opens', async () => {
    await eaas.keys.rotate(keyId)
    const rewrapped = await collect(chunked(stored, [1_000, 1, 100_000]).pipeThrough(rewrapStream(eaas)))
    expect(rewrapped.length).toBe(stored.length)
    expect(isSame(rewrapped.subarray(HEADER_BYTES), stored.subarray(HEADER_BYTES))).toBe(true)
    const header = JSON.parse(new TextDecoder().decode(rewrapped.subarray(0, HEADER_BYTES))) as Record<string, unknown>
    const before = JSON.parse(new TextDecoder().decode(stored.subarray(0, HEADER_BYTES))) as Record<string, unknown>
    expect(before.key_version).toBe(1)
    expect(header).toEqual({
      ...before,
      key_version: 2,
      wrapped_key: expect.not.stringContaining(String(before.wrapped_key)),
    })
    const reader = createClient(service)
    expect(isSame(await collect(chunked(rewrapped).pipeThrough(decryptStream(reader, { context }))), plaintext)).toBe(
      true,
    )
    reader.close()
  })

  it('is right where its writer has one buffer for all it reads, as of a file', async () => {
    const buffer = new Uint8Array(16_384)
    const { readable, writable } = rewrapStream(eaas)
    const rewrapped = new Response(readable).arrayBuffer()
    const writer = writable.getWriter()
    for (let at = 0; at < stored.length; at += buffer.length) {
      const part = stored.subarray(at, at + buffer.length)
      buffer.set(part)
      await writer.write(buffer.subarray(0, part.length))
    }
    await writer.close()
    const body = new Uint8Array(await rewrapped).subarray(HEADER_BYTES)
    expect(isSame(body, stored.subarray(HEADER_BYTES))).toBe(true)
  })

  it('can be changed in place: only the header is read, and the line has the same length', async () => {
    const { read, reads } = sourceOf(stored)
    const { line, replaces } = await rewrapFirstLine(eaas, read)
    expect(reads).toEqual([[0, 1_536]])
    expect([line.length, replaces]).toEqual([HEADER_BYTES, HEADER_BYTES])
    const changed = stored.slice()
    changed.set(line)
    const part = openRange(eaas, new Blob([changed as BlobPart]), { from: 70_000, to: 70_010, context })
    expect(isSame(await collect(part), plaintext.slice(70_000, 70_010))).toBe(true)
  })

  it('has to be a stream', async () => {
    await expect(rewrapFirstLine(eaas, new Blob(['{}\n']))).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    await expect(rewrapFirstLine(eaas, new Blob([]))).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    const { error } = await collectUntilError(chunked(stored.slice(1)).pipeThrough(rewrapStream(eaas)))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

import { hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { buildStream, plaintextOf, streamVectors as vectors } from '../../../test/support/vectors/stream-vectors.js'
import { OpenError } from './aead.js'
import { concatBytes, decodeHex, encodeHex, equalInConstantTime, FormatError } from './bytes.js'
import { type Context, encodeContext, splitBoundKeys } from './envelope-binding.js'
import { nobleAead } from './noble-aead.js'
import {
  decodeStreamHeader,
  encodeStreamHeader,
  findStreamHeaderEnd,
  MAX_SEGMENTS,
  MAX_STREAM_HEADER_BYTES,
  SEALED_SEGMENT_BYTES,
  SEGMENT_BYTES,
  segmentIv,
  streamAad,
  streamKeysInfo,
} from './stream.js'

const KEY_ID = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'

const utf8 = (text: string) => new TextEncoder().encode(text)
const same = (one: Uint8Array, other: Uint8Array) => Buffer.compare(one, other) === 0 // `toEqual` takes seconds for megabytes

function derive(dek: Uint8Array, salt: Uint8Array, keyId: string) {
  return splitBoundKeys(new Uint8Array(hkdfSync('sha256', dek, salt, streamKeysInfo(keyId), 64)))
}

/** Opens as stream.md 5 says, and gives out each piece once it is verified. */
function open(stream: Uint8Array, dek: string, context: Context, give: (piece: Uint8Array) => void): void {
  const end = findStreamHeaderEnd(stream)
  if (end === undefined) throw new FormatError('no line')
  const header = decodeStreamHeader(stream.subarray(0, end))
  const { key, commitment } = derive(decodeHex(dek), header.salt, header.key_id)
  if (!equalInConstantTime(commitment, header.commitment)) throw new OpenError()
  const aad = streamAad(header.key_id, encodeContext(context))
  for (let [at, counter, isFinal] = [end, 0, false]; !isFinal; counter++) {
    const segment = stream.subarray(at, at + SEALED_SEGMENT_BYTES)
    at += segment.length
    isFinal = at === stream.length
    const piece = nobleAead.open(key, segmentIv(counter, isFinal), segment, aad)
    if (counter > 0 && piece.length === 0) throw new OpenError()
    give(piece)
  }
}

describe('encrypted streams', () => {
  it.each(vectors.derive)('derive both keys: $name', ({ dek, salt, key_id, key, commitment }) => {
    const keys = derive(decodeHex(dek), decodeHex(salt), key_id)
    expect(encodeHex(keys.key)).toBe(key)
    expect(encodeHex(keys.commitment)).toBe(commitment)
  })

  it.each(vectors.aad)('make the AAD of a context: $name', ({ key_id, context, aad }) => {
    expect(encodeHex(streamAad(key_id, encodeContext(context)))).toBe(aad)
  })

  it.each(vectors.iv)('make the iv of segment $counter, final: $final', ({ counter, final, iv }) => {
    expect(encodeHex(segmentIv(counter, final))).toBe(iv)
  })

  it.each(vectors.open)('open, and seal to the same: $name', ({ plaintext: { name, bytes }, ...vector }) => {
    const plaintext = plaintextOf(name, bytes)
    const stream = buildStream({ ...vector, plaintext: { name, bytes } })
    const given: Uint8Array[] = []
    open(stream, vector.dek, vector.context, (piece) => given.push(piece))
    expect(same(concatBytes(...given), plaintext)).toBe(true)
    const sealed = given.map((piece, at) =>
      nobleAead.seal(
        decodeHex(vector.key),
        segmentIv(at, at === given.length - 1),
        piece,
        streamAad(
          decodeStreamHeader(stream.subarray(0, findStreamHeaderEnd(stream))).key_id,
          encodeContext(vector.context),
        ),
      ),
    )
    const header = stream.subarray(0, findStreamHeaderEnd(stream))
    expect(same(concatBytes(encodeStreamHeader(decodeStreamHeader(header)), ...sealed), stream)).toBe(true)
  })

  it.each(vectors.refuse)('end with an error, after a prefix: $name', (vector) => {
    const stream = buildStream(vector)
    const given: Uint8Array[] = []
    const expected = vector.error === 'format' ? FormatError : OpenError
    expect(() => open(stream, vector.dek, vector.context, (piece) => given.push(piece))).toThrow(expected)
    expect(same(concatBytes(...given), plaintextOf(vector.plaintext.name, vector.prefix))).toBe(true)
  })

  it('have more vectors to refuse than to accept, each with a name of its own', () => {
    const { derive, aad, iv, header, open, refuse, refuse_header } = vectors
    const accepted = derive.length + aad.length + iv.length + header.length + open.length
    expect(refuse.length + refuse_header.length).toBeGreaterThan(3 * accepted)
    for (const list of [open, refuse, refuse_header]) {
      expect(new Set(list.map(({ name }) => name)).size).toBe(list.length)
    }
  })

  it('open only by the commitment what is authentic under the keys of two DEKs', () => {
    const vector = vectors.refuse.find(({ name }) => name.startsWith('authentic under two DEKs'))
    if (!vector) throw new Error('the vector is missing')
    const stream = buildStream(vector)
    const end = findStreamHeaderEnd(stream) ?? 0
    const { salt, key_id } = decodeStreamHeader(stream.subarray(0, end))
    const { key } = derive(decodeHex(vector.dek), salt, key_id)
    const aad = streamAad(key_id, encodeContext(vector.context))
    expect(nobleAead.open(key, segmentIv(0, true), stream.subarray(end), aad).length).toBe(16)
  })
})

describe('the header of a stream', () => {
  it.each(vectors.header)('has one line: $name', ({ header, line }) => {
    const { key_id, key_version, wrapped_key } = header
    const salt = new Uint8Array(Buffer.from(header.salt, 'base64'))
    const commitment = new Uint8Array(Buffer.from(header.commitment, 'base64'))
    const fields = { key_id, key_version, wrapped_key, salt, commitment }
    expect(new TextDecoder().decode(encodeStreamHeader(fields))).toBe(line)
    expect(decodeStreamHeader(utf8(line))).toEqual(fields)
    expect(line.length % 512).toBe(0)
    expect(findStreamHeaderEnd(utf8(`${line}\n`))).toBe(line.length)
  })

  it.each(vectors.refuse_header)('is refused: $name', ({ line }) => {
    expect(() => decodeStreamHeader(utf8(line))).toThrow(FormatError)
  })

  it('is looked for in 1,536 bytes only', () => {
    const spaces = ' '.repeat(MAX_STREAM_HEADER_BYTES - 1)
    expect(findStreamHeaderEnd(utf8(`${spaces}\n`))).toBe(MAX_STREAM_HEADER_BYTES)
    expect(findStreamHeaderEnd(utf8(`${spaces} \n`))).toBeUndefined()
    expect(findStreamHeaderEnd(new Uint8Array(0))).toBeUndefined()
  })

  it('is refused without its content in the message', () => {
    for (const { line } of vectors.refuse_header.filter(({ line }) => line.includes('opaque!='))) {
      expect(() => decodeStreamHeader(utf8(line))).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('opaque') }),
      )
    }
  })

  it('does not take a wrapped key that is too long, or no base64', () => {
    const fields = { key_id: KEY_ID, key_version: 1, salt: new Uint8Array(32), commitment: new Uint8Array(32) }
    for (const wrapped_key of [Buffer.alloc(769).toString('base64'), 'opaque!', 'a"b=']) {
      expect(() => encodeStreamHeader({ ...fields, wrapped_key })).toThrow(FormatError)
    }
  })

  it('is another one with any byte altered, or is refused', () => {
    const { line } = vectors.header[0] ?? { line: '' }
    fc.assert(
      fc.property(fc.nat({ max: line.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, mask) => {
        const bytes = utf8(line)
        const before = decodeStreamHeader(bytes)
        bytes[at] = (bytes[at] ?? 0) ^ mask
        let after: unknown
        try {
          after = decodeStreamHeader(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
          return
        }
        expect(after).not.toEqual(before)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('the iv of a segment', () => {
  it.each([-1, MAX_SEGMENTS, Number.NaN, Number.POSITIVE_INFINITY])('does not exist for counter %d', (counter) => {
    expect(() => segmentIv(counter, false)).toThrow('at most 2^32 segments')
  })

  it('is of its own for each counter and flag', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: MAX_SEGMENTS - 1 }),
        fc.boolean(),
        fc.nat({ max: 2 ** 20 }),
        fc.boolean(),
        (...args) => {
          const [counter, isFinal, more, other] = args
          const next = (counter + more) % MAX_SEGMENTS
          const isSame = next === counter && isFinal === other
          expect(encodeHex(segmentIv(counter, isFinal)) === encodeHex(segmentIv(next, other))).toBe(isSame)
        },
      ),
    )
  })
})

describe('the length of a stream', () => {
  it('tells where each segment is', () => {
    const lengths = vectors.open.map((vector) => {
      const stream = buildStream(vector)
      return stream.length - (findStreamHeaderEnd(stream) ?? 0)
    })
    expect(lengths).toEqual(
      vectors.open.map(({ plaintext: { bytes } }) => bytes + 16 * Math.max(1, Math.ceil(bytes / SEGMENT_BYTES))),
    )
  })
})

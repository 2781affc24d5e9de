import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { OpenError } from './aead.js'
import { decodeBase64, decodeHex, encodeBase64, encodeUtf8, FormatError } from './bytes.js'
import vectors from './envelope.vectors.json' with { type: 'json' }
import { decodeEnvelope, encodeSealed } from './envelope-v2.js'
import { nobleAead } from './noble-aead.js'

const key = decodeHex(vectors.key)

function open(envelope: unknown): Uint8Array {
  const { iv, sealed } = decodeEnvelope(envelope)
  return nobleAead.open(key, iv, sealed)
}

function plaintextOf(vector: (typeof vectors.seal)[number]): Uint8Array {
  if (vector.text !== undefined) return encodeUtf8(vector.text)
  if (vector.plaintext !== undefined) return decodeHex(vector.plaintext)
  return new Uint8Array(vector.repeat?.times ?? 0).fill(Number.parseInt(vector.repeat?.byte ?? '', 16))
}

describe('envelope format v1', () => {
  it.each(vectors.seal)('gives the published ciphertext: $name', (vector) => {
    const plaintext = plaintextOf(vector)
    const sealed = nobleAead.seal(decodeHex(vector.key), decodeHex(vector.iv), plaintext)
    if (vector.ciphertext !== undefined) expect(encodeBase64(sealed)).toBe(vector.ciphertext)
    else expect(createHash('sha256').update(sealed).digest('hex')).toBe(vector.ciphertext_sha256)
    expect(sealed.length).toBe(plaintext.length + 16)
    expect(nobleAead.open(decodeHex(vector.key), decodeHex(vector.iv), sealed)).toEqual(plaintext)
  })

  it('gives the ciphertexts that clients in other languages know', () => {
    expect(vectors.seal.find((vector) => vector.name === 'empty')?.ciphertext).toBe('XGmWJa9Lk6D4IgoqYRnF0A==')
    expect(vectors.seal.find((vector) => vector.name === 'text')?.ciphertext).toBe(
      'lX0fXyC/It0DC+SybgilkxTbOdtXvhpZyqHIZyPWaA==',
    )
    expect(vectors.seal.find((vector) => vector.name === '1 MiB')?.ciphertext_sha256).toBe(
      'fb2659797a6f365ce80778c5f2055cb45dd898e346d095f1514619d434544c3d',
    )
  })

  it('opens the envelope that every vector to refuse was made of', () => {
    expect(open(vectors.valid)).toEqual(encodeUtf8('secret bancaire'))
  })

  it.each(vectors.refuse.filter((vector) => vector.error === 'format'))(
    'refuses before any key: $name',
    ({ envelope }) => {
      expect(() => decodeEnvelope(envelope)).toThrow(FormatError)
    },
  )

  it.each(vectors.refuse.filter((vector) => vector.error === 'decryption'))('does not open: $name', ({ envelope }) => {
    expect(() => open(envelope)).toThrow(OpenError)
  })

  it('has more vectors to refuse than to accept, at least thirty, each with a name of its own', () => {
    expect(vectors.refuse.length).toBeGreaterThanOrEqual(30)
    expect(vectors.refuse.length).toBeGreaterThan(vectors.seal.length)
    expect(new Set(vectors.refuse.map(({ name }) => name)).size).toBe(vectors.refuse.length)
  })

  it('refuses every alteration of one bit, in each byte of ciphertext, tag and iv', () => {
    for (const field of ['ciphertext', 'iv'] as const) {
      const bytes = decodeBase64(vectors.valid[field])
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const altered = bytes.slice()
        altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        expect(() => open({ ...vectors.valid, [field]: encodeBase64(altered) })).toThrow(OpenError)
      }
    }
  })

  it('says the same for every cause of a failed opening', () => {
    const failures = vectors.refuse.filter((vector) => vector.error === 'decryption')
    const messages = failures.map(({ envelope }) => {
      try {
        return String(open(envelope))
      } catch (error) {
        return (error as Error).message
      }
    })
    expect(new Set(messages)).toEqual(new Set(['not authentic: altered, or sealed under another key']))
  })

  it('repeats nothing of a refused envelope in the message', () => {
    const secret = 'c2VjcmV0IGJhbmNhaXJl!'
    for (const field of ['ciphertext', 'iv', 'wrapped_key', 'key_id', 'key_version', 'envelope_version']) {
      const envelope = { ...vectors.valid, [field]: field === 'wrapped_key' ? { secret } : secret }
      expect(() => decodeEnvelope(envelope)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining(secret) }),
      )
    }
  })

  it('needs a wrapped key, also if it is the first that is read', async () => {
    vi.resetModules()
    const fresh = await import('./envelope-v2.js')
    const { wrapped_key: _, ...rest } = vectors.valid
    for (const wrapped_key of [undefined, null, '']) {
      expect(() => fresh.decodeEnvelope({ ...rest, wrapped_key })).toThrow('wrapped_key must')
    }
  })

  it('takes a server-mode bundle, which has no envelope_version, as version 1', () => {
    const { envelope_version: _, ...bundle } = vectors.valid
    expect(open(bundle)).toEqual(encodeUtf8('secret bancaire'))
  })

  it('is an object', () => {
    for (const input of [null, undefined, 'text', 7, true, Object.assign([], vectors.valid)]) {
      expect(() => decodeEnvelope(input)).toThrow(new FormatError('an envelope must be an object'))
    }
  })

  it('has exactly the six fields, with base64 in the standard alphabet', () => {
    const { wrapped_key, key_id, key_version } = vectors.valid
    const bytes = { iv: new Uint8Array(12).fill(255), sealed: new Uint8Array(17).fill(254) }
    const envelope = encodeSealed({ wrapped_key, key_id, key_version, ...bytes })
    expect(envelope).toEqual({
      ciphertext: '/v7+/v7+/v7+/v7+/v7+/v4=',
      wrapped_key,
      iv: '////////////////',
      key_id,
      key_version,
      envelope_version: 1,
    })
  })

  it('decodes what it encoded, whatever the bytes', () => {
    const { wrapped_key, key_id } = vectors.valid
    const bytes = (minLength: number, maxLength: number) => fc.uint8Array({ minLength, maxLength })
    const versions = fc.integer({ min: 1, max: 2 ** 31 - 1 })
    fc.assert(
      fc.property(bytes(12, 12), bytes(16, 300), versions, (iv, sealed, key_version) => {
        const parts = decodeEnvelope(encodeSealed({ wrapped_key, key_id, key_version, iv, sealed }))
        expect(parts).toEqual({ wrapped_key, key_id, key_version, iv, sealed })
      }),
    )
  })
})

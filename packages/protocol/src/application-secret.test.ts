// The application's secret (application-secret.md), by the published vectors: the bytes of its format.
import { hkdfSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { mixedKeyInfo } from './application-secret.js'
import vectors from './application-secret.vectors.json' with { type: 'json' }
import { decodeHex, encodeHex, FormatError } from './bytes.js'
import { boundKeysInfo, splitBoundKeys } from './envelope-binding.js'
import { decodeEnvelopeText, encodeEnvelopeText } from './envelope-text.js'
import { decodeEnvelope, encodeSealed } from './envelope-v2.js'
import { decodeStreamHeader, encodeStreamHeader, streamKeysInfo } from './stream.js'

const hkdf = (key: string, info: Uint8Array, length: number, salt = '') =>
  new Uint8Array(hkdfSync('sha256', decodeHex(key), decodeHex(salt), info, length))

describe("the application's secret", () => {
  it.each(vectors.derive)('is mixed into the keys of envelopes and streams: $name', (vector) => {
    const { dek, secret, key_id, mixed } = vector
    expect(encodeHex(hkdf(dek, mixedKeyInfo(key_id), 32, secret))).toBe(mixed)
    const keys = splitBoundKeys(hkdf(mixed, boundKeysInfo(key_id), 64))
    expect([keys.key, keys.commitment].map(encodeHex)).toEqual([vector.key, vector.commitment])
    const stream = splitBoundKeys(hkdf(mixed, streamKeysInfo(key_id), 64, vector.stream_salt))
    expect([stream.key, stream.commitment].map(encodeHex)).toEqual([vector.stream_key, vector.stream_commitment])
  })

  it.each(vectors.text)('is flagged in the text of an envelope: $name', ({ envelope, text }) => {
    expect(encodeEnvelopeText(decodeEnvelope(envelope))).toBe(text)
    expect(encodeSealed(decodeEnvelopeText(text))).toEqual(envelope)
  })

  it.each(vectors.refuse.filter(({ error }) => error === 'format'))('refuses before any key: $name', ({ envelope }) => {
    expect(() => decodeEnvelope(envelope)).toThrow(FormatError)
  })

  it('is flagged in the header of a stream, in one way only', () => {
    const bytes = new Uint8Array(32)
    const key_id = vectors.derive[0]?.key_id ?? ''
    const header = {
      key_id,
      key_version: 1,
      wrapped_key: 'AAAA',
      salt: bytes,
      commitment: bytes,
      needsSecret: true,
    } as const
    const line = encodeStreamHeader(header)
    expect(decodeStreamHeader(line)).toEqual(header)
    const text = new TextDecoder().decode(line)
    for (const wrong of ['false', '1', '"true"', 'null']) {
      const altered = text.replace('"application_secret":true', `"application_secret":${wrong}`)
      expect(altered).not.toBe(text)
      expect(() => decodeStreamHeader(new TextEncoder().encode(altered))).toThrow(FormatError)
    }
  })

  it('has more vectors to refuse than to accept, each with a name of its own', () => {
    const accepted = vectors.derive.length + vectors.open.length + vectors.text.length
    expect(vectors.refuse.length).toBeGreaterThan(2 * accepted)
    expect(new Set(vectors.refuse.map(({ name }) => name)).size).toBe(vectors.refuse.length)
  })
})

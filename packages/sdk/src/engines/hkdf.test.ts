import { createHash, hkdfSync } from 'node:crypto'
import { encodeHex, encodeUtf8 } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hkdfSha256, sha256 } from './hkdf.js'

describe('SHA-256 in JavaScript', () => {
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
  ])('gives what FIPS 180-4 publishes: %j', (text, hash) => {
    expect(encodeHex(sha256(encodeUtf8(text)))).toBe(hash)
  })

  it.each(Array.from({ length: 200 }, (_, length) => length))('gives what node:crypto gives for %d bytes', (length) => {
    const message = Uint8Array.from({ length }, (_, at) => (at * 167 + length) & 255)
    expect(encodeHex(sha256(message.slice()))).toBe(createHash('sha256').update(message).digest('hex'))
  })

  it('zeroes the message, which may hold a key', () => {
    const message = new Uint8Array(40).fill(7)
    sha256(message)
    expect(message).toEqual(new Uint8Array(40))
  })
})

describe('HKDF in JavaScript', () => {
  it('gives what RFC 5869 publishes for an empty salt (A.3)', () => {
    expect(encodeHex(hkdfSha256(new Uint8Array(22).fill(0x0b), new Uint8Array(0), 42))).toBe(
      '8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8',
    )
  })

  it('gives what node:crypto gives, and leaves the key and the info as they are', () => {
    const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
    fc.assert(
      fc.property(
        bytes(32),
        fc.uint8Array({ maxLength: 80 }),
        fc.integer({ min: 1, max: 130 }),
        (key, info, length) => {
          const [keyBefore, infoBefore] = [encodeHex(key), encodeHex(info)]
          const expected = new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), info, length))
          expect(encodeHex(hkdfSha256(key, info, length))).toBe(encodeHex(expected))
          expect([encodeHex(key), encodeHex(info)]).toEqual([keyBefore, infoBefore])
        },
      ),
    )
  })
})

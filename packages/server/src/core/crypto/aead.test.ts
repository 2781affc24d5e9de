// AES-256-GCM of the server: iv in front, tag behind, keys that leave the heap.
import { createSecretKey } from 'node:crypto'
import { encodeHex, IV_BYTES, nobleAead, OpenError, TAG_BYTES } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { importKey, open, randomKey, SEAL_OVERHEAD, seal } from './aead.js'

const secret = Uint8Array.from({ length: 32 }, (_, at) => at)
const key = createSecretKey(secret)
const optionalAad = fc.option(fc.uint8Array({ maxLength: 100 }), { nil: undefined })
const secretBytes = fc.uint8Array({ minLength: 32, maxLength: 32 })

describe('sealing', () => {
  it('gives what opens again, whatever the key, the plaintext and the AAD', () => {
    fc.assert(
      fc.property(secretBytes, fc.uint8Array({ maxLength: 300 }), optionalAad, (secret, plaintext, aad) => {
        const sealed = seal(createSecretKey(secret), plaintext, aad)
        expect(sealed.length).toBe(plaintext.length + SEAL_OVERHEAD)
        expect(open(createSecretKey(secret), sealed, aad)).toEqual(plaintext)
        expect(open(secret, sealed, aad)).toEqual(plaintext)
      }),
    )
  })

  it('gives what the reference implementation opens, and opens what that one sealed', () => {
    fc.assert(
      fc.property(secretBytes, fc.uint8Array({ maxLength: 300 }), optionalAad, (secret, plaintext, aad) => {
        const sealed = seal(secret, plaintext, aad)
        const iv = sealed.slice(0, IV_BYTES)
        expect(nobleAead.open(secret, iv, sealed.slice(IV_BYTES), aad)).toEqual(plaintext)
        const theirs = nobleAead.seal(secret, iv, plaintext, aad)
        expect(open(secret, new Uint8Array([...iv, ...theirs]), aad)).toEqual(plaintext)
      }),
    )
  })

  it('never uses an iv twice, not even for one plaintext', () => {
    const ivs = Array.from({ length: 5_000 }, () => encodeHex(seal(key, new Uint8Array(0)).subarray(0, IV_BYTES)))
    expect(new Set(ivs).size).toBe(ivs.length)
  })

  it('never counts: no byte of the iv stays the same from one to the next for long', () => {
    const ivs = Array.from({ length: 64 }, () => seal(key, new Uint8Array(0)).subarray(0, IV_BYTES))
    for (let at = 0; at < IV_BYTES; at++) expect(new Set(ivs.map((iv) => iv[at])).size).toBeGreaterThan(16)
  })

  it('leaves the plaintext as it is', () => {
    const plaintext = new Uint8Array([1, 2, 3])
    seal(key, plaintext)
    expect(plaintext).toEqual(new Uint8Array([1, 2, 3]))
  })
})

describe('opening', () => {
  const aad = new Uint8Array([1, 2, 3])
  const plaintext = new Uint8Array(20).fill(7)
  const sealed = seal(key, plaintext, aad)

  it('refuses any one bit altered, in the iv, the ciphertext and the tag', () => {
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const altered = sealed.slice()
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() => open(key, altered, aad), `bit ${bit}`).toThrow(OpenError)
    }
  })

  it('refuses every shorter length, and a byte more', () => {
    for (let length = 0; length < sealed.length; length++) {
      expect(() => open(key, sealed.subarray(0, length), aad), `${length} bytes`).toThrow(OpenError)
    }
    expect(() => open(key, new Uint8Array([...sealed, 0]), aad)).toThrow(OpenError)
  })

  it('refuses a tag of 12 bytes that is right as far as it goes', () => {
    const [front, tag] = [sealed.slice(0, -TAG_BYTES), sealed.slice(-TAG_BYTES)]
    expect(() => open(key, new Uint8Array([...front, ...tag.subarray(0, 12)]), aad)).toThrow(OpenError)
  })

  it.each([
    ['another key', () => open(createSecretKey(new Uint8Array(32)), sealed, aad)],
    ['no AAD', () => open(key, sealed)],
    ['an empty AAD', () => open(key, sealed, new Uint8Array(0))],
    ['a shorter AAD', () => open(key, sealed, aad.subarray(1))],
    ['a longer AAD', () => open(key, sealed, new Uint8Array([...aad, 0]))],
    ['an AAD with one bit altered', () => open(key, sealed, new Uint8Array([1, 2, 2]))],
    ['nothing sealed', () => open(key, new Uint8Array(0), aad)],
    ['only zeros', () => open(key, new Uint8Array(sealed.length), aad)],
  ])('refuses %s, with the one message for every cause', (_, opening) => {
    expect(opening).toThrow(OpenError)
    expect(opening).toThrow('not authentic: altered, or sealed under another key')
  })

  it('takes a view into longer memory as what the view shows', () => {
    const memory = new Uint8Array([9, 9, 9, ...sealed, 9, 9])
    expect(open(key, memory.subarray(3, 3 + sealed.length), aad)).toEqual(plaintext)
  })

  it('gives plain bytes in memory of their own', () => {
    const opened = open(key, sealed, aad)
    expect(opened.constructor).toBe(Uint8Array)
    expect(opened.buffer.byteLength).toBe(opened.length)
  })
})

describe('a key', () => {
  it('is zeroed where it lay once it is imported', () => {
    const bytes = secret.slice()
    const imported = importKey(bytes)
    expect(bytes).toEqual(new Uint8Array(32))
    expect(new Uint8Array(imported.export())).toEqual(secret)
  })

  it.each([0, 16, 24, 31, 33, 64])('of %d bytes is refused', (length) => {
    expect(() => importKey(new Uint8Array(length).fill(1))).toThrow(`a key must be 32 bytes, got ${length}`)
    expect(() => seal(new Uint8Array(length), new Uint8Array(1))).toThrow()
    expect(() => open(new Uint8Array(length), new Uint8Array(64))).toThrow()
  })

  it('is drawn anew each time', () => {
    const keys = Array.from({ length: 200 }, () => randomKey())
    expect(new Set(keys.map(encodeHex)).size).toBe(200)
    expect(keys.every(({ length }) => length === 32)).toBe(true)
  })
})

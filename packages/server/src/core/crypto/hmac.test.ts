import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { loadWycheproof } from '../../../../../test/support/vectors/vectors.js'
import { hmac, hmacHex } from './hmac.js'

const digested = vi.hoisted((): Uint8Array[] => [])
vi.mock('node:crypto', async (load) => {
  const real = await load<typeof import('node:crypto')>()
  const hash = (algorithm: string, data: Uint8Array, encoding: 'hex') => {
    digested.push(data)
    return real.hash(algorithm, data, encoding)
  }
  return { ...real, hash }
})

const wycheproof = loadWycheproof('hmac_sha256_test')

describe('HMAC-SHA-256', () => {
  // RFC 4231, test cases 1, 2 and 4
  it.each([
    ['0b'.repeat(20), 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
    ['4a656665', 'what do ya want for nothing?', '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'],
    [
      '0102030405060708090a0b0c0d0e0f10111213141516171819',
      Buffer.alloc(50, 0xcd),
      '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
    ],
  ])('agrees with RFC 4231 under the key %s', (key, message, expected) => {
    const secret = createSecretKey(Buffer.from(key, 'hex'))
    expect(hmacHex(secret, message)).toBe(expected)
    expect(hmac(secret, message)).toEqual(Buffer.from(expected, 'hex'))
    expect(hmac(Buffer.from(key, 'hex'), message)).toEqual(Buffer.from(expected, 'hex'))
  })

  it('agrees with node:crypto for every length around those where it goes another way, whichever key came before', () => {
    const keys = [32, 32, 64, 1].map((bytes) => createSecretKey(randomBytes(bytes)))
    for (const length of [0, 1, 54, 55, 56, 63, 64, 65, 300, 4_095, 4_096, 4_097, 10_000]) {
      const message = randomBytes(length)
      for (const key of keys)
        expect(hmacHex(key, message)).toBe(createHmac('sha256', key).update(message).digest('hex'))
    }
  })

  it.each([
    [10, 20, 0, 30],
    [4_000, 96],
    [4_000, 97],
    [5_000, 1],
  ])('takes a message in parts of %i, %i, … bytes', (...lengths) => {
    const key = createSecretKey(randomBytes(32))
    const parts = lengths.map((length) => randomBytes(length))
    expect(hmacHex(key, ...parts)).toBe(createHmac('sha256', key).update(Buffer.concat(parts)).digest('hex'))
  })

  it.each([0, 1, 1_365, 1_366, 5_000])('takes a text of %i characters as its UTF-8', (length) => {
    const key = createSecretKey(randomBytes(32))
    for (const character of ['a', 'ü', '€', '🔑']) {
      const text = character.repeat(length)
      expect(hmacHex(key, 'text: ', text)).toBe(createHmac('sha256', key).update(`text: ${text}`).digest('hex'))
    }
  })

  it('wipes what it put together: key, message and inner digest', () => {
    digested.length = 0
    hmacHex(createSecretKey(randomBytes(32)), 'SECRET', randomBytes(100))
    expect(digested.map(({ length }) => length)).toEqual([64 + 106, 64 + 32])
    for (const block of digested) expect(block.every((byte) => byte === 0)).toBe(true)
  })

  it('refuses a key that it would have to digest first', () => {
    expect(() => hmacHex(createSecretKey(randomBytes(65)), randomBytes(4))).toThrow('at most 64 bytes')
  })
})

describe.runIf(wycheproof)('Wycheproof HMAC-SHA-256', () => {
  const tests = (wycheproof?.testGroups ?? [])
    .filter(({ keySize }) => keySize <= 512)
    .flatMap(({ tagSize, tests }) => tests.map((test) => ({ ...test, tagDigits: tagSize / 4 })))

  it.each(tests)('$tcId $comment: $result', ({ key, msg, tag, tagDigits, result }) => {
    const made = hmacHex(createSecretKey(Buffer.from(key, 'hex')), Buffer.from(msg, 'hex'))
    expect(made.slice(0, tagDigits) === tag).toBe(result === 'valid')
  })
})

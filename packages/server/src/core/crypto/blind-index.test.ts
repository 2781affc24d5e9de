// Blind indexes and index secrets, see blind-index.md.
import { createSecretKey } from 'node:crypto'
import { decodeHex, encodeBase64 } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ANY_CHARACTER } from '../../../../../test/support/vectors/any-text.js'
import { blindIndex, deriveIndexSecret } from './blind-index.js'
import vectors from './blind-index.vectors.json' with { type: 'json' }

const keyOf = (hex: string) => createSecretKey(decodeHex(hex))
const hashKey = keyOf(vectors.index[0]?.hash_key ?? '')
const text = fc.string({ unit: ANY_CHARACTER })

describe('a blind index', () => {
  it.each(vectors.index)('is the published one: $name', ({ hash_key, value, index }) => {
    expect(blindIndex(keyOf(hash_key), value)).toBe(index)
  })

  it.each(vectors.refuse)('is not what this mistake gives: $name', ({ hash_key, value, index }) => {
    expect(blindIndex(keyOf(hash_key), value)).not.toBe(index)
  })

  it('differs between all published values', () => {
    expect(new Set(vectors.index.map(({ index }) => index)).size).toBe(vectors.index.length)
  })

  it('is the same for the same value and differs for any other', () => {
    fc.assert(
      fc.property(text, text, (one, other) => {
        expect(blindIndex(hashKey, one)).toMatch(/^[0-9a-f]{64}$/)
        expect(blindIndex(hashKey, one) === blindIndex(hashKey, other)).toBe(one === other)
      }),
    )
  })

  it('differs under any other key', () => {
    const secret = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(secret, secret, text, (one, other, value) => {
        const same = Buffer.compare(one, other) === 0
        expect(blindIndex(createSecretKey(one), value) === blindIndex(createSecretKey(other), value)).toBe(same)
      }),
    )
  })
})

describe('an index secret', () => {
  const secretOf = ({ hash_key, of }: { hash_key: string; of: string }) =>
    encodeBase64(deriveIndexSecret(keyOf(hash_key), of))

  it.each(vectors.secret)('is the published one: $name', (vector) => {
    expect(secretOf(vector)).toBe(vector.secret)
  })

  it.each(vectors.refuse_secret)('is not what this mistake gives: $name', (vector) => {
    expect(secretOf(vector)).not.toBe(vector.secret)
  })

  it('is no index, and no other name has it', () => {
    fc.assert(
      fc.property(text, text, (one, other) => {
        const secret = Buffer.from(deriveIndexSecret(hashKey, one))
        expect(secret.equals(deriveIndexSecret(hashKey, other))).toBe(one === other)
        expect(secret.toString('hex')).not.toBe(blindIndex(hashKey, other))
      }),
    )
  })
})

// Sealed secrets and derived keys, see key-hierarchy.md.
import { createSecretKey, type KeyObject } from 'node:crypto'
import { decodeHex, encodeHex, OpenError } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ivKeyOf, makeIv, open } from './aead.js'
import {
  deriveRowKey,
  openSecret,
  resealSecret,
  type SecretBinding,
  type StoreKeys,
  sealSecret,
  UnknownStoreKeyError,
} from './key-hierarchy.js'
import vectors from './key-hierarchy.vectors.json' with { type: 'json' }

const storeKey = keyOf(vectors.store_key)
const storeKeys = holding(vectors.number, storeKey)
const { valid } = vectors

function holding(number: number, key: KeyObject): StoreKeys {
  return { current: number, keys: new Map([[number, key]]) }
}

function keyOf(hex: string): KeyObject {
  return createSecretKey(decodeHex(hex))
}

/** Vectors know no types: their places are read as the code's. */
function placeOf(place: object): SecretBinding {
  return place as SecretBinding
}

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const place: fc.Arbitrary<SecretBinding> = fc.record(
  {
    purpose: fc.constantFrom('api-key-pepper', 'signing-key', 'audit-key', 'kek', 'hash-key'),
    tenant_id: fc.uuid(),
    id: fc.uuid(),
    version: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  },
  { requiredKeys: ['purpose'] },
)

describe('a sealed secret', () => {
  it.each(vectors.seal)('opens as published: $name', (vector) => {
    const sealed = decodeHex(vector.sealed)
    expect(vector.sealed).toBe(
      `02${vector.number.toString(16).padStart(8, '0')}${vector.iv}${vector.ciphertext}${vector.tag}`,
    )
    expect(encodeHex(open(storeKey, sealed.subarray(5), decodeHex(vector.aad)))).toBe(vector.secret)
    const secret = openSecret(holding(vector.number, keyOf(vector.store_key)), placeOf(vector.place), sealed)
    expect(secret.export().toString('hex')).toBe(vector.secret)
  })

  it('that every vector to refuse was made of opens', () => {
    const secret = openSecret(storeKeys, placeOf(valid.place), decodeHex(valid.sealed))
    expect(secret.export().toString('hex')).toBe(valid.secret)
  })

  it.each(vectors.refuse)('does not open: $name', ({ place, sealed }) => {
    const both = { current: vectors.number, keys: new Map([...storeKeys.keys, [vectors.number + 1, storeKey]]) }
    expect(() => openSecret(both, placeOf(place), decodeHex(sealed))).toThrow(OpenError)
  })

  it('opens at no place of another vector', () => {
    for (const vector of vectors.seal) {
      for (const elsewhere of vectors.seal) {
        if (vector === elsewhere) continue
        expect(() => openSecret(storeKeys, placeOf(elsewhere.place), decodeHex(vector.sealed))).toThrow(OpenError)
      }
    }
  })

  it('does not open with any one bit altered', () => {
    const sealed = decodeHex(valid.sealed)
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const altered = sealed.slice()
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const refused = bit >= 8 && bit < 40 ? UnknownStoreKeyError : OpenError // of the number, or of the rest
      expect(() => openSecret(storeKeys, placeOf(valid.place), altered), `bit ${bit}`).toThrow(refused)
    }
  })

  it('does not open under a store key with any one bit altered', () => {
    for (let bit = 0; bit < 256; bit++) {
      const wrong = decodeHex(vectors.store_key)
      wrong[bit >> 3] = (wrong[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() =>
        openSecret(holding(vectors.number, createSecretKey(wrong)), placeOf(valid.place), decodeHex(valid.sealed)),
      ).toThrow(OpenError)
    }
  })

  it('opens where it was sealed, and nowhere else, whatever the place', () => {
    fc.assert(
      fc.property(bytes(32), place, place, (secret, here, there) => {
        const sealed = sealSecret(storeKeys, here, secret)
        expect(sealed.length).toBe(65)
        expect(new Uint8Array(openSecret(storeKeys, here, sealed).export())).toEqual(secret)
        for (const name of ['purpose', 'tenant_id', 'id', 'version'] as const) {
          const { [name]: _, ...rest } = here
          const moved = there[name] === undefined ? rest : { ...rest, [name]: there[name] }
          if (moved[name as keyof typeof moved] === here[name]) continue
          expect(() => openSecret(storeKeys, placeOf(moved), sealed)).toThrow(OpenError)
        }
      }),
    )
  })

  it('that is sealed again is the same secret, under the current store key alone', () => {
    const next = { current: 8, keys: new Map([...storeKeys.keys, [8, keyOf('11'.repeat(32))]]) }
    const resealed = resealSecret(next, placeOf(valid.place), decodeHex(valid.sealed))
    expect(encodeHex(resealed.subarray(0, 5))).toBe('0200000008')
    next.keys.delete(vectors.number)
    expect(openSecret(next, placeOf(valid.place), resealed).export().toString('hex')).toBe(valid.secret)
    expect(() => openSecret(storeKeys, placeOf(valid.place), resealed)).toThrow(UnknownStoreKeyError)
  })

  it('never has the same bytes twice', () => {
    const sealed = Array.from({ length: 200 }, () =>
      encodeHex(sealSecret(storeKeys, placeOf(valid.place), new Uint8Array(32))),
    )
    expect(new Set(sealed).size).toBe(sealed.length)
  })

  it('leaves the secret to the caller, who zeroes it', () => {
    const secret = decodeHex(valid.secret)
    sealSecret(storeKeys, placeOf(valid.place), secret)
    expect(encodeHex(secret)).toBe(valid.secret)
  })
})

describe('the row key', () => {
  it.each(vectors.derive)('is the published one', ({ audit_key, row_key }) => {
    expect(deriveRowKey(keyOf(audit_key)).export().toString('hex')).toBe(row_key)
  })

  it.each(vectors.refuse_derive)('is not $name', ({ row_key }) => {
    const [first] = vectors.derive
    expect(
      deriveRowKey(keyOf(first?.audit_key ?? ''))
        .export()
        .toString('hex'),
    ).not.toBe(row_key)
  })
})

describe('the iv of a seal', () => {
  const made = ({ key, random, aad, plaintext }: Record<'key' | 'random' | 'aad' | 'plaintext', string>) => {
    const message = { random: decodeHex(random), aad: decodeHex(aad), plaintext: decodeHex(plaintext) }
    const ivs = [keyOf(key), decodeHex(key)].map((kept) => encodeHex(makeIv(ivKeyOf(kept), message)))
    expect(ivs[0]).toBe(ivs[1])
    return ivs[0]
  }

  it.each(vectors.iv)('is the published one: $name', (vector) => {
    for (const key of [keyOf(vector.key), decodeHex(vector.key)]) {
      const ivKey = ivKeyOf(key)
      expect(encodeHex(ivKey instanceof Uint8Array ? ivKey : ivKey.export())).toBe(vector.iv_key)
    }
    expect(made(vector)).toBe(vector.iv)
  })

  it.each(vectors.refuse_iv)('is not made of $name', ({ iv }) => {
    const [first] = vectors.iv
    expect(first && made(first)).not.toBe(iv)
  })

  it('differs between any two of the published ones', () => {
    expect(new Set(vectors.iv.map(({ iv }) => iv)).size).toBe(vectors.iv.length)
  })
})

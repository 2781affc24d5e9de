import { hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ANY_CHARACTER } from '../../../test/support/vectors/any-text.js'
import { OpenError } from './aead.js'
import { decodeBase64, decodeHex, encodeBase64, encodeHex, equalInConstantTime, FormatError } from './bytes.js'
import { type BoundKeys, boundKeysInfo, type Context, contextAad, splitBoundKeys } from './envelope-binding.js'
import { decodeEnvelope, encodeSealed, type SealedParts } from './envelope-v2.js'
import { nobleAead } from './noble-aead.js'

interface Sealed {
  name: string
  dek: string
  context: Context
  envelope: Record<string, unknown>
}
interface Vectors {
  derive: { name: string; dek: string; key_id: string; key: string; commitment: string }[]
  aad: { name: string; key_id: string; context: Context; aad: string }[]
  open: (Sealed & { plaintext: string; envelope: { iv: string; key_id: string } })[]
  refuse: (Sealed & { error: 'format' | 'decryption' })[]
  refuse_context: { name: string; context: unknown }[]
}

// Parsed here: an import would make `__proto__`, which one context has, the prototype of its object.
const vectors = JSON.parse(readFileSync(new URL('./envelope-v2.vectors.json', import.meta.url), 'utf8')) as Vectors
const KEY_ID = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'

function derive(dek: string, keyId: string): BoundKeys {
  return splitBoundKeys(new Uint8Array(hkdfSync('sha256', decodeHex(dek), new Uint8Array(0), boundKeysInfo(keyId), 64)))
}

/** Reads as who demands format v2. */
function decodeV2(envelope: unknown): Required<Pick<SealedParts, 'commitment'>> & SealedParts {
  const { commitment, ...parts } = decodeEnvelope(envelope)
  if (!commitment) throw new FormatError('an envelope of format v1')
  return { ...parts, commitment }
}

/** Opens as envelope-v2.md 6 says. */
function open({ dek, context, envelope }: Pick<Sealed, 'dek' | 'context' | 'envelope'>): Uint8Array {
  const { iv, sealed, key_id, commitment } = decodeV2(envelope)
  const keys = derive(dek, key_id)
  if (!equalInConstantTime(keys.commitment, commitment)) throw new OpenError()
  return nobleAead.open(keys.key, iv, sealed, contextAad(key_id, context ?? {}))
}

describe('envelope format v2', () => {
  it.each(vectors.derive)('derives both keys: $name', ({ dek, key_id, key, commitment }) => {
    const keys = derive(dek, key_id)
    expect(encodeHex(keys.key)).toBe(key)
    expect(encodeHex(keys.commitment)).toBe(commitment)
  })

  it.each(vectors.aad)('makes the AAD of a context: $name', ({ key_id, context, aad }) => {
    expect(encodeHex(contextAad(key_id, context))).toBe(aad)
  })

  it('is read and written by its own fields, whatever the one before it had', () => {
    const [one, other] = [vectors.derive[0]?.commitment ?? '', 'ff'.repeat(32)].map((hex) =>
      encodeBase64(decodeHex(hex)),
    )
    const base = { ...vectors.open[0]?.envelope, commitment: one }
    const others = [{ commitment: other }, { key_version: 9 }, { key_id: KEY_ID }, { wrapped_key: 'AQ==' }]
    for (const fields of [...others, ...others.reverse()]) {
      for (const envelope of [base, { ...base, ...fields }])
        expect(encodeSealed(decodeEnvelope(envelope))).toEqual(envelope)
    }
    for (const wrong of [
      { commitment: undefined },
      { key_id: undefined },
      { key_version: '1' },
      { wrapped_key: undefined },
    ]) {
      expect(() => decodeEnvelope({ ...base, ...wrong })).toThrow(FormatError)
    }
  })

  it.each(vectors.open)('opens, and seals to the same: $name', ({ dek, context, envelope, plaintext }) => {
    expect(encodeHex(open({ dek, context, envelope }))).toBe(plaintext)
    const { iv, key_id, wrapped_key, key_version } = decodeV2(envelope)
    const { key, commitment } = derive(dek, key_id)
    const sealed = nobleAead.seal(key, iv, decodeHex(plaintext), contextAad(key_id, context ?? {}))
    expect(encodeSealed({ wrapped_key, key_id, key_version, commitment, iv, sealed })).toEqual(envelope)
  })

  // A v1 envelope is refused by its version here; that it does not open where a context is demanded is the
  // SDK's.
  it.each(vectors.refuse.filter(({ error }) => error === 'format'))('refuses before any key: $name', ({ envelope }) => {
    expect(() => decodeV2(envelope)).toThrow(FormatError)
  })

  const tampered = vectors.refuse.filter(
    ({ error, envelope, context }) => error === 'decryption' && envelope.envelope_version === 2 && context !== null,
  )
  it.each(tampered)('does not open: $name', (vector) => {
    expect(() => open(vector)).toThrow(OpenError)
  })

  it.each(vectors.refuse_context)('refuses as a context: $name', ({ context }) => {
    expect(() => contextAad(KEY_ID, context)).toThrow(FormatError)
  })

  it('has more vectors to refuse than to accept, each with a name of its own', () => {
    const accepted = vectors.derive.length + vectors.aad.length + vectors.open.length
    const refused = [...vectors.refuse, ...vectors.refuse_context]
    expect(refused.length).toBeGreaterThan(2 * accepted)
    expect(tampered.length).toBeGreaterThan(40)
    for (const list of [vectors.refuse, vectors.refuse_context]) {
      expect(new Set(list.map(({ name }) => name)).size).toBe(list.length)
    }
  })

  it('opens only by the commitment what is authentic under the keys of two DEKs', () => {
    const vector = vectors.refuse.find(({ name }) => name.startsWith('authentic under two DEKs'))
    if (!vector) throw new Error('the vector is missing')
    const { iv, sealed, key_id } = decodeV2(vector.envelope)
    const { key } = derive(vector.dek, key_id)
    expect(nobleAead.open(key, iv, sealed, contextAad(key_id, vector.context)).length).toBe(16)
  })
})

class Row {
  table = 'users'
}

describe('a context', () => {
  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['an instance of a class', new Row()],
    ['a Map', new Map([['row', '7']])],
    ['a String object', new String('row')],
    ['a value that is undefined', { row: undefined }],
    ['a symbol', { row: '7', [Symbol('tenant')]: '1' }],
    ['a hidden member', Object.defineProperty({ row: '7' }, 'tenant', { value: '1', enumerable: false })],
    ['inherited members', Object.create({ row: '7' })],
    ['a function', () => ({ row: '7' })],
    ['a bigint as a value', { row: 7n }],
    ['a String object as a value', { row: new String('7') }],
  ])('is not %s', (_, context) => {
    expect(() => contextAad(KEY_ID, context)).toThrow(FormatError)
  })

  it('may have no prototype', () => {
    const bare = Object.assign(Object.create(null), { row: '7' })
    expect(contextAad(KEY_ID, bare)).toEqual(contextAad(KEY_ID, { row: '7' }))
  })

  it('is refused without its values in the message', () => {
    for (const context of [{ row: `secret\ud800` }, { row: 'secret'.repeat(1_000) }, { row: ['secret'] }]) {
      expect(() => contextAad(KEY_ID, context)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('secret') }),
      )
    }
  })

  const texts = fc.oneof(
    fc.string({ maxLength: 8, unit: 'grapheme' }),
    fc.string({ maxLength: 8, unit: ANY_CHARACTER }),
    fc.constantFrom('', '\0', '\0\0\0\u0001', 'a', 'ab', '\uffff', '\u{10000}', 'é', 'e\u0301'),
  )
  const contexts = fc.dictionary(
    texts.filter((text) => text !== ''),
    texts,
    { maxKeys: 6 },
  )
  const pairsOf = (context: Context) =>
    JSON.stringify(Object.entries(context).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b))))

  it('gives its own AAD: two give the same one only if they have the same pairs', () => {
    fc.assert(
      fc.property(contexts, contexts, (one, other) => {
        const same = pairsOf(one) === pairsOf(other)
        expect(encodeHex(contextAad(KEY_ID, one)) === encodeHex(contextAad(KEY_ID, other))).toBe(same)
      }),
      { numRuns: 500 },
    )
  })

  it('gives the same AAD whatever the order of its pairs, and another one for another key', () => {
    fc.assert(
      fc.property(contexts, (context) => {
        const reversed = Object.fromEntries(Object.entries(context).reverse())
        expect(contextAad(KEY_ID, reversed)).toEqual(contextAad(KEY_ID, context))
        expect(contextAad(KEY_ID.replace('0', '1'), context)).not.toEqual(contextAad(KEY_ID, context))
      }),
    )
  })

  it('binds: an envelope opens with it, and with no context that differs in one character', () => {
    const dek = '07'.repeat(32)
    const { key, commitment } = derive(dek, KEY_ID)
    const iv = new Uint8Array(12)
    const wrapped = { wrapped_key: 'AAAA', key_id: KEY_ID, key_version: 1 }
    fc.assert(
      fc.property(contexts, fc.uint8Array({ maxLength: 40 }), fc.nat(), (context, plaintext, at) => {
        const sealed = nobleAead.seal(key, iv, plaintext, contextAad(KEY_ID, context))
        const envelope = { ...encodeSealed({ ...wrapped, commitment, iv, sealed }) }
        expect(open({ dek, context, envelope })).toEqual(plaintext)
        const pairs = Object.entries(context)
        const [name, value] = pairs[at % Math.max(1, pairs.length)] ?? ['row', '']
        for (const altered of [
          { ...context, [name]: `${value}x` },
          { ...context, [`${name}x`]: value, x: 'y' },
        ]) {
          expect(() => open({ dek, context: altered, envelope })).toThrow(OpenError)
        }
      }),
    )
  })
})

describe('the keys of a DEK', () => {
  it('are split from 64 bytes, which are zeroed', () => {
    const okm = Uint8Array.from({ length: 64 }, (_, at) => at + 1)
    const { key, commitment } = splitBoundKeys(okm)
    expect([key[0], key.length, commitment[0], commitment.length]).toEqual([1, 32, 33, 32])
    expect(okm).toEqual(new Uint8Array(64))
  })

  it('are committed to in each bit', () => {
    const vector = vectors.open[0]
    if (!vector) throw new Error('no vector')
    const bytes = decodeBase64(vector.envelope.commitment as string)
    for (let bit = 0; bit < 256; bit++) {
      const altered = bytes.slice()
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const envelope = { ...vector.envelope, commitment: encodeBase64(altered) }
      expect(() => open({ ...vector, envelope })).toThrow(OpenError)
    }
  })
})

// Wrapped keys of format 2 (wrapped-key-v2.md): their layout and their AAD, by the published vectors.
import { describe, expect, it } from 'vitest'
import { decodeHex, encodeHex } from './bytes.js'
import { nobleAead } from './noble-aead.js'
import { readWrappedKey, wrappingVersion, writeWrappedKey } from './wrapped-key.js'
import { isWrapContext, readUse, WRAPPED_KEY_V2_FORMAT, type WrapUse, wrappedKeyV2Aad } from './wrapped-key-v2.js'
import vectors from './wrapped-key-v2.vectors.json' with { type: 'json' }

const { reader, valid } = vectors
const keks: Record<string, string> = reader.keks

/** Opens as a reader does: with the KEK of the version that the wrapped key names, for the use that is stated. */
function unwrap({ wrapped_key, ...use }: { wrapped_key: string; purpose: string; context: object }) {
  const parts = readWrappedKey(wrapped_key, WRAPPED_KEY_V2_FORMAT)
  const kek = parts && keks[parts.version]
  if (!parts || kek === undefined) throw new Error('refused')
  const aad = wrappedKeyV2Aad({ ...reader, version: parts.version }, use as WrapUse)
  return encodeHex(nobleAead.open(decodeHex(kek), parts.iv, parts.sealed, aad))
}

describe('a wrapped key of format 2', () => {
  it.each(vectors.wrap)('is read and written as published: $name', ({ wrapped_key, key_version, ...vector }) => {
    const aad = wrappedKeyV2Aad({ ...vector, version: key_version }, vector as unknown as WrapUse)
    expect(encodeHex(aad)).toBe(vector.aad)
    const parts = readWrappedKey(wrapped_key, WRAPPED_KEY_V2_FORMAT)
    if (!parts) throw new Error('not read')
    expect([parts.version, encodeHex(parts.iv)]).toEqual([key_version, vector.iv])
    expect(writeWrappedKey(parts, WRAPPED_KEY_V2_FORMAT)).toBe(wrapped_key)
    expect(encodeHex(nobleAead.open(decodeHex(vector.kek), parts.iv, parts.sealed, aad))).toBe(vector.dek)
    expect(wrappingVersion({ wrapped_key, key_id: reader.key_id, key_version: 2 ** 31 - 1 })).toBe(key_version)
    expect(readWrappedKey(wrapped_key)).toBeUndefined()
  })

  it('that every vector to refuse was made of opens', () => {
    expect(unwrap(valid)).toBe(valid.dek)
  })

  it.each(vectors.refuse)('is refused: $name', (vector) => {
    expect(() => unwrap(vector as never)).toThrow()
  })

  it('has more vectors to refuse than to open, each with a name of its own', () => {
    expect(vectors.refuse.length).toBeGreaterThan(vectors.wrap.length)
    expect(new Set(vectors.refuse.map(({ name }) => name)).size).toBe(vectors.refuse.length)
  })
})

describe('the use of a wrapped key', () => {
  it.each(vectors.contexts)('has no context like this: $name', ({ context }) => {
    expect(isWrapContext(context)).toBe(false)
  })

  it.each([null, [], 'x', 7, ['x']])('has no context of another kind: %j', (context) => {
    expect(isWrapContext(context)).toBe(false)
  })

  it('is none if neither part is stated, and otherwise has the default of the other part', () => {
    expect(readUse({})).toBeUndefined()
    expect(readUse({ context: {} })).toEqual({ purpose: 'data', context: {} })
    expect(readUse({ purpose: 'index' })).toEqual({ purpose: 'index', context: {} })
  })
})

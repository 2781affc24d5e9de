// Wrapped keys (wrapped-key.md): their layout and their AAD, by the published vectors. The server (beside
// crypto/wrapped-key.ts) and the SDK (beside offline.ts) each test that opening refuses every fault.
import { describe, expect, it } from 'vitest'
import { decodeHex, encodeHex } from './bytes.js'
import { nobleAead } from './noble-aead.js'
import { readWrappedKey, wrappedKeyAad, wrappingVersion, writeWrappedKey } from './wrapped-key.js'
import vectors from './wrapped-key.vectors.json' with { type: 'json' }

const { reader, refuse, valid, wrap } = vectors

/** Opens as a reader does: with the KEK of the version that the wrapped key names. */
function unwrap(
  { tenant_id, key_id, keks }: Omit<typeof reader, 'keks'> & { keks: Record<string, string> },
  text: string,
) {
  const parts = readWrappedKey(text)
  const kek = parts && keks[parts.version]
  if (!parts || kek === undefined) throw new Error('refused')
  const dek = nobleAead.open(decodeHex(kek), parts.iv, parts.sealed, wrappedKeyAad(tenant_id, key_id, parts.version))
  return encodeHex(dek)
}

describe('a wrapped key', () => {
  it.each(wrap)('is read and written as published: $name', ({ tenant_id, key_id, key_version, ...vector }) => {
    const parts = readWrappedKey(vector.wrapped_key)
    expect(parts?.version).toBe(key_version)
    expect(encodeHex(parts?.iv ?? new Uint8Array())).toBe(vector.iv)
    expect(encodeHex(parts?.sealed ?? new Uint8Array())).toBe(vector.ciphertext + vector.tag)
    expect(parts && writeWrappedKey(parts)).toBe(vector.wrapped_key)
    expect(encodeHex(wrappedKeyAad(tenant_id, key_id, key_version))).toBe(vector.aad)
    expect(unwrap({ tenant_id, key_id, keks: { [key_version]: vector.kek } }, vector.wrapped_key)).toBe(vector.dek)
  })

  it.each(vectors.version)('is of this version: $name', ({ wrapped_key, key_version, version }) => {
    expect(wrappingVersion({ wrapped_key, key_id: reader.key_id, key_version })).toBe(version)
  })

  it('that every vector to refuse was made of opens', () => {
    expect(unwrap(reader, valid.wrapped_key)).toBe(valid.dek)
  })

  // A sealed DEK of another length may be authentic, but the wrapped key has the wrong length.
  it.each(refuse)('is refused: $name', ({ wrapped_key }) => {
    expect(() => unwrap(reader, wrapped_key)).toThrow()
  })

  it.each(vectors.elsewhere)('is refused when $name', ({ tenant_id, key_id, kek }) => {
    expect(() => unwrap({ tenant_id, key_id, keks: { [valid.key_version]: kek } }, valid.wrapped_key)).toThrow()
  })
})

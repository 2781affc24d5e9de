// Wrapped keys, see wrapped-key.md: the published vectors, and what a reader refuses.
import { createSecretKey } from 'node:crypto'
import {
  decodeBase64,
  decodeHex,
  encodeBase64,
  encodeHex,
  OpenError,
  type WrapUse,
  wrappedKeyAad,
} from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import vectors from '../../../../protocol/src/wrapped-key.vectors.json' with { type: 'json' }
import bound from '../../../../protocol/src/wrapped-key-v2.vectors.json' with { type: 'json' }
import { openWrappedKey } from '../api/key-use.js'
import type { OpenKey } from '../runner/load-key.js'
import { Refusal } from '../runner/refusal.js'
import { importKey } from './aead.js'
import { deriveContextKey, digestContext } from './key-hierarchy.js'
import { unwrapDek, wrapDek, wrappedKeyVersion } from './wrapped-key.js'

interface Reader {
  tenant_id: string
  key_id: string
  keks: Record<string, string>
}

/** A key as `unwrap` sees it, with the KEKs of a reader. */
function keyOf({ tenant_id, key_id, keks }: Reader): OpenKey {
  const versions = Object.entries(keks).map(([name, kek]) => {
    const version = Number(name)
    const opened = { kek: importKey(decodeHex(kek)), aad: wrappedKeyAad(tenant_id, key_id, version) }
    return [version, { ...opened, row: { tenant_id, key_id, version } as never }] as const
  })
  const row = { min_unwrap_version: 1 } as OpenKey['row']
  return { row, versions: new Map(versions), hashKey: undefined }
}

const key = keyOf(vectors.reader)
const { valid } = vectors

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const keyVersion = fc.integer({ min: 1, max: 2 ** 31 - 1 })

describe('a wrapped key', () => {
  it.each(vectors.wrap)('opens as published: $name', (vector) => {
    const { tenant_id, key_id, key_version } = vector
    const aad = wrappedKeyAad(tenant_id, key_id, key_version)
    expect(encodeHex(aad)).toBe(vector.aad)
    const token = decodeBase64(vector.wrapped_key)
    expect(encodeHex(token)).toBe(
      `01${key_version.toString(16).padStart(8, '0')}${vector.iv}${vector.ciphertext}${vector.tag}`,
    )
    expect(wrappedKeyVersion(token)).toBe(key_version)
    expect(encodeHex(unwrapDek(importKey(decodeHex(vector.kek)), aad, token))).toBe(vector.dek)
  })

  it('that every vector to refuse was made of opens', () => {
    const { dek, version } = openWrappedKey(key, valid.wrapped_key)
    expect(encodeHex(dek)).toBe(valid.dek)
    expect(version).toBe(valid.key_version)
  })

  it.each(vectors.refuse.filter(({ wrapped_key }) => isCanonical(wrapped_key)))(
    'is refused: $name',
    ({ wrapped_key }) => {
      expect(() => openWrappedKey(key, wrapped_key)).toThrow(
        expect.objectContaining({ code: 'E_WRAPPED_KEY', message: 'wrapped_key is not authentic for this key' }),
      )
    },
  )

  it.each(vectors.refuse.filter(({ wrapped_key }) => !isCanonical(wrapped_key)))(
    'is refused as text: $name',
    ({ wrapped_key }) => {
      expect(() => openWrappedKey(key, wrapped_key)).toThrow()
    },
  )

  it.each(vectors.elsewhere)('is refused when $name', ({ tenant_id, key_id, kek }) => {
    const elsewhere = keyOf({ tenant_id, key_id, keks: { [valid.key_version]: kek } })
    expect(() => openWrappedKey(elsewhere, valid.wrapped_key)).toThrow(Refusal)
  })

  it('has no vector to refuse that is the valid one', () => {
    expect(vectors.refuse.filter(({ wrapped_key }) => wrapped_key === valid.wrapped_key)).toEqual([])
  })

  it('is refused with any one bit altered', () => {
    const token = decodeBase64(valid.wrapped_key)
    for (let bit = 0; bit < token.length * 8; bit++) {
      const altered = token.slice()
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() => openWrappedKey(key, encodeBase64(altered)), `bit ${bit}`).toThrow(Refusal)
    }
  })

  it('is refused at any other length', () => {
    const token = decodeBase64(valid.wrapped_key)
    const longer = new Uint8Array([...token, ...token])
    for (let length = 0; length <= longer.length; length++) {
      if (length === token.length) continue
      expect(() => wrappedKeyVersion(longer.subarray(0, length)), `${length} bytes`).toThrow(OpenError)
    }
  })

  it('is refused by its version alone once that is too old, altered or not', () => {
    const closed = { ...key, row: { ...key.row, min_unwrap_version: valid.key_version + 1 } }
    const altered = decodeBase64(valid.wrapped_key)
    altered[40] = (altered[40] ?? 0) ^ 1
    for (const wrapped_key of [valid.wrapped_key, encodeBase64(altered)]) {
      expect(() => openWrappedKey(closed, wrapped_key)).toThrow(expect.objectContaining({ code: 'E_VERSION_TOO_OLD' }))
    }
  })

  it('is refused once the KEK of its version is destroyed', () => {
    const versions = new Map(
      [...key.versions].map(([version, opened]) => [
        version,
        { ...opened, kek: version === 2 ? undefined : opened.kek },
      ]),
    )
    expect(() => openWrappedKey({ ...key, versions }, valid.wrapped_key)).toThrow(Refusal)
  })
})

describe('wrapping', () => {
  it('gives what unwraps, whatever the DEK, the tenant, the key and the version', () => {
    fc.assert(
      fc.property(bytes(32), bytes(32), fc.uuid(), fc.uuid(), keyVersion, (...[secret, dek, tenant, id, version]) => {
        const kek = createSecretKey(secret)
        const aad = wrappedKeyAad(tenant, id, version)
        const token = wrapDek(kek, version, { aad, isBound: false }, dek)
        expect(token.length).toBe(65)
        expect(token[0]).toBe(1)
        expect(wrappedKeyVersion(token)).toBe(version)
        expect(unwrapDek(kek, aad, token)).toEqual(dek)
      }),
    )
  })

  it('binds tenant, key and version, whatever they are', () => {
    const place = fc.record({ tenant: fc.uuid(), id: fc.uuid(), version: keyVersion })
    fc.assert(
      fc.property(place, place, ({ tenant, id, version }, other) => {
        const same = tenant === other.tenant && id === other.id && version === other.version
        fc.pre(!same)
        const kek = createSecretKey(new Uint8Array(32))
        const token = wrapDek(
          kek,
          version,
          { aad: wrappedKeyAad(tenant, id, version), isBound: false },
          new Uint8Array(32),
        )
        for (const place of [
          { ...other },
          { tenant: other.tenant, id, version },
          { tenant, id: other.id, version },
          { tenant, id, version: other.version },
        ]) {
          if (place.tenant === tenant && place.id === id && place.version === version) continue
          const aad = wrappedKeyAad(place.tenant, place.id, place.version)
          expect(() => unwrapDek(kek, aad, token)).toThrow(OpenError)
        }
      }),
    )
  })

  it('never gives the same bytes twice for one DEK', () => {
    const kek = createSecretKey(new Uint8Array(32))
    const aad = wrappedKeyAad(vectors.reader.tenant_id, vectors.reader.key_id, 1)
    const tokens = Array.from({ length: 200 }, () =>
      encodeHex(wrapDek(kek, 1, { aad, isBound: false }, new Uint8Array(32))),
    )
    expect(new Set(tokens).size).toBe(tokens.length)
  })

  it('takes canonical UUIDs only', () => {
    const { tenant_id, key_id } = vectors.reader
    for (const wrong of [tenant_id.toUpperCase(), tenant_id.replaceAll('-', ''), `{${tenant_id}}`, '', 'users']) {
      expect(() => wrappedKeyAad(wrong, key_id, 1), wrong).toThrow('not a canonical UUID')
      expect(() => wrappedKeyAad(tenant_id, wrong, 1), wrong).toThrow('not a canonical UUID')
    }
  })
})

describe('a wrapped key of format 2', () => {
  const boundKey = keyOf(bound.reader)
  const { wrapped_key, dek, key_version, ...use } = bound.valid

  it('opens for the use that it was wrapped for', () => {
    const opened = openWrappedKey(boundKey, wrapped_key, use as unknown as WrapUse)
    expect([encodeHex(opened.dek), opened.version]).toEqual([dek, key_version])
  })

  it.each(bound.refuse)('is refused: $name', ({ wrapped_key, ...use }) => {
    expect(() => openWrappedKey(boundKey, wrapped_key, use as unknown as WrapUse)).toThrow(
      expect.objectContaining({ code: 'E_WRAPPED_KEY' }),
    )
  })

  it('is refused where no use is stated, and one of format 1 where one is', () => {
    expect(() => openWrappedKey(boundKey, wrapped_key)).toThrow(Refusal)
    expect(() => openWrappedKey(key, valid.wrapped_key, { purpose: 'data', context: {} })).toThrow(Refusal)
  })

  it.each(bound.digest)('has digests in the log as published: $name', ({ audit_key, context_key, pair, digest }) => {
    const contextKey = deriveContextKey(createSecretKey(decodeHex(audit_key)))
    expect(contextKey.export().toString('hex')).toBe(context_key)
    expect(digestContext(contextKey, pair[0] ?? '', pair[1] ?? '')).toBe(digest)
  })
})

function isCanonical(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64') === text
}

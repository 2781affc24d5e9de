import { inspect } from 'node:util'
import { decodeHex, encodeBase64, encodeHex, encodeUtf8, readWrappedKey } from '@eaas/protocol'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import envelopeVectors from '../../../packages/protocol/src/envelope.vectors.json' with { type: 'json' }
import tokenVectors from '../../../packages/protocol/src/wrapped-key.vectors.json' with { type: 'json' }
import { type Client, createClient, text } from '../../../packages/sdk/src/index.js'
import * as offline from '../../../packages/sdk/src/offline.js'
import { useService } from '../../../packages/sdk/src/test-support/clients.js'
import { API_KEY } from '../../../packages/sdk/src/test-support/service.js'
import indexVectors from '../../../packages/server/src/core/crypto/blind-index.vectors.json' with { type: 'json' }
import { loadOn } from '../../support/platforms/platform.js'
import { ANY_CHARACTER } from '../../support/vectors/any-text.js'

const key_id = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'
const tenant_id = '7c9e6679-7425-40de-944b-e07fc1f90ae7'
const wrapped = { wrapped_key: 'AAAA', key_id, key_version: 1 }
const hex = '11'.repeat(32)

const { createDek, open, openExport, openText, seal } = offline
const platforms = [
  ['Node', async () => offline],
  ['a browser', arriveInBrowser],
] as const

/** The entry as a browser loads it: each copy of the modules chooses its engine once. */
function arriveInBrowser(): Promise<typeof offline> {
  return loadOn(
    { process: undefined, Buffer: undefined },
    new URL('../../../packages/sdk/src/offline.ts', import.meta.url),
  )
}

afterEach(() => vi.restoreAllMocks())

it('takes the engine of browsers in a browser', async () => {
  const { createDek, seal } = await arriveInBrowser()
  const encrypt = vi.spyOn(crypto.subtle, 'encrypt')
  await seal('x', { dek: createDek(), wrapped })
  expect(encrypt).toHaveBeenCalled()
})

describe('seal and open', () => {
  it.each(platforms)('give back any text and any bytes on %s, and leave the DEK alone', async (_, arrive) => {
    const { createDek, open, openText, seal } = await arrive()
    const dek = createDek()
    const before = dek.slice()
    await fc.assert(
      fc.asyncProperty(fc.uint8Array(), fc.string({ unit: ANY_CHARACTER }), async (bytes, string) => {
        expect(await open(await seal(bytes, { dek, wrapped }), dek)).toEqual(bytes)
        expect(await openText(await seal(string, { dek, wrapped }), dek)).toBe(string)
      }),
      { numRuns: 50 },
    )
    expect(dek).toEqual(before)
  })

  it.each(platforms)('have taken all they need once they return on %s: both may be wiped then', async (_, arrive) => {
    const { createDek, openText, seal } = await arrive()
    for (const dek of [createDek(), Buffer.from(createDek())]) {
      const kept = new Uint8Array(dek)
      const value = encodeUtf8('SECRET')
      const sealing = seal(value, { dek, wrapped })
      dek.fill(0)
      value.fill(0)
      const envelope = await sealing
      dek.set(kept)
      const opening = openText(envelope, dek)
      dek.fill(0)
      expect(await opening).toBe('SECRET')
    }
  })

  it.each(platforms)('leave a DEK alone that is a Buffer on %s', async (_, arrive) => {
    const { createDek, openText, seal } = await arrive()
    const dek = Buffer.from(createDek())
    const before = new Uint8Array(dek)
    expect(await openText(await seal('x', { dek, wrapped }), dek)).toBe('x')
    expect(new Uint8Array(dek)).toEqual(before)
  })

  it('open the published ciphertext', async () => {
    for (const vector of envelopeVectors.seal) {
      if (vector.ciphertext === undefined || vector.text === undefined) continue
      const iv = encodeBase64(decodeHex(vector.iv))
      const envelope = { ...wrapped, ciphertext: vector.ciphertext, iv, envelope_version: 1 as const }
      expect(await openText(envelope, decodeHex(vector.key))).toBe(vector.text)
    }
  })

  it('refuse an alteration, another DEK, a DEK of another length or one that was wiped, and a header that could not be read again', async () => {
    const dek = createDek()
    const envelope = await seal('SECRET', { dek, wrapped })
    await expect(open(envelope, createDek())).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    await expect(open({ ...envelope, iv: encodeBase64(new Uint8Array(12)) }, dek)).rejects.toMatchObject({
      code: 'E_DECRYPTION',
    })
    await expect(open(envelope, dek.slice(1))).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'dek must be 32 bytes, got 31',
    })
    await expect(seal('x', { dek: createDek().fill(0), wrapped })).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'dek is all zeros',
    })
    await expect(open(envelope, createDek().fill(0))).rejects.toMatchObject({ message: 'dek is all zeros' })
    for (const wrong of [{ key_id: 'users' }, { key_version: 0 }, { wrapped_key: '' }]) {
      const sealing = seal('x', { dek, wrapped: { ...wrapped, ...wrong } })
      await expect(sealing).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringContaining('wrapped'),
      })
    }
    await expect(seal('x', { dek, wrapped: null as never })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    await expect(seal('\ud800', { dek, wrapped })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('an export', () => {
  const service = useService()
  let eaas: Client
  beforeEach(() => {
    eaas = createClient({ baseUrl: service.url, apiKey: API_KEY })
  })
  afterEach(() => eaas.close())

  it.each(platforms)(
    'opens the published wrapped keys on %s, also one after the other under one version',
    async (_, arrive) => {
      const { openExport } = await arrive()
      for (const vector of tokenVectors.wrap) {
        const versions = [{ version: vector.key_version, dek_hex: vector.kek }]
        const key = openExport({ tenant_id: vector.tenant_id, key_id: vector.key_id, versions })
        for (let time = 0; time < 2; time++) expect(encodeHex(await key.unwrap(vector.wrapped_key))).toBe(vector.dek)
      }
    },
  )

  const reader = {
    ...tokenVectors.reader,
    versions: Object.entries(tokenVectors.reader.keks).map(([version, dek_hex]) => ({
      version: Number(version),
      dek_hex,
    })),
  }

  it.each(tokenVectors.refuse)('refuses a wrapped key: $name', async ({ wrapped_key }) => {
    const key = openExport(reader)
    expect(encodeHex(await key.unwrap(tokenVectors.valid.wrapped_key))).toBe(tokenVectors.valid.dek)
    const { version = 1 } = readWrappedKey(wrapped_key) ?? {}
    const isHeld = reader.versions.some((held) => held.version === version)
    await expect(key.unwrap(wrapped_key)).rejects.toMatchObject({ code: isHeld ? 'E_DECRYPTION' : 'E_INVALID_INPUT' })
  })

  it('says which versions it holds when a wrapped key is of another', async () => {
    const vector = tokenVectors.valid
    const versions = reader.versions.filter(({ version }) => version !== vector.key_version)
    const key = openExport({ ...reader, versions })
    await expect(key.unwrap(vector.wrapped_key)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'wrapped by version 2, but the export has 1, 3',
      hint: 'Export it again, unless that version was destroyed.',
    })
  })

  it('is closed for what is still waiting for the engine too', async () => {
    const key = openExport(reader)
    const unwrapping = key.unwrap(tokenVectors.valid.wrapped_key)
    key.close()
    await expect(unwrapping).rejects.toMatchObject({ message: 'the export is closed' })
  })

  it.each(tokenVectors.elsewhere)('refuses the wrapped key of another: $name', async (other) => {
    const versions = [{ version: tokenVectors.valid.key_version, dek_hex: other.kek }]
    const key = openExport({ tenant_id: other.tenant_id, key_id: other.key_id, versions })
    await expect(key.unwrap(tokenVectors.valid.wrapped_key)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
  })

  it.each(platforms)('opens envelopes and bundles on %s', async (_, arrive) => {
    const { openExport, seal } = await arrive()
    const { wrapped_key, key_version, dek } = tokenVectors.valid
    const own = { dek: decodeHex(dek), wrapped: { wrapped_key, key_version, key_id: reader.key_id } }
    const key = openExport(reader)
    const envelope = await seal('{"a":"Ž🔐"}', { ...own, envelope: 1 })
    const { envelope_version: __, ...bundle } = envelope
    expect(await key.decryptText(envelope)).toBe('{"a":"Ž🔐"}')
    expect(await key.decryptJson(bundle)).toEqual({ a: 'Ž🔐' })
    const altered = { ...envelope, iv: encodeBase64(new Uint8Array(12)) }
    await expect(key.decrypt(altered)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
  })

  it('makes the published blind indexes', async () => {
    for (const { hash_key, value, index } of indexVectors.index) {
      const key = openExport({ tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }], hash_key_hex: hash_key })
      expect(await key.hash(value)).toBe(index)
    }
  })

  it.each(platforms)('derives the published index secrets on %s', async (_, arrive) => {
    const { openExport } = await arrive()
    for (const { hash_key, of, secret } of indexVectors.secret.filter(({ of }) => of.length <= 255)) {
      const key = openExport({ tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }], hash_key_hex: hash_key })
      expect(encodeBase64(await key.indexSecret(of))).toBe(secret)
    }
    const without = openExport({ tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }] })
    await expect(without.indexSecret('users')).rejects.toMatchObject({ message: 'the export has no hash_key_hex' })
  })

  it.each(platforms)('computes indexes and index secrets in any order on %s', async (_, arrive) => {
    const { openExport } = await arrive()
    const key = openExport({ tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }], hash_key_hex: hex })
    const bytes = new Uint8Array(40)
    const all = async () => [await key.hash('x'), await key.indexSecret('x'), await key.blindHash(bytes)]
    const first = await all()
    expect(await all()).toEqual(first)
    expect(first[2]).toHaveLength(64)
    await expect(key.blindHash(7 as never)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('takes the tenant from the export or from the caller, and needs one of them', () => {
    const without = { key_id, versions: [{ version: 1, dek_hex: hex }] }
    expect(openExport(without, { tenantId: tenant_id }).keyId).toBe(key_id)
    expect(openExport(JSON.stringify({ ...without, tenant_id })).keyId).toBe(key_id)
    expect(() => openExport(without)).toThrow('tenant_id')
    expect(() => openExport({ ...without, tenant_id }, { tenantId: key_id })).toThrow('a different tenant')
  })

  it.each([
    ['text that is no JSON', '{"SECRET'],
    ['null', 'null'],
    ['no key_id', { tenant_id, versions: [{ version: 1, dek_hex: hex }] }],
    ['a version that is null', { tenant_id, key_id, versions: [null] }],
    ['a version without a number', { tenant_id, key_id, versions: [{ version: '1', dek_hex: hex }] }],
    ['no versions', { tenant_id, key_id, versions: [] }],
    ['a secret in upper case', { tenant_id, key_id, versions: [{ version: 1, dek_hex: 'AB'.repeat(32) }] }],
    ['a secret that is cut', { tenant_id, key_id, versions: [{ version: 1, dek_hex: hex.slice(2) }] }],
    [
      'a hash key that is cut',
      { tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }], hash_key_hex: hex.slice(2) },
    ],
  ])('is refused: %s, without showing a secret', (_, wrong) => {
    try {
      openExport(wrong as string)
      expect.unreachable()
    } catch (error) {
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(inspect(error)).not.toMatch(/SECRET|1111|ABAB/)
    }
  })

  it('refuses an envelope of another key, and shows nothing of itself', async () => {
    const key = openExport({ tenant_id, key_id, versions: [{ version: 1, dek_hex: hex }] })
    const envelope = await seal('x', { dek: createDek(), wrapped: { ...wrapped, key_id: tenant_id } })
    await expect(key.decrypt(envelope)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(inspect(key, { depth: 9, showHidden: true }) + JSON.stringify(key)).not.toContain('1111')
  })

  it('opens nothing any more once it is closed', async () => {
    const vector = tokenVectors.wrap[0]
    if (!vector) return expect.unreachable()
    const versions = [{ version: vector.key_version, dek_hex: vector.kek }]
    const key = openExport({ tenant_id: vector.tenant_id, key_id: vector.key_id, versions, hash_key_hex: hex })
    const other = openExport({ tenant_id: vector.tenant_id, key_id: vector.key_id, versions, hash_key_hex: hex })
    expect(await key.hash('x')).toBe(await key.hash('x'))
    key.close()
    other.close()
    await expect(key.hash('x')).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    await expect(other.hash('x')).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    await expect(other.indexSecret('x')).rejects.toMatchObject({ message: 'the export is closed' })
    await expect(other.blindHash(new Uint8Array(1))).rejects.toMatchObject({ message: 'the export is closed' })
    await expect(key.unwrap(vector.wrapped_key)).rejects.toMatchObject({ message: 'the export is closed' })
    const envelope = await seal('x', { dek: createDek(), wrapped: { ...wrapped, key_id: vector.key_id } })
    await expect(key.decrypt(envelope)).rejects.toMatchObject({ message: 'the export is closed' })
  })

  it('has an index equal to the one that the service made', async () => {
    const { id } = await eaas.keys.create({ name: 'exported' })
    const users = eaas.model({
      name: 'users',
      keyId: id,
      bind: false,
      index: { by: 'service' },
      fields: {
        email: text({ index: 'email_index', normalize: ['lowercase'], shared: true }),
        nick: text({ index: 'n' }),
      },
    })
    const { email_index, n } = await users.encrypt({ email: 'ADA@example.org', nick: 'Ada' })
    const exported = openExport(await eaas.keys.export(id))
    expect(await exported.hash('ada@example.org')).toBe(email_index)
    expect(await exported.hash('eaas/index/v1:5:users:1:n:3:Ada')).toBe(n)
  })
})

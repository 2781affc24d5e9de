import { createHmac, hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import {
  type Aead,
  boundKeysInfo,
  decodeHex,
  encodeBase64,
  encodeHex,
  encodeUtf8,
  streamKeysInfo,
} from '@eaas/protocol'
import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Globals, loadOn } from '../../../../test/support/platforms/platform.js'
import { streamVectors } from '../../../../test/support/vectors/stream-vectors.js'
import { type AesGcmTest, loadWycheproof } from '../../../../test/support/vectors/vectors.js'
import vectors from '../../../protocol/src/envelope.vectors.json' with { type: 'json' }
import { type Client, createClient, DecryptionError } from '../index.js'
import { useService } from '../test-support/clients.js'
import { nobleEngine, nodeEngine } from '../test-support/engines.js'
import { API_KEY } from '../test-support/service.js'
import { check, ENGINE_TOOLS, selectEngine } from './engine.js'
import { createNodeEngine } from './node.js'
import { createWebEngine } from './web.js'

// Parsed here: Vite's own parser refuses the lone surrogates of some contexts.
const v2Vectors = JSON.parse(
  readFileSync(new URL('../../../protocol/src/envelope-v2.vectors.json', import.meta.url), 'utf8'),
) as { derive: { dek: string; key_id: string; key: string; commitment: string }[] }

const web = createWebEngine()
if (!web) throw new Error('these tests need WebCrypto')
const engines = [
  ['noble', nobleEngine],
  ['node', nodeEngine],
] as const

/** The choice of an engine on another platform, with engines of its own. */
const loadSelect = (globals: Globals) =>
  loadOn<typeof import('./engine.js')>(globals, new URL('engine.ts', import.meta.url))

/** RFC 5869 appendix A, all test cases with SHA-256. */
const hkdfVectors = [
  {
    name: 'test case 1',
    ikm: '0b'.repeat(22),
    salt: hexFrom(0x00, 13),
    info: hexFrom(0xf0, 10),
    okm: '3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865',
  },
  {
    name: 'test case 2: longer',
    ikm: hexFrom(0x00, 80),
    salt: hexFrom(0x60, 80),
    info: hexFrom(0xb0, 80),
    okm:
      'b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09' +
      'da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87',
  },
  {
    name: 'test case 3: without salt and info',
    ikm: '0b'.repeat(22),
    salt: '',
    info: '',
    okm: '8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8',
  },
]

const KEY = new Uint8Array(32).fill(5)

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })

/** So many bytes in a row, in hexadecimal. */
function hexFrom(first: number, count: number): string {
  return encodeHex(Uint8Array.from({ length: count }, (_, at) => first + at))
}

describe.each(engines)('engine %s', (name, aead) => {
  it('seals and opens as the other engine does, with and without AAD', () => {
    const other: Aead = name === 'noble' ? nodeEngine : nobleEngine
    fc.assert(
      fc.property(
        bytes(32),
        bytes(12),
        fc.uint8Array({ maxLength: 100 }),
        fc.option(fc.uint8Array(), { nil: undefined }),
        (...args) => {
          const [key, iv, plaintext, aad] = args
          const sealed = aead.seal(key, iv, plaintext, aad)
          expect(sealed).toEqual(other.seal(key, iv, plaintext, aad))
          expect(other.open(key, iv, sealed, aad)).toEqual(plaintext)
          expect(aead.open(key, iv, sealed, aad)).toEqual(plaintext)
        },
      ),
    )
  })

  it.each([0, 1, 15, 16, 17, 4_096, 65_536])('returns plain bytes in memory of their own: %d bytes', (length) => {
    const [key, iv] = [new Uint8Array(32).fill(1), new Uint8Array(12).fill(2)]
    const sealed = aead.seal(key, iv, new Uint8Array(length))
    const opened = aead.open(key, iv, sealed)
    for (const result of [sealed, opened]) {
      expect(result.constructor).toBe(Uint8Array)
      expect(result.buffer.byteLength).toBe(result.length)
    }
  })

  it('opens with one error for every cause', () => {
    const sealed = aead.seal(KEY, new Uint8Array(12), new Uint8Array(5))
    const key = KEY
    const iv = new Uint8Array(12)
    const causes = [
      () => aead.open(new Uint8Array(32).fill(1), iv, sealed),
      () => aead.open(key, new Uint8Array(12).fill(1), sealed),
      () => aead.open(key, iv, sealed, new Uint8Array(1)),
      () => aead.open(key, iv, sealed.subarray(1)),
      () => aead.open(key, iv, sealed.subarray(0, 15)),
      () => aead.open(key, iv, new Uint8Array(0)),
    ]
    for (const cause of causes) expect(cause).toThrow(DecryptionError)
  })

  it.each([0, 16, 24, 31, 33])('refuses a key of %d bytes', (length) => {
    const key = new Uint8Array(length)
    expect(() => aead.seal(key, new Uint8Array(12), key)).toThrow('key must be 32 bytes')
    expect(() => aead.open(key, new Uint8Array(12), new Uint8Array(32))).toThrow('key must be 32 bytes')
  })

  it.each([0, 8, 11, 13, 16])('refuses an iv of %d bytes', (length) => {
    const iv = new Uint8Array(length)
    expect(() => aead.seal(KEY, iv, iv)).toThrow('iv must be 12 bytes')
    expect(() => aead.open(KEY, iv, new Uint8Array(32))).toThrow('iv must be 12 bytes')
  })
})

describe.each([...engines, ['web', web] as const])('HKDF of engine %s', (_, engine) => {
  it('gives the published keys (envelope-v2.md 8), for a DEK that sealed something before, too', async () => {
    for (const vector of v2Vectors.derive) {
      const dek = decodeHex(vector.dek)
      await engine.seal(dek, new Uint8Array(12), new Uint8Array(0))
      const okm = await engine.derive(dek, boundKeysInfo(vector.key_id), 64)
      expect(encodeHex(okm)).toBe(vector.key + vector.commitment)
    }
  })

  it('gives the published keys of streams, which have a salt (stream.md 8)', async () => {
    for (const vector of streamVectors.derive) {
      const salt = decodeHex(vector.salt)
      const okm = await engine.derive(decodeHex(vector.dek), streamKeysInfo(vector.key_id), 64, salt)
      expect(encodeHex(okm)).toBe(vector.key + vector.commitment)
      expect(encodeHex(salt)).toBe(vector.salt)
    }
  })

  it.each(hkdfVectors)('gives what RFC 5869 publishes ($name)', async ({ ikm, salt, info, okm }) => {
    const derived = await engine.derive(decodeHex(ikm), decodeHex(info), okm.length / 2, decodeHex(salt))
    expect(encodeHex(derived)).toBe(okm)
  })

  it('gives what node:crypto gives, for keys, lengths and salts of any kind', async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes(32),
        fc.uint8Array({ maxLength: 80 }),
        fc.integer({ min: 1, max: 130 }),
        fc.option(fc.uint8Array({ maxLength: 80 }), { nil: undefined }),
        async (...args) => {
          const [key, info, length, salt] = args
          const expected = encodeHex(new Uint8Array(hkdfSync('sha256', key, salt ?? new Uint8Array(0), info, length)))
          const infoBefore = encodeHex(info)
          expect(encodeHex(await engine.derive(key.slice(), info, length, salt))).toBe(expected)
          expect(encodeHex(info)).toBe(infoBefore)
        },
      ),
    )
  })
})

describe.each([...engines, ['web', web] as const])('HMAC of engine %s', (_, engine) => {
  it('gives what RFC 4231 publishes (test case 1), again and again', async () => {
    const mac = engine.createMac(new Uint8Array(20).fill(0x0b))
    for (const _ of [1, 2]) {
      expect(encodeHex(await mac(encodeUtf8('Hi There')))).toBe(
        'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
      )
    }
  })

  it('gives what node:crypto gives, also after the caller zeroed the key, and in memory of its own', async () => {
    await fc.assert(
      fc.asyncProperty(bytes(32), fc.uint8Array({ maxLength: 300 }), async (key, message) => {
        const expected = createHmac('sha256', key).update(message).digest('hex')
        const given = key.slice()
        const mac = engine.createMac(given)
        given.fill(0)
        const made = await mac(message)
        expect(encodeHex(made)).toBe(expected)
        expect(made.buffer.byteLength).toBe(32)
      }),
    )
  })
})

describe.each([...engines, ['web', web] as const])('engine %s', (_, engine) => {
  const iv = new Uint8Array(12)
  it.each<[string, (key: Uint8Array) => unknown]>([
    ['seal', (key) => engine.seal(key, iv, iv)],
    ['open', (key) => engine.open(key, iv, new Uint8Array(28))],
    ['derive', (key) => engine.derive(key, iv, 64)],
    ['createMac', (key) => engine.createMac(key)],
  ])('refuses a key of zeros, and no other: %s', async (_, run) => {
    const errorUnder = async (key: Uint8Array) => {
      try {
        return void (await run(key))
      } catch (error) {
        return (error as Error).message
      }
    }
    const refused = 'key must not be all zeros: it was zeroed before its use'
    expect(await errorUnder(new Uint8Array(32))).toBe(refused)
    for (const at of [0, 31]) {
      const almost = new Uint8Array(32)
      almost[at] = 1
      expect(await errorUnder(almost)).not.toBe(refused)
    }
  })
})

describe('engine web', () => {
  it('seals and opens as noble does, with and without AAD', async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes(32),
        bytes(12),
        fc.uint8Array({ maxLength: 100 }),
        fc.option(fc.uint8Array(), { nil: undefined }),
        async (key, iv, plaintext, aad) => {
          const sealed = await web.seal(key.slice(), iv, plaintext, aad)
          expect(sealed).toEqual(nobleEngine.seal(key, iv, plaintext, aad))
          expect(await web.open(key.slice(), iv, sealed, aad)).toEqual(plaintext)
        },
      ),
    )
  })

  it('imports a DEK once for sealing and once for deriving, as keys that cannot be exported, and wipes its bytes at once', async () => {
    const { subtle } = globalThis.crypto
    const importKey = vi.spyOn(subtle, 'importKey')
    const dek = new Uint8Array(32).fill(7)
    const iv = new Uint8Array(12)
    const sealing = [1, 2, 3].map((byte) => web.seal(dek, iv, new Uint8Array(1).fill(byte)))
    expect(dek).toEqual(new Uint8Array(32))
    for (const [at, sealed] of (await Promise.all(sealing)).entries()) {
      expect(await web.open(dek, iv, sealed)).toEqual(new Uint8Array(1).fill(at + 1))
      expect(nobleEngine.open(new Uint8Array(32).fill(7), iv, sealed)).toEqual(new Uint8Array(1).fill(at + 1))
    }
    expect(importKey.mock.calls.map((call) => call.slice(2))).toEqual([
      ['AES-GCM', false, ['encrypt', 'decrypt']],
      ['HKDF', false, ['deriveBits']],
    ])
    importKey.mockRestore()
  })

  it('seals what the bytes were at the call and wipes its copy, and opens it, those of shared memory too', async () => {
    const encrypt = vi.spyOn(globalThis.crypto.subtle, 'encrypt')
    const [dek, iv] = [new Uint8Array(32).fill(7), new Uint8Array(12)]
    for (const memory of [new ArrayBuffer(5), new SharedArrayBuffer(5)]) {
      const value = new Uint8Array(memory).fill(1)
      const sealing = web.seal(dek, iv, value)
      value.fill(2)
      const sealed = await sealing
      const stored = new Uint8Array(new (memory.constructor as typeof ArrayBuffer)(sealed.length))
      stored.set(sealed)
      expect(await web.open(dek, iv, stored)).toEqual(new Uint8Array(5).fill(1))
      expect(encrypt.mock.lastCall?.[2]).toEqual(new Uint8Array(5))
    }
    encrypt.mockRestore()
  })

  it('opens with one error for every cause', async () => {
    const key = () => KEY.slice()
    const iv = new Uint8Array(12)
    const sealed = await web.seal(key(), iv, new Uint8Array(5))
    const causes = [
      web.open(new Uint8Array(32).fill(1), iv, sealed),
      web.open(key(), new Uint8Array(12).fill(1), sealed),
      web.open(key(), iv, sealed, new Uint8Array(1)),
      web.open(key(), iv, sealed.subarray(1)),
      web.open(key(), iv, sealed.subarray(0, 15)),
      web.open(key(), iv, new Uint8Array(0)),
    ]
    for (const cause of await Promise.allSettled(causes)) {
      expect(cause).toMatchObject({ status: 'rejected', reason: expect.any(DecryptionError) })
    }
    await expect(web.open(new Uint8Array(31), iv, sealed)).rejects.toThrow('key must be 32 bytes')
    await expect(web.seal(key(), new Uint8Array(13), sealed)).rejects.toThrow('iv must be 12 bytes')
  })
})

describe('engine node', () => {
  it('refuses a key that was zeroed after it was imported', () => {
    const iv = new Uint8Array(12)
    const key = new Uint8Array(32).fill(1)
    const sealed = nodeEngine.seal(key, iv, iv)
    key.fill(0)
    expect(() => nodeEngine.seal(key, iv, iv)).toThrow('key must not be all zeros')
    expect(() => nodeEngine.open(key, iv, sealed)).toThrow('key must not be all zeros')
    expect(() => nodeEngine.derive(key, iv, 64)).toThrow('key must not be all zeros')
  })

  it('zeroes the plaintext that node:crypto gave out before the tag was checked', () => {
    const real = process.getBuiltinModule('node:crypto')
    const given: Uint8Array[] = []
    const createDecipheriv = (...[name, key, iv, options]: Parameters<typeof real.createDecipheriv>) => {
      const decipher = real.createDecipheriv(name as 'aes-256-gcm', key, iv as Uint8Array, options as object)
      const update = decipher.update.bind(decipher) as (data: Uint8Array) => Buffer
      return Object.assign(decipher, {
        update(data: Uint8Array) {
          const plaintext = update(data)
          given.push(plaintext)
          return plaintext
        },
      })
    }
    const aead = createNodeEngine({ ...real, createDecipheriv: createDecipheriv as never }, ENGINE_TOOLS)
    const sealed = nobleEngine.seal(KEY, new Uint8Array(12), new TextEncoder().encode('SECRET'))
    sealed[sealed.length - 1] = (sealed.at(-1) ?? 0) ^ 1
    expect(() => aead.open(KEY, new Uint8Array(12), sealed)).toThrow(
      expect.objectContaining({ name: 'DecryptionError' }),
    )
    expect(given.map((plaintext) => new Uint8Array(plaintext))).toEqual([new Uint8Array(6)])
  })
})

describe('the choice of an engine', () => {
  it('auto takes node:crypto on Node, at once after the first time', async () => {
    const engine = await selectEngine('auto')
    expect(engine.isAsync).toBeUndefined()
    expect(selectEngine('auto')).toBe(engine)
    expect(selectEngine('node')).toBe(engine)
    expect((await selectEngine('noble')).isAsync).toBeUndefined()
  })

  it.each([
    ['there is no process', undefined],
    ['process cannot hand out built-in modules', { versions: process.versions }],
    ['there is no node:crypto', { getBuiltinModule: () => undefined }],
    ['node:crypto has no ciphers', { getBuiltinModule: () => ({}) }],
  ])('auto takes WebCrypto when %s, and node is refused', async (_, stub) => {
    const { selectEngine: select } = await loadSelect({ process: stub })
    const engine = await select('auto')
    expect(() => select('node')).toThrow('engine "node" is not available')
    expect(engine).toBe(select('web'))
    const sealed = await engine.seal(KEY.slice(), new Uint8Array(12), new Uint8Array(0))
    expect(encodeHex(sealed).length).toBe(32)
  })

  it.each([
    ['is not there', undefined],
    ['has no subtle, as on a page without TLS', { getRandomValues: () => undefined }],
    ['gives a wrong answer', { subtle: { importKey: async () => ({}), encrypt: async () => new ArrayBuffer(31) } }],
    ['throws', { subtle: {} }],
  ])('auto takes noble when there is no Node and WebCrypto %s, and web is refused', async (_, stub) => {
    const { selectEngine: select } = await loadSelect({ process: undefined, crypto: stub })
    const engine = await select('auto')
    await expect(async () => select('web')).rejects.toThrow('engine "web" is not available')
    expect(engine).not.toHaveProperty('isAsync')
    expect(engine.seal(KEY.slice(), new Uint8Array(12), new Uint8Array(0))).toEqual(
      nobleEngine.seal(KEY, new Uint8Array(12), new Uint8Array(0)),
    )
  })

  it('takes noble when node:crypto gives a wrong answer', async () => {
    const real = process.getBuiltinModule('node:crypto')
    const wrong = {
      ...real,
      createCipheriv: (_: string, key: Uint8Array, iv: Uint8Array) =>
        real.createCipheriv('aes-256-ctr', key, new Uint8Array([...iv, 0, 0, 0, 9])),
    }
    const { selectEngine: select } = await loadSelect({ process: { getBuiltinModule: () => wrong } })
    await expect(select('node')).rejects.toThrow('engine "node" is not available')
  })

  it('refuses an engine that seals wrongly, opens wrongly, opens what is altered, or throws', async () => {
    const zeros = () => new Uint8Array(31)
    const throwing = () => {
      throw new Error('no such cipher')
    }
    const failed = { fault: 'failed' }
    expect(await check(nobleEngine)).toEqual({ engine: nobleEngine })
    expect(await check({ ...nobleEngine, seal: zeros })).toEqual(failed)
    expect(await check({ ...nobleEngine, open: () => new Uint8Array(15) })).toEqual(failed)
    expect(await check({ ...nobleEngine, open: () => new TextEncoder().encode('secret bancaire') })).toEqual(failed)
    expect(await check({ ...nobleEngine, seal: throwing })).toEqual(failed)
    expect(await check(undefined)).toEqual({ fault: 'missing' })
  })
})

const wycheproof = loadWycheproof('aes_gcm_test')
const groups = (wycheproof?.testGroups ?? []).filter(({ keySize }) => keySize === 256)
const fitting = groups.filter(({ ivSize, tagSize }) => ivSize === 96 && tagSize === 128).flatMap(({ tests }) => tests)
const others = groups.filter(({ ivSize, tagSize }) => ivSize !== 96 || tagSize !== 128).flatMap(({ tests }) => tests)

describe.runIf(wycheproof)('Wycheproof AES-GCM', () => {
  const sealedOf = (test: AesGcmTest) => decodeHex(test.ct + test.tag)
  const withoutAad = fitting.filter(({ aad }) => aad === '')
  const service = useService()
  let keyId: string
  const clients: Client[] = []

  beforeAll(() => {
    keyId = service.createKey()
  })
  afterEach(() => {
    for (const client of clients.splice(0)) client.close()
  })

  function openEnvelope(engine: 'noble' | 'node' | 'web', test: AesGcmTest): Promise<Uint8Array> {
    const eaas = createClient({ baseUrl: service.url, apiKey: API_KEY, engine })
    clients.push(eaas)
    service.planted.set(vectors.valid.wrapped_key, decodeHex(test.key))
    const [ciphertext, iv] = [encodeBase64(sealedOf(test)), encodeBase64(decodeHex(test.iv))]
    return eaas.decrypt({ ...vectors.valid, envelope_version: 1, key_id: keyId, ciphertext, iv })
  }

  it('has the tests that are counted on: 66 for the cipher, 48 of them for the envelope, 39 to refuse for their iv', () => {
    expect(fitting.length).toBe(66)
    expect(fitting.filter(({ result }) => result === 'valid').length).toBe(39)
    expect(withoutAad.length).toBe(48)
    expect(others.length).toBe(39)
    expect(others.filter(({ iv }) => iv.length === 24)).toEqual([])
  })

  describe.each(engines)('engine %s', (name, aead) => {
    it.each(fitting)('$result: test $tcId', (test) => {
      const [key, iv, aad] = [decodeHex(test.key), decodeHex(test.iv), decodeHex(test.aad)]
      if (test.result === 'valid') {
        expect(encodeHex(aead.open(key, iv, sealedOf(test), aad))).toBe(test.msg)
        expect(aead.seal(key, iv, decodeHex(test.msg), aad)).toEqual(sealedOf(test))
      } else expect(() => aead.open(key, iv, sealedOf(test), aad)).toThrow(DecryptionError)
    })

    it.each(withoutAad)('$result through the envelope: test $tcId', async (test) => {
      if (test.result === 'valid') expect(encodeHex(await openEnvelope(name, test))).toBe(test.msg)
      else await expect(openEnvelope(name, test)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    })

    if (name === 'noble') {
      it.each(withoutAad)('$result through the envelope, by WebCrypto: test $tcId', async (test) => {
        if (test.result === 'valid') expect(encodeHex(await openEnvelope('web', test))).toBe(test.msg)
        else await expect(openEnvelope('web', test)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
      })
    }

    it('refuses every test with another iv, by the cipher and by the envelope, without a request', async () => {
      for (const test of others) {
        const [key, iv, aad] = [decodeHex(test.key), decodeHex(test.iv), decodeHex(test.aad)]
        expect(() => aead.open(key, iv, sealedOf(test), aad)).toThrow('iv must be 12 bytes')
        await expect(openEnvelope(name, test)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      }
      expect(service.requests).toEqual([])
    })
  })
})

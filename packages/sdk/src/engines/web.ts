/** AES-256-GCM, HKDF and HMAC with WebCrypto, for browsers and workers. Node also uses its HMAC. */
import { assertLengths, assertNotZero, TAG_BYTES } from '@eaas/protocol'
import { DecryptionError, InvalidInputError } from '../errors.js'
import type { Soon } from '../waiting.js'
import type { Engine } from './engine.js'

const CIPHER = 'AES-GCM'
const TAG_LENGTH = TAG_BYTES * 8

type ImportedDek = { aes: Soon<CryptoKey>; hkdf: Soon<CryptoKey> }

/** Imported keys by their arrays, which are then zeroed. One map for all engines: another engine would take the zeros for the DEK. */
const imported = new WeakMap<Uint8Array, ImportedDek>()

/** Makes the engine; undefined without WebCrypto, as on pages without TLS. Imports each DEK once, and zeroes its bytes. */
export function createWebEngine(): Engine | undefined {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (!subtle) return undefined

  const importOnce = (dek: Uint8Array): ImportedDek => {
    const known = imported.get(dek)
    if (known) return known
    assertNotZero(dek)
    // importKey copies the bytes before it returns (Web Cryptography API, section 14.3.9).
    const importAs = (algorithm: string, usages: KeyUsage[]) =>
      subtle.importKey('raw', dek as BufferSource, algorithm, false, usages)
    const keys: ImportedDek = { aes: importAs(CIPHER, ['encrypt', 'decrypt']), hkdf: importAs('HKDF', ['deriveBits']) }
    imported.set(dek, keys)
    for (const name of ['aes', 'hkdf'] as const) {
      const keep = (key: CryptoKey) => {
        keys[name] = key // unlike its promise, it outlives the request
      }
      Promise.resolve(keys[name]).then(keep, () => undefined) // the caller handles the error
    }
    dek.fill(0)
    return keys
  }
  return {
    isAsync: true,
    async seal(dek, iv, plaintext, aad) {
      assertLengths(dek, iv)
      const key = importOnce(dek).aes
      const copy = new Uint8Array(plaintext) // the caller may change it before the key is imported, and it may be shared memory
      try {
        return new Uint8Array(await subtle.encrypt(createParams(iv, aad), await key, copy))
      } finally {
        copy.fill(0)
      }
    },
    async derive(key, info, length, salt = new Uint8Array(0)) {
      const { hkdf } = importOnce(key)
      const params = { name: 'HKDF', hash: 'SHA-256', salt: salt as BufferSource, info: info as BufferSource }
      return new Uint8Array(await subtle.deriveBits(params, await hkdf, length * 8))
    },
    createMac: (key) => createHmacBy(subtle, new Uint8Array(key)),
    async open(dek, iv, sealed, aad) {
      assertLengths(dek, iv)
      const copy = new Uint8Array(sealed) // it may be shared memory
      const key = await importOnce(dek).aes
      try {
        return new Uint8Array(await subtle.decrypt(createParams(iv, aad), key, copy))
      } catch {
        throw new DecryptionError() // the platform distinguishes a short input from a wrong tag, which callers must not learn
      }
    },
  }
}

function createParams(iv: Uint8Array, aad: Uint8Array | undefined): AesGcmParams {
  const params = { name: CIPHER, iv: iv as BufferSource, tagLength: TAG_LENGTH }
  return aad ? { ...params, additionalData: aad as BufferSource } : params
}

export type Hmac = (bytes: Uint8Array) => Promise<Uint8Array>

/** Makes an HMAC, and zeroes the key. @throws InvalidInputError where there is no WebCrypto */
export function createHmac(key: Uint8Array): Hmac {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (subtle) return createHmacBy(subtle, key)
  const message = 'blind indexes need WebCrypto, which is missing here'
  throw new InvalidInputError(message, 'Run in Node, or on a page served over TLS.')
}

function createHmacBy(subtle: SubtleCrypto, key: Uint8Array): Hmac {
  assertNotZero(key)
  // importKey copies the bytes before it returns.
  const imported = subtle.importKey('raw', key as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  key.fill(0)
  return async (bytes) => new Uint8Array(await subtle.sign('HMAC', await imported, bytes as BufferSource))
}

/** AES-256-GCM by WebCrypto: for browsers and workers, where it is several times as fast as JavaScript. */
import { assertLengths, OpenError, TAG_BYTES } from '@eaas/protocol'
import type { Engine } from './engine.js'

const CIPHER = 'AES-GCM'
const TAG_LENGTH = TAG_BYTES * 8

/**
 * Makes the engine, or returns undefined where there is no WebCrypto, as on pages without TLS. It imports each DEK once, as a
 * CryptoKey that cannot be exported and lives as long as the array, and zeroes the bytes.
 */
export function createWebEngine(): Engine | undefined {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (!subtle) return undefined
  const keys = new WeakMap<Uint8Array, CryptoKey | Promise<CryptoKey>>()

  const importOnce = (dek: Uint8Array): CryptoKey | Promise<CryptoKey> => {
    const known = keys.get(dek)
    if (known) return known
    // importKey copies the bytes before it returns (Web Cryptography API, section 14.3.9).
    const key = subtle.importKey('raw', dek as BufferSource, CIPHER, false, ['encrypt', 'decrypt'])
    keys.set(dek, key)
    key.then((imported) => keys.set(dek, imported)).catch(() => undefined) // the caller handles the error; the CryptoKey, unlike its promise, outlives the request
    dek.fill(0)
    return key
  }
  return {
    isAsync: true,
    copy(dek) {
      const copy = new Uint8Array(dek) // `slice` of a Buffer copies nothing
      const key = keys.get(dek)
      if (key) keys.set(copy, key) // its bytes are zero already
      return copy
    },
    async seal(dek, iv, plaintext, aad) {
      assertLengths(dek, iv)
      const key = importOnce(dek)
      const copy = new Uint8Array(plaintext) // the caller may change it before the key is imported; it may also be shared memory
      try {
        return new Uint8Array(await subtle.encrypt(createParams(iv, aad), await key, copy))
      } finally {
        copy.fill(0)
      }
    },
    async open(dek, iv, sealed, aad) {
      assertLengths(dek, iv)
      const key = await importOnce(dek)
      try {
        return new Uint8Array(await subtle.decrypt(createParams(iv, aad), key, sealed as BufferSource))
      } catch {
        throw new OpenError() // the platform distinguishes a short input from a wrong tag; callers must not learn it
      }
    },
  }
}

function createParams(iv: Uint8Array, aad: Uint8Array | undefined): AesGcmParams {
  const params = { name: CIPHER, iv: iv as BufferSource, tagLength: TAG_LENGTH }
  return aad ? { ...params, additionalData: aad as BufferSource } : params
}

/** The reference engine, in JavaScript, with `@noble/ciphers` and `@noble/hashes`. Loaded only where it is used. */
import { gcm } from '@noble/ciphers/aes.js'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import type { EngineTools, SyncEngine } from './engine.js'

export function createNobleEngine({ assertLengths, assertNotZero, DecryptionError }: EngineTools): SyncEngine {
  return {
    seal(key, iv, plaintext, aad) {
      assertLengths(key, iv)
      assertNotZero(key)
      return gcm(key, iv, aad).encrypt(plaintext)
    },
    open(key, iv, sealed, aad) {
      assertLengths(key, iv)
      assertNotZero(key)
      try {
        return gcm(key, iv, aad).decrypt(sealed)
      } catch {
        throw new DecryptionError() // noble's errors distinguish a short input from a bad tag; ours must not
      }
    },
    derive(key, info, length, salt) {
      assertNotZero(key)
      return hkdf(key, info, length, salt)
    },
    createMac(key) {
      assertNotZero(key)
      const keyed = hmac.create(sha256, key)
      return (message) => keyed.clone().update(message).digest()
    },
  }
}

const HASH_BYTES = 32

/** HKDF-SHA-256 (RFC 5869) with noble's HMAC. Noble's own HKDF costs pages 300 bytes more. The caller zeroes the result. */
export function hkdf(
  key: Uint8Array,
  info: Uint8Array,
  length: number,
  salt: Uint8Array = new Uint8Array(0),
): Uint8Array {
  const prk = hmac(sha256, salt, key) // 2.2; no salt means zeros, and HMAC pads an empty salt with zeros
  const okm = new Uint8Array(Math.ceil(length / HASH_BYTES) * HASH_BYTES)
  for (let at = 0; at < okm.length; at += HASH_BYTES) {
    const before = okm.subarray(Math.max(0, at - HASH_BYTES), at) // 2.3: each block goes into the next one
    const block = hmac.create(sha256, prk).update(before).update(info)
    block.update(Uint8Array.of(at / HASH_BYTES + 1)).digestInto(okm.subarray(at))
  }
  prk.fill(0)
  return okm.subarray(0, length)
}

/** The reference engine, by `@noble/ciphers` and `@noble/hashes` in JavaScript. Loaded where it is used. */
import type { EngineTools, SyncEngine } from './engine.js'
import { gcm, hkdf, hmac, sha256 } from './noble-primitives.js'

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

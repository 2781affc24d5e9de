/**
 * The reference engine: AES-256-GCM, HKDF and HMAC by `@noble/ciphers` and `@noble/hashes`, in JavaScript,
 * which runs everywhere.
 */
import { assertLengths, assertNotZero } from '@eaas/protocol'
import { DecryptionError } from '../errors.js'
import type { SyncEngine } from './engine.js'
import type * as Primitives from './noble-primitives.js'

/** Makes the engine from the primitives in `noble-primitives.ts`. */
export function createNobleEngine({ gcm, hkdf, hmac, sha256 }: typeof Primitives): SyncEngine {
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

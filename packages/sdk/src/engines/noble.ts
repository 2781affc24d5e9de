/** The reference engine: AES-256-GCM by `@noble/ciphers`, in JavaScript, which runs everywhere. */
import { assertLengths, BOUND_KEYS_BYTES, OpenError } from '@eaas/protocol'
import type { SyncEngine } from './engine.js'
import type { gcm, hkdfSha256 } from './noble-primitives.js'

/** Makes the engine of its primitives, which `noble-primitives.ts` holds. */
export function createNobleEngine(primitives: { gcm: typeof gcm; hkdfSha256: typeof hkdfSha256 }): SyncEngine {
  return {
    seal(key, iv, plaintext, aad) {
      assertLengths(key, iv)
      return primitives.gcm(key, iv, aad).encrypt(plaintext)
    },
    open(key, iv, sealed, aad) {
      assertLengths(key, iv)
      try {
        return primitives.gcm(key, iv, aad).decrypt(sealed)
      } catch {
        throw new OpenError() // noble's errors distinguish a short input from a bad tag; ours must not
      }
    },
    derive: (dek, info) => primitives.hkdfSha256(dek, info, BOUND_KEYS_BYTES),
  }
}

/** The reference engine: AES-256-GCM by `@noble/ciphers`, in JavaScript, which runs everywhere. */
import { BOUND_KEYS_BYTES, nobleAead } from '@eaas/protocol'
import type { Engine } from './engine.js'
import { hkdfSha256 } from './hkdf.js'

export const nobleEngine = {
  ...nobleAead,
  derive: (dek: Uint8Array, info: Uint8Array) => hkdfSha256(dek, info, BOUND_KEYS_BYTES),
} satisfies Engine

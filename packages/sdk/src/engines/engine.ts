/** Engines: AES-256-GCM seals and opens; HKDF and HMAC with SHA-256 derive keys and make indexes. */
import type { assertLengths, assertNotZero } from '@eaas/protocol'
import type { DecryptionError } from '../errors.js'
import type { Soon } from '../waiting.js'

/** The engines by name. `auto` takes node:crypto on Node, WebCrypto in browsers and workers, noble elsewhere. */
export const ENGINES = ['auto', 'noble', 'node', 'web'] as const
export type EngineName = (typeof ENGINES)[number]

/** AES-256-GCM under a DEK. Each refuses a key of zeros (FormatError). A synchronous engine makes no promises. */
export interface Engine {
  readonly isAsync?: true
  /**
   * Returns ciphertext ‖ tag. The caller may zero the DEK after the call; its array must not change otherwise, by which
   * an engine knows it. The iv must never repeat under one DEK.
   */
  seal(dek: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Soon<Uint8Array>
  /** Derives by HKDF-SHA-256, with a salt (stream.md 2) or none (envelope-v2.md 2). The caller zeroes the result. */
  derive(key: Uint8Array, info: Uint8Array, length: number, salt?: Uint8Array): Soon<Uint8Array>
  /** Makes the function that returns HMAC-SHA-256 under a key, which the caller may then zero. */
  createMac(key: Uint8Array): Mac
  /** Opens ciphertext ‖ tag. @throws DecryptionError, perhaps of another copy of the SDK: see `isEaasError` */
  open(dek: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Soon<Uint8Array>
}

/** 32 bytes. */
export type Mac = (message: Uint8Array) => Soon<Uint8Array>

export interface SyncEngine {
  readonly isAsync?: never
  seal(dek: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Uint8Array
  open(dek: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array
  derive(key: Uint8Array, info: Uint8Array, length: number, salt?: Uint8Array): Uint8Array
  createMac(key: Uint8Array): (message: Uint8Array) => Uint8Array
}

/** What an engine that is loaded alone needs of ours: with imports, bundlers would cut more pieces. */
export interface EngineTools {
  assertLengths: typeof assertLengths
  assertNotZero: typeof assertNotZero
  DecryptionError: typeof DecryptionError
}

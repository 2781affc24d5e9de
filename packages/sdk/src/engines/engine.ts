/** What every engine does: AES-256-GCM under a DEK. */

/**
 * One implementation of AES-256-GCM. Pure: no network. Answers at once, or by promise; which of the two never changes, so
 * that callers make no promise for each value where the engine makes none.
 */
export interface Engine {
  /** Whether it answers by promise. */
  readonly isAsync?: true
  /**
   * Seals the plaintext under a DEK: ciphertext ‖ tag. The DEK may be wiped as soon as the call returns, and an engine that
   * holds it in a form of its own wipes it: who needs a copy makes it before. The iv must never repeat under one DEK.
   */
  seal(dek: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Uint8Array | Promise<Uint8Array>
  /** Copies a DEK, one whose bytes the engine wiped too; where it is missing, the bytes themselves are the copy. */
  copy?(dek: Uint8Array): Uint8Array
  /** Opens ciphertext ‖ tag; what holds for the DEK in `seal` holds here. @throws OpenError when it is not authentic */
  open(dek: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array | Promise<Uint8Array>
}

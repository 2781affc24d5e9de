/** AES-256-GCM (NIST SP 800-38D) as the protocol uses it. */
import { FormatError } from './bytes.js'

/** Length of every key: a DEK, a KEK, the root key. */
export const KEY_BYTES = 32
/** Length of every iv; SP 800-38D section 8.2.2: 96 random bits. */
export const IV_BYTES = 12
export const TAG_BYTES = 16

/** Thrown when sealed bytes do not open: altered, or for another key or AAD. The error never says which. */
export class OpenError extends Error {
  override readonly name = 'OpenError'
  constructor() {
    super('not authentic: altered, or sealed under another key')
  }
}

/** One implementation of AES-256-GCM. Pure: no network, no state between calls. */
export interface Aead {
  /** Returns ciphertext ‖ tag, `plaintext.length + TAG_BYTES` bytes. The iv must never repeat under one key. */
  seal(key: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Uint8Array
  /** Opens ciphertext ‖ tag. @throws OpenError when it is not authentic, without releasing any plaintext */
  open(key: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array
}

/** Refuses a key of zeros, with which anyone could open: the caller zeroed it before its use. @throws FormatError */
export function assertNotZero(key: Uint8Array): void {
  if (isZero(key)) throw new FormatError('key must not be all zeros: it was zeroed before its use')
}

/** Its time depends only on the number of bytes. */
export function isZero(bytes: Uint8Array): boolean {
  let bits = 0
  for (let at = 0; at < bytes.length; at++) bits |= bytes[at] ?? 0
  return bits === 0
}

export function assertLengths(key: Uint8Array, iv: Uint8Array): void {
  if (key.length !== KEY_BYTES) throw new FormatError(`key must be ${KEY_BYTES} bytes, got ${key.length}`)
  if (iv.length !== IV_BYTES) throw new FormatError(`iv must be ${IV_BYTES} bytes, got ${iv.length}`)
}

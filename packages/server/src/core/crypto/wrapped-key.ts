/** Wraps and unwraps DEKs (wrapped-key.md, wrapped-key-v2.md): the hot path of every call. */
import type { KeyObject } from 'node:crypto'
import { KEY_BYTES, OpenError, readU32, WRAPPED_KEY_V2_FORMAT, writeU32 } from '@eaas/protocol'
import { open, SEAL_OVERHEAD, seal } from './aead.js'

const FORMAT = 0x01
const HEADER_BYTES = 5
const TOKEN_BYTES = HEADER_BYTES + KEY_BYTES + SEAL_OVERHEAD

/** How to wrap a DEK: format 1 with its AAD, or format 2 with an AAD that binds the DEK's use. */
export type Wrapping = { aad: Uint8Array; isBound: boolean }

/** Wraps a DEK under the KEK of a key version: returns the 65 bytes of wrapped-key.md 1. */
export function wrapDek(kek: KeyObject, version: number, { aad, isBound }: Wrapping, dek: Uint8Array): Uint8Array {
  const token = new Uint8Array(TOKEN_BYTES)
  token[0] = isBound ? WRAPPED_KEY_V2_FORMAT : FORMAT
  writeU32(token, 1, version)
  token.set(seal(kek, dek, aad), HEADER_BYTES)
  return token
}

/** The key version that a wrapped key names. @throws OpenError if the bytes are not a wrapped key of the format */
export function wrappedKeyVersion(token: Uint8Array, isBound = false): number {
  if (token.length !== TOKEN_BYTES || token[0] !== (isBound ? WRAPPED_KEY_V2_FORMAT : FORMAT)) throw new OpenError()
  return readU32(token, 1)
}

/** Returns the DEK, which the caller zeroes. @throws OpenError when it is not authentic for this KEK and AAD */
export function unwrapDek(kek: KeyObject, aad: Uint8Array, token: Uint8Array): Uint8Array {
  return open(kek, token.subarray(HEADER_BYTES), aad)
}

/** The wrapped form of a DEK, see wrapped-key.md. */
import type { KeyObject } from 'node:crypto'
import { encodeUtf8, KEY_BYTES, lengthPrefixed, OpenError, uuidBytes } from '@eaas/protocol'
import { open, SEAL_OVERHEAD, seal } from './aead.js'

const FORMAT = 0x01
const HEADER_BYTES = 5
const TOKEN_BYTES = HEADER_BYTES + KEY_BYTES + SEAL_OVERHEAD
const LABEL = encodeUtf8('eaas/wrapped-key/v1')

/** What a wrapped key is bound to besides its KEK (wrapped-key.md 2). Made once a key version: it is on the hot path. */
export function wrappedKeyAad(tenant_id: string, key_id: string, version: number): Uint8Array {
  return lengthPrefixed(LABEL, uuidBytes(tenant_id), uuidBytes(key_id), u32(version))
}

/** Wraps a DEK under the KEK of a key version: returns the 65 bytes of wrapped-key.md 1. */
export function wrapDek(kek: KeyObject, version: number, aad: Uint8Array, dek: Uint8Array): Uint8Array {
  const token = new Uint8Array(TOKEN_BYTES)
  token[0] = FORMAT
  new DataView(token.buffer).setUint32(1, version)
  token.set(seal(kek, dek, aad), HEADER_BYTES)
  return token
}

/** The key version that a wrapped key names. @throws OpenError when the bytes are no wrapped key */
export function wrappedKeyVersion(token: Uint8Array): number {
  if (token.length !== TOKEN_BYTES || token[0] !== FORMAT) throw new OpenError()
  return new DataView(token.buffer, token.byteOffset).getUint32(1)
}

/** Unwraps: returns the DEK, which the caller zeroes. @throws OpenError when it is not authentic for this KEK and AAD */
export function unwrapDek(kek: KeyObject, aad: Uint8Array, token: Uint8Array): Uint8Array {
  return open(kek, token.subarray(HEADER_BYTES), aad)
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value)
  return bytes
}

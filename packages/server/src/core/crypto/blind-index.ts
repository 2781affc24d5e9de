/** The blind index of a value, and the secret with which a client makes its own (blind-index.md). */
import { createHmac, type KeyObject } from 'node:crypto'
import { indexSecretInfo, KEY_BYTES } from '@eaas/protocol'
import { hmacHex } from './hmac.js'

/** The index of a well-formed string under a key's hash key: 64 hexadecimal digits (blind-index.md 1). */
export function blindIndex(hashKey: KeyObject, value: string): string {
  return hmacHex(hashKey, value)
}

const NO_SALT = new Uint8Array(KEY_BYTES)
const FIRST_BLOCK = Uint8Array.of(1)

/**
 * The index secret of a name under a key's hash key: 32 bytes, which the caller zeroes (blind-index.md 4). Does the two
 * steps of HKDF itself, because `hkdf` of node:crypto takes no name of more than 1,000 bytes.
 */
export function deriveIndexSecret(hashKey: KeyObject, name: string): Uint8Array {
  const input = hashKey.export()
  const key = createHmac('sha256', NO_SALT).update(input).digest()
  try {
    return createHmac('sha256', key).update(indexSecretInfo(name)).update(FIRST_BLOCK).digest()
  } finally {
    input.fill(0)
    key.fill(0)
  }
}

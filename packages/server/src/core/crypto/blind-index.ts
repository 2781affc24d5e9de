/** The blind index of a value, see blind-index.md. */
import type { KeyObject } from 'node:crypto'
import { hmacHex } from './hmac.js'

/** The index of a well-formed string under a key's hash key: 64 hexadecimal digits (blind-index.md 1). */
export function blindIndex(hashKey: KeyObject, value: string): string {
  return hmacHex(hashKey, value)
}

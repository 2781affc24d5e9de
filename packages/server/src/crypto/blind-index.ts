/** The blind index of a value, see blind-index.md. */
import { createHmac, type KeyObject } from 'node:crypto'

/** The index of a well-formed string under a key's hash key: 64 hexadecimal digits (blind-index.md 1). */
export function blindIndex(hashKey: KeyObject, value: string): string {
  return createHmac('sha256', hashKey).update(value, 'utf8').digest('hex')
}

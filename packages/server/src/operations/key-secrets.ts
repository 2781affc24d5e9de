/** New secrets of keys and tenants, sealed as they are made. */
import type { KeyObject } from 'node:crypto'
import { randomKey } from '../crypto/aead.js'
import { type SecretPlace, sealSecret } from '../crypto/key-hierarchy.js'

/** Draws 32 random bytes and returns them sealed for their place; the bytes themselves are zeroed. */
export function sealNewSecret(rootKey: KeyObject, place: SecretPlace): Uint8Array {
  const secret = randomKey()
  try {
    return sealSecret(rootKey, place, secret)
  } finally {
    secret.fill(0)
  }
}

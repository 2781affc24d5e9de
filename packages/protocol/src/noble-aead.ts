/** noble's AES-256-GCM, the reference for other engines. Separate from `aead.ts`, so that they do not load it. */
import { gcm } from '@noble/ciphers/aes.js'
import { type Aead, assertLengths, OpenError } from './aead.js'

export const nobleAead: Aead = {
  seal(key, iv, plaintext, aad) {
    assertLengths(key, iv)
    return gcm(key, iv, aad).encrypt(plaintext)
  },
  open(key, iv, sealed, aad) {
    assertLengths(key, iv)
    try {
      return gcm(key, iv, aad).decrypt(sealed)
    } catch {
      throw new OpenError() // noble's errors distinguish a short input from a bad tag; ours must not
    }
  },
}

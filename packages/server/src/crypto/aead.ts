/** AES-256-GCM by node:crypto, over cached KeyObjects, with a new random iv before each sealed value. */
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomFillSync } from 'node:crypto'
import { IV_BYTES, KEY_BYTES, OpenError, TAG_BYTES } from '@eaas/protocol'

const CIPHER = 'aes-256-gcm'
const WITH_TAG = { authTagLength: TAG_BYTES }
const POOLED_IVS = 512

/** The bytes that sealing adds: the iv before and the tag after the ciphertext. */
export const SEAL_OVERHEAD = IV_BYTES + TAG_BYTES

/** Creates a KeyObject from a 32-byte key and zeroes the bytes: from then on the key is kept outside the JavaScript heap. */
export function importKey(secret: Uint8Array): KeyObject {
  if (secret.length !== KEY_BYTES) throw new Error(`a key must be ${KEY_BYTES} bytes, got ${secret.length}`)
  const key = createSecretKey(secret)
  secret.fill(0)
  return key
}

/** 32 random bytes. */
export function randomKey(): Uint8Array {
  return randomFillSync(new Uint8Array(KEY_BYTES))
}

/** Seals: returns iv ‖ ciphertext ‖ tag. */
export function seal(key: KeyObject | Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Uint8Array {
  const sealed = new Uint8Array(plaintext.length + SEAL_OVERHEAD)
  const iv = nextIv()
  const cipher = createCipheriv(CIPHER, key, iv)
  if (aad) cipher.setAAD(aad)
  sealed.set(iv)
  sealed.set(cipher.update(plaintext), IV_BYTES)
  cipher.final() // GCM is a stream mode: final() yields no bytes
  sealed.set(cipher.getAuthTag(), sealed.length - TAG_BYTES)
  return sealed
}

/** Opens iv ‖ ciphertext ‖ tag. @throws OpenError if it is not authentic; no plaintext is returned then */
export function open(key: KeyObject | Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array {
  if (sealed.length < SEAL_OVERHEAD) throw new OpenError()
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, IV_BYTES), WITH_TAG)
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
  if (aad) decipher.setAAD(aad)
  const plaintext = decipher.update(sealed.subarray(IV_BYTES, sealed.length - TAG_BYTES))
  try {
    decipher.final()
  } catch {
    plaintext.fill(0)
    throw new OpenError() // one error for every cause
  }
  return new Uint8Array(plaintext.buffer, plaintext.byteOffset, plaintext.length)
}

// Reading random bytes from the kernel costs about 2 µs, so 512 ivs are drawn at a time. Each is used once and then overwritten.
const pool = new Uint8Array(IV_BYTES * POOLED_IVS)
let used = pool.length

function nextIv(): Uint8Array {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const iv = pool.slice(used, used + IV_BYTES)
  pool.fill(0, used, used + IV_BYTES)
  used += IV_BYTES
  return iv
}

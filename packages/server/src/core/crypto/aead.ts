/** AES-256-GCM by node:crypto. A sealed value begins with its iv, which depends on the value (key-hierarchy.md 6). */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomFillSync,
} from 'node:crypto'
import { IV_BYTES, KEY_BYTES, OpenError, TAG_BYTES, writeU32 } from '@eaas/protocol'
import { hmac } from './hmac.js'

const CIPHER = 'aes-256-gcm'
const WITH_TAG = { authTagLength: TAG_BYTES }
const IV_RANDOM_BYTES = 16
const LENGTH_BYTES = 4
const IV_KEY_LABEL = 'eaas/iv-key/v1'
const NO_AAD = new Uint8Array(0)

const ivKeys = new WeakMap<KeyObject, KeyObject>()

/** The bytes that sealing adds: the iv before and the tag after the ciphertext. */
export const SEAL_OVERHEAD = IV_BYTES + TAG_BYTES

/** Creates a KeyObject from a 32-byte key, which is then kept outside the JavaScript heap, and zeroes the bytes. */
export function importKey(secret: Uint8Array): KeyObject {
  if (secret.length !== KEY_BYTES) throw new Error(`a key must be ${KEY_BYTES} bytes, got ${secret.length}`)
  const key = createSecretKey(secret)
  secret.fill(0)
  return key
}

export function randomKey(): Uint8Array {
  return randomFillSync(new Uint8Array(KEY_BYTES))
}

/** Seals: returns iv ‖ ciphertext ‖ tag. */
export function seal(key: KeyObject | Uint8Array, plaintext: Uint8Array, aad: Uint8Array = NO_AAD): Uint8Array {
  const sealed = new Uint8Array(plaintext.length + SEAL_OVERHEAD)
  const ivKey = ivKeyOf(key)
  const iv = makeIv(ivKey, { random: randomFillSync(new Uint8Array(IV_RANDOM_BYTES)), aad, plaintext })
  if (ivKey instanceof Uint8Array) ivKey.fill(0)
  const cipher = createCipheriv(CIPHER, key, iv)
  if (aad.length > 0) cipher.setAAD(aad)
  sealed.set(iv)
  sealed.set(cipher.update(plaintext), IV_BYTES)
  cipher.final() // GCM is a stream mode: final() yields no bytes
  sealed.set(cipher.getAuthTag(), sealed.length - TAG_BYTES)
  return sealed
}

/** Opens iv ‖ ciphertext ‖ tag. @throws OpenError if it is not authentic */
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

/** Makes different ivs for different plaintexts or AADs even if `random` repeats, as in a machine restored from a snapshot. */
export function makeIv(
  ivKey: KeyObject | Uint8Array,
  { random, aad, plaintext }: Record<'random' | 'aad' | 'plaintext', Uint8Array>,
): Uint8Array {
  const length = new Uint8Array(LENGTH_BYTES)
  writeU32(length, 0, aad.length)
  return hmac(ivKey, random, length, aad, plaintext).subarray(0, IV_BYTES)
}

/**
 * The key that makes the ivs under a sealing key (key-hierarchy.md 4). For the bytes of a DEK that is used once, the
 * result is bytes as well, which the caller zeroes: creating a KeyObject costs more than the seal.
 */
export function ivKeyOf(key: KeyObject | Uint8Array): KeyObject | Uint8Array {
  if (key instanceof Uint8Array) return hmac(key, IV_KEY_LABEL)
  let ivKey = ivKeys.get(key)
  if (!ivKey) {
    ivKey = importKey(createHmac('sha256', key).update(IV_KEY_LABEL).digest()) // keeps the key itself outside the heap
    ivKeys.set(key, ivKey)
  }
  return ivKey
}

/** AES-256-GCM, HKDF and HMAC with node:crypto, several times as fast as JavaScript. Loaded only where it is used. */
import type * as NodeCrypto from 'node:crypto'
import type { EngineTools, SyncEngine } from './engine.js'

const CIPHER = 'aes-256-gcm'
const TAG_BYTES = 16
const TAG_LENGTH = { authTagLength: TAG_BYTES }
/** How many bytes are sealed at a time. Each result is new memory, whose first use costs more than the cipher. */
const PIECE_BYTES = 65_536
/** V8 keeps arrays of up to this many bytes in its heap, from where node:crypto would move each for itself. */
const SMALL_BYTES = 64
const IV_BYTES = 12

/** Makes the engine. If node:crypto lacks some of its functions, it fails the known-answer test. */
export function createNodeEngine(
  crypto: typeof NodeCrypto,
  { assertLengths, assertNotZero, DecryptionError }: EngineTools,
): SyncEngine {
  /** Copies outside V8's heap, by the key's array. */
  const imported = new WeakMap<Uint8Array, NodeCrypto.KeyObject>()
  const importOnce = (key: Uint8Array) => {
    assertNotZero(key)
    const known = imported.get(key)
    if (known) return known
    const made = crypto.createSecretKey(key)
    imported.set(key, made)
    return made
  }
  const outside = new Uint8Array(new ArrayBuffer(SMALL_BYTES))
  const ivOutside = new Uint8Array(new ArrayBuffer(IV_BYTES))
  return {
    seal(key, iv, plaintext, aad) {
      assertLengths(key, iv)
      ivOutside.set(iv)
      const cipher = crypto.createCipheriv(CIPHER, importOnce(key), ivOutside, TAG_LENGTH)
      if (aad) cipher.setAAD(aad)
      const sealed = new Uint8Array(plaintext.length + TAG_BYTES)
      for (let at = 0; at < plaintext.length; at += PIECE_BYTES) {
        const piece = plaintext.length > PIECE_BYTES ? plaintext.subarray(at, at + PIECE_BYTES) : plaintext // a view of a short one takes 5 % longer
        sealed.set(cipher.update(piece), at)
      }
      cipher.final() // returns no bytes: GCM holds none back
      sealed.set(cipher.getAuthTag(), plaintext.length)
      return sealed
    },
    derive(key, info, length, salt = new Uint8Array(0)) {
      return new Uint8Array(crypto.hkdfSync('sha256', importOnce(key), salt, info, length))
    },
    createMac(key) {
      const kept = importOnce(key)
      return (message) => new Uint8Array(crypto.createHmac('sha256', kept).update(message).digest())
    },
    open(key, iv, sealed, aad) {
      assertLengths(key, iv)
      if (sealed.length < TAG_BYTES) throw new DecryptionError()
      const end = sealed.length - TAG_BYTES
      ivOutside.set(iv)
      const decipher = crypto.createDecipheriv(CIPHER, importOnce(key), ivOutside, TAG_LENGTH)
      if (sealed.length <= SMALL_BYTES) outside.set(sealed)
      const source = sealed.length <= SMALL_BYTES ? outside : sealed
      decipher.setAuthTag(source.subarray(end, sealed.length))
      if (aad) decipher.setAAD(aad)
      const plaintext = decipher.update(source.subarray(0, end))
      try {
        decipher.final()
      } catch {
        plaintext.fill(0) // the data is not authentic
        throw new DecryptionError()
      }
      return new Uint8Array(plaintext.buffer, plaintext.byteOffset, plaintext.length)
    },
  }
}

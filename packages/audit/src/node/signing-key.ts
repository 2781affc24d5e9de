/** The Ed25519 key (RFC 8032) that signs checkpoints, stored as its 32-byte seed, sealed under the root key. */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { concatBytes, decodeHex } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'

/** RFC 8410: the bytes before the 32 bytes of an Ed25519 seed in PKCS #8. */
const PKCS8_PREFIX = decodeHex('302e020100300506032b657004220420')

/** RFC 8410: in SubjectPublicKeyInfo, the number of bytes before the 32 of a public key. */
const SPKI_PREFIX_BYTES = 12

export function signerOf(key: KeyObject): SigningKey {
  const publicKey = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX_BYTES)
  return { publicKey, sign: (message) => sign(null, message, key) }
}

export function signingKeyOf(seed: KeyObject): SigningKey {
  const bytes = seed.export()
  const der = Buffer.from(concatBytes(PKCS8_PREFIX, bytes))
  try {
    return signerOf(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }))
  } finally {
    bytes.fill(0)
    der.fill(0)
  }
}

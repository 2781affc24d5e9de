/**
 * SHA-256 and Ed25519 for the formats: from node:crypto where the platform has it, otherwise from noble. Node hashes an
 * entry in a sixth of noble's time. It is reached through globalThis, so that no module of Node is imported here.
 */
// Noble, or an empty module on Node (`imports` in package.json), where loading noble would take each command 30 ms.

import { sha256 as nobleSha256 } from '@noble/hashes/sha2.js'
import { ed25519 } from '#ed25519'

/** Named as in the server, so that both verifiers read alike. */
export { equalInConstantTime as equalBytes } from '@eaas/protocol'

interface NodeCrypto {
  hash?(algorithm: 'sha256', bytes: Uint8Array, encoding: 'binary'): string
  createPublicKey(options: { key: Uint8Array; format: 'der'; type: 'spki' }): unknown
  verify(algorithm: null, message: Uint8Array, key: unknown, signature: Uint8Array): boolean
}

interface Platform {
  process?: { getBuiltinModule?(id: string): unknown }
  Buffer?: { from(text: string, encoding: 'binary'): Uint8Array; from(bytes: Uint8Array): Uint8Array }
}

/** RFC 8410: the bytes before the 32 bytes of an Ed25519 public key in SubjectPublicKeyInfo. */
const SPKI_PREFIX = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
const platform = globalThis as Platform
const nodeBuffer = platform.Buffer
const node = platform.process?.getBuiltinModule?.('node:crypto') as NodeCrypto | undefined

export interface SigningKey {
  /** 32 bytes */
  readonly publicKey: Uint8Array
  /** Signs a message (RFC 8032). Returns 64 bytes. */
  sign(message: Uint8Array): Uint8Array
}

// Copying Node's binary text into its buffer pool costs a third of what allocating a buffer costs.
export const sha256: (bytes: Uint8Array) => Uint8Array =
  node?.hash && nodeBuffer
    ? (bytes) => nodeBuffer.from((node as Required<NodeCrypto>).hash('sha256', bytes, 'binary'), 'binary')
    : (bytes) => nobleSha256(bytes)

/** Whether the key signed the message (RFC 8032). False if the key or the signature has the wrong length. */
export function verifySignature(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== 32 || signature.length !== 64) return false
  if (!node || !nodeBuffer) return ed25519.verify(signature, message, key, { zip215: false })
  const spki = nodeBuffer.from(Uint8Array.of(...SPKI_PREFIX, ...key))
  return node.verify(null, message, node.createPublicKey({ key: spki, format: 'der', type: 'spki' }), signature)
}

/**
 * HMAC-SHA-256 (RFC 2104) of short messages, by two one-shot digests. An `Hmac` of node:crypto allocates an
 * object outside the heap for each call, which costs more than authenticating a short message.
 */
import { createHmac, hash, type KeyObject } from 'node:crypto'

const ALGORITHM = 'sha256'
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
const SHORT_BYTES = 4_096
const MOST_BYTES_A_CHARACTER = 3

/** A key under each of the two pads. */
interface PaddedKey {
  inner: Uint8Array
  outer: Uint8Array
}

const paddedKeys = new WeakMap<KeyObject, PaddedKey>()

// The input of each digest is assembled here, and zeroed afterwards: buffers of Node's pool would keep their
// content.
const innerBlock = Buffer.allocUnsafeSlow(BLOCK_BYTES + SHORT_BYTES)
const outerBlock = Buffer.allocUnsafeSlow(BLOCK_BYTES + DIGEST_BYTES)

/** Bytes, or a text, of which the UTF-8 form is meant. */
type Part = Uint8Array | string

/** HMAC-SHA-256 of a message, which may come in parts, in hexadecimal. */
export function hmacHex(key: KeyObject, ...message: readonly Part[]): string {
  return authenticate(key, message, 'hex')
}

/** HMAC-SHA-256 of a message, which may come in parts: 32 bytes. */
export function hmac(key: KeyObject, ...message: readonly Part[]): Uint8Array {
  return Buffer.from(authenticate(key, message, 'binary'), 'binary')
}

function authenticate(key: KeyObject, message: readonly Part[], encoding: 'hex' | 'binary'): string {
  let most = 0
  for (const part of message) most += mostBytes(part)
  if (most > SHORT_BYTES) return authenticateLong(key, message, encoding)
  const { inner, outer } = paddedKey(key)
  innerBlock.set(inner)
  let end = BLOCK_BYTES
  for (const part of message) end += put(part, end)
  outerBlock.set(outer)
  outerBlock.write(hash(ALGORITHM, innerBlock.subarray(0, end), 'binary'), BLOCK_BYTES, 'binary')
  const mac = hash(ALGORITHM, outerBlock, encoding)
  innerBlock.fill(0, 0, end)
  outerBlock.fill(0)
  return mac
}

function authenticateLong(key: KeyObject, message: readonly Part[], encoding: 'hex' | 'binary'): string {
  const made = createHmac(ALGORITHM, key)
  for (const part of message) made.update(part)
  return made.digest().toString(encoding)
}

function mostBytes(part: Part): number {
  return typeof part === 'string' ? MOST_BYTES_A_CHARACTER * part.length : part.length
}

function put(part: Part, at: number): number {
  if (typeof part === 'string') return innerBlock.write(part, at)
  innerBlock.set(part, at)
  return part.length
}

// All keys here have 32 bytes; RFC 2104 digests only keys that are longer than a block first.
function paddedKey(key: KeyObject): PaddedKey {
  const known = paddedKeys.get(key)
  if (known) return known
  const secret = key.export()
  if (secret.length > BLOCK_BYTES) throw new Error(`a key must be at most ${BLOCK_BYTES} bytes, got ${secret.length}`)
  const padded = { inner: xor(secret, 0x36), outer: xor(secret, 0x5c) }
  secret.fill(0)
  paddedKeys.set(key, padded)
  return padded
}

function xor(secret: Uint8Array, pad: number): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES).fill(pad)
  secret.forEach((byte, at) => {
    block[at] = byte ^ pad
  })
  return block
}

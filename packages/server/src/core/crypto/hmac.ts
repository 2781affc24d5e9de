/**
 * HMAC-SHA-256 (RFC 2104) by two one-shot digests. For each `Hmac`, node:crypto allocates an object outside the heap,
 * which costs more than authenticating a short message.
 */
import { createHmac, hash, type KeyObject } from 'node:crypto'

const ALGORITHM = 'sha256'
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
const SHORT_BYTES = 4_096
const MOST_BYTES_A_CHARACTER = 3
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

type PaddedKey = Record<'inner' | 'outer', Uint8Array>
const paddedKeys = new WeakMap<KeyObject, PaddedKey>()

// The input of each digest is assembled here, and zeroed afterwards: Node's pool would keep it.
const innerBlock = Buffer.allocUnsafeSlow(BLOCK_BYTES + SHORT_BYTES)
const outerBlock = Buffer.allocUnsafeSlow(BLOCK_BYTES + DIGEST_BYTES)

/** Bytes, or a text that stands for its UTF-8 bytes. */
type Part = Uint8Array | string
/** A key that is kept as a KeyObject, or the bytes of a key that is used once. */
type Key = KeyObject | Uint8Array

/** HMAC-SHA-256, in hexadecimal, of a message that may come in parts. */
export function hmacHex(key: KeyObject, ...message: readonly Part[]): string {
  return authenticate(key, message, 'hex')
}

/** As `hmacHex`, as 32 bytes with memory of their own: a Buffer of Node's pool that is kept with a row would keep 8 KiB. */
export function hmac(key: Key, ...message: readonly Part[]): Uint8Array {
  const mac = Buffer.allocUnsafeSlow(DIGEST_BYTES)
  mac.write(authenticate(key, message, 'binary'), 'binary')
  return mac
}

function authenticate(key: Key, message: readonly Part[], encoding: 'hex' | 'binary'): string {
  let most = 0
  for (const part of message) most += typeof part === 'string' ? MOST_BYTES_A_CHARACTER * part.length : part.length
  if (most > SHORT_BYTES) {
    const long = createHmac(ALGORITHM, key)
    for (const part of message) long.update(part)
    return long.digest(encoding)
  }
  putKey(key)
  let end = BLOCK_BYTES
  for (const part of message) end += put(part, end)
  outerBlock.write(hash(ALGORITHM, innerBlock.subarray(0, end), 'binary'), BLOCK_BYTES, 'binary')
  const mac = hash(ALGORITHM, outerBlock, encoding)
  innerBlock.fill(0, 0, end)
  outerBlock.fill(0)
  return mac
}

function put(part: Part, at: number): number {
  if (typeof part === 'string') return innerBlock.write(part, at)
  innerBlock.set(part, at)
  return part.length
}

function putKey(key: Key): void {
  if (key instanceof Uint8Array) {
    pad(key, innerBlock, outerBlock)
    return
  }
  const { inner, outer } = paddedKeys.get(key) ?? padKey(key)
  innerBlock.set(inner)
  outerBlock.set(outer)
}

function padKey(key: KeyObject): PaddedKey {
  const padded = { inner: new Uint8Array(BLOCK_BYTES), outer: new Uint8Array(BLOCK_BYTES) }
  const secret = key.export()
  pad(secret, padded.inner, padded.outer)
  secret.fill(0)
  paddedKeys.set(key, padded)
  return padded
}

// All keys here have 32 bytes. RFC 2104 digests a key first only if it is longer than a block.
function pad(secret: Uint8Array, inner: Uint8Array, outer: Uint8Array): void {
  if (secret.length > BLOCK_BYTES) throw new Error(`a key must be at most ${BLOCK_BYTES} bytes, got ${secret.length}`)
  inner.fill(INNER_PAD, 0, BLOCK_BYTES)
  outer.fill(OUTER_PAD, 0, BLOCK_BYTES)
  secret.forEach((value, at) => {
    inner[at] = value ^ INNER_PAD
    outer[at] = value ^ OUTER_PAD
  })
}

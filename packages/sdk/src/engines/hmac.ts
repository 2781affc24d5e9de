/** HMAC-SHA-256 by WebCrypto, which Node has too. */
import { assertNotZero } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'

/** Returns the 32 bytes of a MAC under one key. */
export type Hmac = (bytes: Uint8Array) => Promise<Uint8Array>

/**
 * Imports the key into WebCrypto and zeroes its bytes. @throws InvalidInputError where there is no WebCrypto, as on
 * pages without TLS
 */
export function createHmac(key: Uint8Array): Hmac {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (subtle) return createHmacBy(subtle, key)
  const message = 'blind indexes need WebCrypto, which is missing here'
  throw new InvalidInputError(message, 'Run in Node, or on a page served over TLS.')
}

/** As `createHmac`, with the WebCrypto that the caller has found. */
export function createHmacBy(subtle: SubtleCrypto, key: Uint8Array): Hmac {
  assertNotZero(key)
  // importKey copies the bytes before it returns.
  const imported = subtle.importKey('raw', key as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  key.fill(0)
  return async (bytes) => new Uint8Array(await subtle.sign('HMAC', await imported, bytes as BufferSource))
}

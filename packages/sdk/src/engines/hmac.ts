/** HMAC-SHA-256 by WebCrypto, which Node has too. */
import { InvalidInputError } from '../errors.js'

/** Returns the 32 bytes of a MAC under one key. */
export type Hmac = (bytes: Uint8Array) => Promise<Uint8Array>

/** Imports the key and zeroes its bytes. @throws InvalidInputError where there is no WebCrypto, as on pages without TLS */
export function createHmac(key: Uint8Array): Hmac {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (!subtle) {
    const message = 'blind indexes need WebCrypto, which is missing here'
    throw new InvalidInputError(message, 'Run in Node, or on a page served over TLS.')
  }
  // importKey copies the bytes before it returns.
  const imported = subtle.importKey('raw', key as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  key.fill(0)
  return async (bytes) => new Uint8Array(await subtle.sign('HMAC', await imported, bytes as BufferSource))
}

/** HMAC-SHA-256 by WebCrypto, which Node has too: for blind indexes made offline. */
import { InvalidInputError } from '../errors.js'

/** Makes MACs of texts under one key. The key's bytes are wiped once they are imported. */
export type Hmac = (bytes: Uint8Array) => Promise<Uint8Array>

/** Makes the function. @throws InvalidInputError where there is no WebCrypto, as on pages without TLS */
export function createHmac(key: Uint8Array): Hmac {
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle
  if (!subtle) {
    const message = 'there is no WebCrypto here to make blind indexes with'
    throw new InvalidInputError(message, 'Run in Node, or on a page with TLS.')
  }
  // importKey copies the bytes before it returns.
  const imported = subtle.importKey('raw', key as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  key.fill(0)
  return async (bytes) => new Uint8Array(await subtle.sign('HMAC', await imported, bytes as BufferSource))
}

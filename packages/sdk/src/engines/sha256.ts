/** SHA-256 by WebCrypto, which Node has too. */

/** The 32 bytes of the hash. Rejects where there is no WebCrypto, as on pages without TLS. */
export async function sha256(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', bytes as BufferSource))
}

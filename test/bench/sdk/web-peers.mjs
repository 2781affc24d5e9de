// Another way to do the same that runs in pages too: text in, text that can be stored out, and back, with a key that is there.
import { CompactEncrypt, compactDecrypt } from 'jose'

/** jose: a compact JWE, direct key, A256GCM. */
export async function josePeer() {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  const key = await crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  return {
    encrypt: (value) =>
      new CompactEncrypt(encoder.encode(value)).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(key),
    decrypt: async (sealed) => decoder.decode((await compactDecrypt(sealed, key)).plaintext),
  }
}

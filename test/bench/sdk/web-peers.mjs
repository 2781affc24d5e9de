// Other ways to do the same that run in pages too: text in, text that can be stored out, and back, with a key that is there.
import { Decrypter, Encrypter, generateIdentity, identityToRecipient } from 'age-encryption'
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

/** age: to one X25519 recipient; base64 to store it as text. */
export async function agePeer() {
  const identity = await generateIdentity()
  const encrypter = new Encrypter()
  encrypter.addRecipient(await identityToRecipient(identity))
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  return {
    encrypt: async (value) => toBase64(await encrypter.encrypt(value)),
    decrypt: (sealed) => decrypter.decrypt(fromBase64(sealed), 'text'),
  }
}

const { Buffer } = globalThis

function toBase64(bytes) {
  if (Buffer) return Buffer.from(bytes).toString('base64')
  let text = ''
  for (let at = 0; at < bytes.length; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192))
  return btoa(text)
}

function fromBase64(text) {
  return Buffer ? Buffer.from(text, 'base64') : Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** The primitives of the engine in JavaScript. A file of its own, without imports of ours, so that bundlers load it only where it is used. */
export { gcm } from '@noble/ciphers/aes.js'
export { hkdf } from '@noble/hashes/hkdf.js'
export { hmac } from '@noble/hashes/hmac.js'
export { sha256 } from '@noble/hashes/sha2.js'

/** The primitives of the engine in JavaScript. A file of its own, without imports of ours, so that bundlers load it only where it is used. */
export { gcm } from '@noble/ciphers/aes.js'
export { hkdfSha256 } from './hkdf.js'

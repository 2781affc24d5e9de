// Other ways to do the same in Node: text in, text that can be stored out, and back, with a key that is there already.
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** @47ng/cloak: its synchronous functions with a parsed key, the fastest that it has. */
export function cloakPeer() {
  const { decryptStringSync, encryptStringSync, generateKey, parseKeySync } = require('@47ng/cloak')
  const key = parseKeySync(generateKey())
  return { encrypt: (value) => encryptStringSync(value, key), decrypt: (sealed) => decryptStringSync(sealed, key) }
}

/** ciphersweet-js with the faster of its back ends, AES-CTR with HMAC-SHA-384. */
export function ciphersweetPeer() {
  const library = require('ciphersweet-js')
  const engine = new library.CipherSweet(
    new library.StringProvider(randomBytes(32).toString('hex')),
    new library.FIPSCrypto(),
  )
  const field = new library.EncryptedField(engine, 'users', 'email')
  return {
    encrypt: (value) => field.encryptValue(value),
    decrypt: async (sealed) => (await field.decryptValue(sealed)).toString(),
  }
}

/** @aws-crypto/client-node: a raw AES keyring behind a caching CMM, committed keys, no signature; base64 to store it as text. */
export function awsPeer() {
  const library = require('@aws-crypto/client-node')
  const { encrypt, decrypt } = library.buildClient(library.CommitmentPolicy.REQUIRE_ENCRYPT_REQUIRE_DECRYPT)
  const backingMaterials = new library.RawAesKeyringNode({
    keyName: 'bench',
    keyNamespace: 'bench',
    unencryptedMasterKey: new Uint8Array(randomBytes(32)),
    wrappingSuite: library.RawAesWrappingSuiteIdentifier.AES256_GCM_IV12_TAG16_NO_PADDING,
  })
  const cmm = new library.NodeCachingMaterialsManager({
    backingMaterials,
    cache: library.getLocalCryptographicMaterialsCache(100),
    maxAge: 3_600_000,
    maxMessagesEncrypted: 2 ** 31,
  })
  const suiteId = library.AlgorithmSuiteIdentifier.ALG_AES256_GCM_IV12_TAG16_HKDF_SHA512_COMMIT_KEY
  return {
    encrypt: async (value) =>
      (await encrypt(cmm, value, { suiteId, plaintextLength: Buffer.byteLength(value) })).result.toString('base64'),
    decrypt: async (sealed) => (await decrypt(cmm, Buffer.from(sealed, 'base64'))).plaintext.toString(),
  }
}

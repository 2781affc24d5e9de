/** decrypt: server mode. Opens what either mode sealed in envelope format v1. */
import { concatBytes, decodeBase64, decodeUtf8, encodeBase64, FormatError, OpenError, type wire } from '@eaas/protocol'
import { open } from '../crypto/aead.js'
import { getKeyIn, OPENING_STATES } from './open-key.js'
import type { Operation } from './operation.js'
import { Refusal } from './refusal.js'
import { openWrappedKey } from './unwrap.js'

/** Decrypts. @throws Refusal E_NOT_FOUND, E_STATE, E_WRAPPED_KEY, E_DECRYPTION_FAILED */
export function decrypt({
  ciphertext,
  wrapped_key,
  iv,
  key_id,
  key_version,
  encoding = 'utf8',
}: wire.Decrypt): Operation<wire.Decrypted> {
  return async ({ state }) => {
    const key = await getKeyIn(state, key_id, { states: OPENING_STATES, to: 'decrypt' })
    const { dek, version } = openWrappedKey(key, wrapped_key)
    let bytes: Uint8Array
    try {
      if (version !== key_version) throw new OpenError()
      bytes = open(dek, concatBytes(decodeBase64(iv), decodeBase64(ciphertext)))
    } catch (error) {
      if (!(error instanceof OpenError)) throw error
      throw new Refusal('E_DECRYPTION_FAILED', 'the ciphertext is not authentic: altered, or sealed under another key')
    } finally {
      dek.fill(0)
    }
    const plaintext = writePlaintext(bytes, encoding)
    return {
      entries: [{ action: 'decrypt', key_id, key_version: version }],
      release: () => ({ plaintext }),
      secrets: [bytes],
    }
  }
}

function writePlaintext(bytes: Uint8Array, encoding: 'utf8' | 'base64'): string {
  try {
    return encoding === 'utf8' ? decodeUtf8(bytes) : encodeBase64(bytes)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    bytes.fill(0)
    throw new Refusal('E_DECRYPTION_FAILED', 'the plaintext is not UTF-8 text; ask for its bytes with encoding: base64')
  }
}

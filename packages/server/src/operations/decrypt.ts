/** decrypt: server mode. Decrypts envelopes of format v1, whichever mode made them. */
import {
  concatBytes,
  DETAILS,
  decodeBase64,
  decodeUtf8,
  encodeBase64,
  FormatError,
  OpenError,
  type wire,
} from '@eaas/protocol'
import { open } from '../crypto/aead.js'
import type { OpenKey } from '../runner/load-key.js'
import type { Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { tryWrappedKey } from './shared/key-rows.js'
import { decideWithKey } from './shared/require-key-state.js'

/** Decrypts. @throws Refusal E_NOT_FOUND, E_STATE, E_DECRYPTION_FAILED */
export function decrypt({ key_id, encoding, ...sealed }: wire.Decrypt): Operation<wire.Decrypted> {
  return ({ state }) =>
    decideWithKey({ state, key_id, call: 'decrypt' }, (key) => {
      const bytes = openBundle(key, sealed)
      const plaintext = writePlaintext(bytes, encoding ?? state.tenant.plaintext_encoding)
      return {
        entries: [{ action: 'decrypt', key_id, key_version: sealed.key_version }],
        release: () => ({ plaintext }),
        secrets: [bytes],
      }
    })
}

// The answer is the same whatever failed, the wrapped key included, so it never shows which part was altered.
function openBundle(
  key: OpenKey,
  { wrapped_key, key_version, iv, ciphertext }: Omit<wire.Decrypt, 'key_id' | 'encoding'>,
): Uint8Array {
  const opened = tryWrappedKey(key, wrapped_key)
  try {
    if (opened?.version !== key_version) throw new OpenError()
    return open(opened.dek, concatBytes(decodeBase64(iv), decodeBase64(ciphertext)))
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.ciphertext)
  } finally {
    opened?.dek.fill(0)
  }
}

function writePlaintext(bytes: Uint8Array, encoding: wire.PlaintextEncoding): string {
  try {
    return encoding === 'utf8' ? decodeUtf8(bytes) : encodeBase64(bytes)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    bytes.fill(0)
    throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.text)
  }
}

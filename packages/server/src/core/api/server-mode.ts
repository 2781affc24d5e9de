/**
 * Server mode: the server sees the plaintext. Each encrypt uses a DEK of its own and returns an envelope of format v1,
 * which the SDK can open locally. Decrypt opens such envelopes, whichever mode made them.
 */
import {
  concatBytes,
  DETAILS,
  decodeBase64,
  decodeUtf8,
  encodeBase64,
  encodeUtf8,
  FormatError,
  IV_BYTES,
  MAX_SERVER_MODE_BYTES,
  OpenError,
  type wire,
} from '@eaas/protocol'
import { open, randomKey, seal } from '../crypto/aead.js'
import { wrapDek } from '../crypto/wrapped-key.js'
import { assertBudget } from '../runner/budgets.js'
import type { OpenKey } from '../runner/load-key.js'
import type { Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { decideWithKey, getKeyInState, tryWrappedKey, wrappingFor, wrappingVersion } from './key-use.js'
import { bindRoutes } from './route.js'

export const serverModeRoutes = bindRoutes({
  encrypt: {
    summary: 'Encrypt on the server',
    problems: ['E_PLAINTEXT_TOO_LARGE', 'E_LIMIT', 'E_QUOTA_EXCEEDED'],
    action: 'encrypt',
    operation: ({ body }) => encrypt(body),
  },
  decrypt: {
    summary: 'Decrypt on the server',
    problems: ['E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_BUDGET', 'E_DECRYPTION_FAILED'],
    action: 'decrypt',
    operation: ({ body }) => decrypt(body),
  },
})

function encrypt({ plaintext, key_id, encoding }: wire.Encrypt): Operation<wire.Bundle> {
  return async ({ state, services, quotaLeft }) => {
    const { plaintext_encoding, monthly_encrypt_quota } = state.tenant
    const bytes = (encoding ?? plaintext_encoding) === 'utf8' ? encodeUtf8(plaintext) : readBase64(plaintext)
    try {
      if (bytes.length > MAX_SERVER_MODE_BYTES)
        throw new Refusal('E_PLAINTEXT_TOO_LARGE', DETAILS.E_PLAINTEXT_TOO_LARGE.plaintext(bytes.length))
      const key = await getKeyInState(state, key_id, 'encrypt')
      if (quotaLeft < 1) throw new Refusal('E_QUOTA_EXCEEDED', DETAILS.E_QUOTA_EXCEEDED.encrypt(monthly_encrypt_quota))
      const version = wrappingVersion(key, services)
      const { version: key_version } = version.row
      const dek = randomKey()
      const sealed = seal(dek, bytes)
      const wrapped = wrapDek(version.kek, key_version, wrappingFor(version, undefined), dek)
      return {
        entries: [{ action: 'encrypt', key_id, key_version }],
        release: () => ({
          ciphertext: encodeBase64(sealed.subarray(IV_BYTES)),
          wrapped_key: encodeBase64(wrapped),
          iv: encodeBase64(sealed.subarray(0, IV_BYTES)),
          key_id,
          key_version,
        }),
        secrets: [dek],
      }
    } finally {
      bytes.fill(0)
    }
  }
}

function readBase64(text: string): Uint8Array {
  try {
    return decodeBase64(text)
  } catch {
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.plaintext)
  }
}

function decrypt({ key_id, encoding, ...sealed }: wire.Decrypt): Operation<wire.Decrypted> {
  return ({ state, allowances }) =>
    decideWithKey({ state, key_id, call: 'decrypt' }, (key) => {
      assertBudget(allowances, 'unwrap')
      const bytes = openBundle(key, sealed)
      return {
        entries: [{ action: 'decrypt', key_id, key_version: sealed.key_version }],
        // The refusal of a plaintext that is not text reveals something about it, so it also follows the entry.
        release: () => ({ plaintext: writePlaintext(bytes, encoding ?? state.tenant.plaintext_encoding) }),
        secrets: [bytes],
      }
    })
}

// One answer for all failures, that of the wrapped key included, so it never shows which part was altered.
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
    throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.text)
  }
}

/**
 * encrypt: server mode. Each call uses a DEK of its own and returns an envelope that the SDK opens locally.
 */
import {
  DETAILS,
  decodeBase64,
  encodeBase64,
  encodeUtf8,
  IV_BYTES,
  MAX_SERVER_MODE_BYTES,
  type wire,
} from '@eaas/protocol'
import { randomKey, seal } from '../crypto/aead.js'
import { wrapDek } from '../crypto/wrapped-key.js'
import type { Context, Decision, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { currentVersion } from './shared/key-rows.js'
import { getKeyInState } from './shared/require-key-state.js'

/** Encrypts. @throws Refusal E_VALIDATION, E_PLAINTEXT_TOO_LARGE, E_NOT_FOUND, E_STATE, E_QUOTA_EXCEEDED */
export function encrypt({ plaintext, key_id, encoding }: wire.Encrypt): Operation<wire.Bundle> {
  return async (context) => {
    const { plaintext_encoding } = context.state.tenant
    const bytes = (encoding ?? plaintext_encoding) === 'utf8' ? encodeUtf8(plaintext) : readBase64(plaintext)
    try {
      assertSize(bytes)
      return await encryption(context, key_id, bytes)
    } finally {
      bytes.fill(0)
    }
  }
}

async function encryption(
  { state, quotaLeft }: Context,
  key_id: string,
  bytes: Uint8Array,
): Promise<Decision<wire.Bundle>> {
  const key = await getKeyInState(state, key_id, 'encrypt')
  if (quotaLeft < 1) {
    throw new Refusal('E_QUOTA_EXCEEDED', DETAILS.E_QUOTA_EXCEEDED.encrypt(state.tenant.monthly_encrypt_quota))
  }
  const { kek, aad, row } = currentVersion(key)
  const dek = randomKey()
  const sealed = seal(dek, bytes)
  const wrapped = wrapDek(kek, row.version, aad, dek)
  return {
    entries: [{ action: 'encrypt', key_id, key_version: row.version }],
    release: () => ({
      ciphertext: encodeBase64(sealed.subarray(IV_BYTES)),
      wrapped_key: encodeBase64(wrapped),
      iv: encodeBase64(sealed.subarray(0, IV_BYTES)),
      key_id,
      key_version: row.version,
    }),
    secrets: [dek],
  }
}

function assertSize({ length }: Uint8Array): void {
  if (length <= MAX_SERVER_MODE_BYTES) return
  throw new Refusal('E_PLAINTEXT_TOO_LARGE', DETAILS.E_PLAINTEXT_TOO_LARGE.plaintext(length))
}

function readBase64(text: string): Uint8Array {
  try {
    return decodeBase64(text)
  } catch {
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.plaintext)
  }
}

/** The secrets that the root key protects, see key-hierarchy.md. */
import { createHmac, type KeyObject } from 'node:crypto'
import { concatBytes, encodeUtf8, KEY_BYTES, lengthPrefixed, OpenError } from '@eaas/protocol'
import { importKey, open, randomKey, SEAL_OVERHEAD, seal } from './aead.js'

const FORMAT = 0x01
const SEALED_BYTES = 1 + KEY_BYTES + SEAL_OVERHEAD

/** What a secret is for (key-hierarchy.md 3). */
export type Purpose = 'api-key-pepper' | 'signing-key' | 'audit-key' | 'kek' | 'hash-key'

/** What a secret is bound to: it opens for no other purpose, tenant, id or version. */
export interface SecretBinding {
  purpose: Purpose
  tenant_id?: string
  id?: string
  version?: number
}

/** Seals a 32-byte secret under the root key (key-hierarchy.md 2). The caller zeroes `secret`. */
export function sealSecret(rootKey: KeyObject, binding: SecretBinding, secret: Uint8Array): Uint8Array {
  return concatBytes(Uint8Array.of(FORMAT), seal(rootKey, secret, bindingAad(binding)))
}

/** Draws 32 random bytes and returns them sealed (key-hierarchy.md 2); the bytes themselves are zeroed. */
export function sealNewSecret(rootKey: KeyObject, binding: SecretBinding): Uint8Array {
  const secret = randomKey()
  try {
    return sealSecret(rootKey, binding, secret)
  } finally {
    secret.fill(0)
  }
}

/**
 * Opens a sealed secret as a KeyObject. @throws OpenError when it was sealed elsewhere, under another root
 * key, or altered
 */
export function openSecret(rootKey: KeyObject, binding: SecretBinding, sealed: Uint8Array): KeyObject {
  if (sealed.length !== SEALED_BYTES || sealed[0] !== FORMAT) throw new OpenError()
  return importKey(open(rootKey, sealed.subarray(1), bindingAad(binding)))
}

/** The key that authenticates a tenant's rows (key-hierarchy.md 4). */
export function deriveRowKey(auditKey: KeyObject): KeyObject {
  return importKey(createHmac('sha256', auditKey).update('eaas/row-key/v1').digest())
}

function bindingAad({ purpose, tenant_id = '', id = '', version = 0 }: SecretBinding): Uint8Array {
  return lengthPrefixed(...['eaas/secret/v1', purpose, tenant_id, id, String(version)].map(encodeUtf8))
}

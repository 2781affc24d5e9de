/** What wraps the store keys: the root key in this process, or a program or service that holds it. */
import type { KeyObject } from 'node:crypto'
import { concatBytes, encodeUtf8, OpenError } from '@eaas/protocol'
import { open, seal } from '../crypto/aead.js'
import { foreignRootKey } from '../crypto/root-key.js'

const FORMAT = 0x01
const AAD = encodeUtf8('eaas/root-key/v1')

export interface RootKeyProvider {
  /** What kind, and which, for messages, /health and doctor: nothing secret. */
  readonly kind: 'file' | 'variable' | 'command' | 'shares' | 'exec' | 'transit' | 'aws-kms'
  readonly name: string
  /** Wraps at most 64 bytes. @throws RootKeyError if the provider is absent or refuses */
  wrap(bytes: Uint8Array): Promise<Uint8Array>
  /** Opens what `wrap` gave. @throws RootKeyError */
  unwrap(wrapped: Uint8Array): Promise<Uint8Array>
}

/** A key in this process: AES-256-GCM, `0x01 ‖ iv ‖ ciphertext ‖ tag` under the AAD `eaas/root-key/v1`. */
export function localProvider(
  key: KeyObject,
  { kind, name }: { kind: 'file' | 'variable' | 'command' | 'shares'; name: string },
): RootKeyProvider {
  return {
    kind,
    name,
    wrap: async (bytes) => concatBytes(Uint8Array.of(FORMAT), seal(key, bytes, AAD)),
    async unwrap(wrapped) {
      try {
        if (wrapped[0] !== FORMAT) throw new OpenError()
        return open(key, wrapped.subarray(1), AAD)
      } catch (error) {
        if (!(error instanceof OpenError)) throw error
        throw foreignRootKey()
      }
    },
  }
}

/** What the index secret of a name is derived with (blind-index.md 4). */
import { encodeUtf8, lengthPrefixed } from './bytes.js'

/** Makes the `info` of HKDF for the index secret of a name. */
export function indexSecretInfo(name: string): Uint8Array {
  return lengthPrefixed([encodeUtf8('eaas/index-secret/v1'), encodeUtf8(name)])
}

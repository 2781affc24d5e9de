/** The application's secret (application-secret.md), mixed into the keys derived from a DEK, and the secret of an index. */
import { concatBytes, encodeUtf8, FormatError, lengthPrefixed, uuidBytes } from './bytes.js'

export const APPLICATION_SECRET_BYTES = 32

/** Says whether a value was sealed with a secret (application-secret.md 3). */
export interface SecretFlag {
  needsSecret?: true
}

/** The `info` of HKDF under which a secret is mixed into a DEK (application-secret.md 2). @throws FormatError */
export function mixedKeyInfo(keyId: string): Uint8Array {
  return concatBytes(encodeUtf8('eaas/application-secret/v1'), new Uint8Array(1), uuidBytes(keyId))
}

/** The member that says that a secret is needed, for an envelope's JSON and a stream's header. */
export function secretMember({ needsSecret }: SecretFlag): { application_secret?: true } {
  return needsSecret ? { application_secret: true } : {}
}

/** Reads that member. @throws FormatError if it exists and is not true */
export function readSecretFlag({ application_secret: flag }: { application_secret?: unknown }): SecretFlag {
  if (flag === undefined) return {}
  if (flag === true) return { needsSecret: true }
  throw new FormatError('application_secret must be true, or absent')
}

/** Makes the `info` of HKDF for the index secret of a name (blind-index.md 4). */
export function indexSecretInfo(name: string): Uint8Array {
  return lengthPrefixed([encodeUtf8('eaas/index-secret/v1'), encodeUtf8(name)])
}

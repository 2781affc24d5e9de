/** Wrapped keys, format 1 (wrapped-key.md). Byte layout and AAD only; the holder of the KEK seals and opens. */
import { concatBytes, decodeBase64, encodeBase64, encodeUtf8, lengthPrefixed, uuidBytes, writeU32 } from './bytes.js'
import type { WrappedKey } from './envelope.js'
import { WRAPPED_KEY_V2_FORMAT } from './wrapped-key-v2.js'

const FORMAT = 0x01
const BYTES = 65
const VERSION_AT = 1
const IV_AT = 5
const SEALED_AT = 17
const LABEL = /* @__PURE__ */ encodeUtf8('eaas/wrapped-key/v1')

/** The parts of a wrapped key: the key version that wrapped it, the iv, and the sealed DEK with its tag. */
export interface WrappedKeyParts {
  version: number
  iv: Uint8Array
  sealed: Uint8Array
}

/** Reads a wrapped key of format 1 or of `format`; undefined for other text, which counts as not authentic. */
export function readWrappedKey(text: string, format = FORMAT): WrappedKeyParts | undefined {
  const bytes = findBytes(text, format)
  return bytes && { version: versionIn(bytes), iv: bytes.subarray(IV_AT, SEALED_AT), sealed: bytes.subarray(SEALED_AT) }
}

/** Returns the version that wrapped a DEK, which a changed `key_version` cannot raise (wrapped-key.md 1). */
export function wrappingVersion({ wrapped_key, key_version }: WrappedKey): number {
  return Math.min(key_version, findWrappedVersion(wrapped_key) ?? key_version)
}

/** Returns the version that a wrapped key of either format names; undefined for any other text. */
export function findWrappedVersion(wrapped_key: string): number | undefined {
  const bytes = findBytes(wrapped_key, FORMAT) ?? findBytes(wrapped_key, WRAPPED_KEY_V2_FORMAT)
  return bytes && versionIn(bytes)
}

function findBytes(text: string, format: number): Uint8Array | undefined {
  try {
    const bytes = decodeBase64(text)
    return bytes.length === BYTES && bytes[0] === format ? bytes : undefined
  } catch {
    return undefined // not base64
  }
}

function versionIn(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(VERSION_AT)
}

export function writeWrappedKey({ version, iv, sealed }: WrappedKeyParts, format = FORMAT): string {
  return encodeBase64(concatBytes(Uint8Array.of(format), u32(version), iv, sealed))
}

/** Builds the AAD, which binds a wrapped key to its tenant, key and version (wrapped-key.md 2). */
export function wrappedKeyAad(tenant_id: string, key_id: string, version: number): Uint8Array {
  return lengthPrefixed([LABEL, uuidBytes(tenant_id), uuidBytes(key_id), u32(version)])
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  writeU32(bytes, 0, value)
  return bytes
}

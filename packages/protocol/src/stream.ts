/** Encrypted streams (stream.md): the header line, and the keys, AAD and ivs of segments. Engines seal. */
import { IV_BYTES, KEY_BYTES, TAG_BYTES } from './aead.js'
import { readSecretFlag, type SecretFlag, secretMember } from './application-secret.js'
import {
  concatBytes,
  decodeUtf8,
  encodeBase64,
  encodeUtf8,
  FormatError,
  lengthPrefixed,
  uuidBytes,
  writeU32,
} from './bytes.js'
import { bytesOf, readWrappedKeyFields, type WrappedKey, wrappedKeyBytes } from './envelope.js'

/** Bytes of plaintext in each segment except the last (stream.md 4). */
export const SEGMENT_BYTES = 65_536
export const SEALED_SEGMENT_BYTES = SEGMENT_BYTES + TAG_BYTES
export const MAX_SEGMENTS = 2 ** 32
export const STREAM_SALT_BYTES = 32
export const MAX_STREAM_HEADER_BYTES = 1_536
const FORMAT = 'eaas/stream/v1'
/** The length of a header line is a multiple of this, so that another wrapped key rarely changes it. */
const HEADER_BLOCK_BYTES = 512
const LINE_FEED = 0x0a

export interface StreamHeader extends WrappedKey, SecretFlag {
  /** 32 random bytes. */
  salt: Uint8Array
  /** `K_com`, 32 bytes. */
  commitment: Uint8Array
}

/** The `info` of HKDF under which a stream's keys are derived (stream.md 2). @throws FormatError */
export function streamKeysInfo(keyId: string): Uint8Array {
  return concatBytes(encodeUtf8(FORMAT), new Uint8Array(1), uuidBytes(keyId))
}

/** Makes the AAD of a stream's segments (stream.md 3). `pairs` are from `encodeContext`. */
export function streamAad(keyId: string, pairs: Uint8Array): Uint8Array {
  const segmentBytes = new Uint8Array(4)
  writeU32(segmentBytes, 0, SEGMENT_BYTES)
  return concatBytes(lengthPrefixed([encodeUtf8(FORMAT), uuidBytes(keyId), segmentBytes]), pairs)
}

/** Makes the iv of a segment (stream.md 4). @throws FormatError when `counter`, which begins at 0, is not below 2^32 */
export function segmentIv(counter: number, isFinal: boolean): Uint8Array {
  if (!(counter >= 0 && counter < MAX_SEGMENTS)) throw new FormatError('a stream has at most 2^32 segments')
  const iv = new Uint8Array(IV_BYTES)
  writeU32(iv, IV_BYTES - 5, counter)
  iv[IV_BYTES - 1] = isFinal ? 1 : 0
  return iv
}

/** Encodes a header as the first line (stream.md 1). @throws FormatError for a wrapped key without a text form */
export function encodeStreamHeader(header: StreamHeader): Uint8Array {
  const { key_id, key_version, wrapped_key, salt, commitment } = header
  wrappedKeyBytes({ wrapped_key })
  const members = {
    format: FORMAT,
    key_id,
    key_version,
    wrapped_key,
    salt: encodeBase64(salt),
    commitment: encodeBase64(commitment),
    segment_bytes: SEGMENT_BYTES,
    ...secretMember(header),
  }
  const text = JSON.stringify(members)
  const lineBytes = Math.ceil((text.length + 1) / HEADER_BLOCK_BYTES) * HEADER_BLOCK_BYTES
  return encodeUtf8(`${text.padEnd(lineBytes - 1)}\n`)
}

/** Returns the length of the header line at the beginning of the bytes; undefined if its end is missing. */
export function findStreamHeaderEnd(bytes: Uint8Array): number | undefined {
  return bytes.subarray(0, MAX_STREAM_HEADER_BYTES).indexOf(LINE_FEED) + 1 || undefined
}

/** Decodes a header line with its line feed (stream.md 1). @throws FormatError if we would encode it differently */
export function decodeStreamHeader(line: Uint8Array): StreamHeader {
  const fields = parseLine(line)
  if (fields.format !== FORMAT) throw new FormatError(`format must be ${FORMAT}`)
  if (fields.segment_bytes !== SEGMENT_BYTES) throw new FormatError(`segment_bytes must be ${SEGMENT_BYTES}`)
  const header = {
    ...readWrappedKeyFields(fields),
    salt: bytesOf(fields, 'salt', STREAM_SALT_BYTES),
    commitment: bytesOf(fields, 'commitment', KEY_BYTES),
    ...readSecretFlag(fields),
  }
  const canonical = encodeStreamHeader(header)
  // Another form could be read in two ways: of a member that occurs twice, readers take the first or the last.
  if (canonical.length !== line.length || canonical.some((byte, at) => byte !== line[at]))
    throw new FormatError('the header is not in its only form')
  return header
}

function parseLine(line: Uint8Array): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = JSON.parse(decodeUtf8(line))
  } catch {
    throw new FormatError('the header is not JSON') // the parser's message would quote the text
  }
  if (typeof parsed === 'object' && parsed !== null) return parsed as Record<string, unknown>
  throw new FormatError('the header is not an object')
}

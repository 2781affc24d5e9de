/** Witness cosignatures over the trees of logs, and requests for them, see cosignature.md 1 to 3 and 6. Pure. */
import { concatBytes, decodeUtf8, encodeBase64, encodeUtf8 } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import {
  CheckpointError,
  COSIGNATURE,
  createNoteKey,
  findBase64,
  findSignature,
  isSignedBy,
  type NoteKey,
  type NoteSignature,
  readNoteKey,
  signatureLine,
} from './signed-note.js'

const TIME_BYTES = 8
const SIGNATURE_BYTES = 64
/** The number of bytes after the key id in a cosignature's line (cosignature.md 2). */
export const COSIGNATURE_BYTES = TIME_BYTES + SIGNATURE_BYTES
/** 9999-12-31T23:59:59Z, the last second that RFC 3339 can write. */
const LAST_SECOND = 253_402_300_799

/** The largest request, in bytes: 63 lines of a proof, and a note with 16 signatures of the largest kind. */
export const MAX_REQUEST_BYTES = 131_072
/** The media type of the size in a 409. */
export const SIZE_TYPE = 'text/x.tlog.size'
const MOST_HASHES = 63
const HASH_BYTES = 32
const REQUEST = /^old (0|[1-9]\d{0,15})\n((?:[A-Za-z0-9+/]{43}=\n)*)\n([\s\S]+)$/

/** Makes a witness's public key from its signing key. @throws CheckpointError if the name is invalid */
export function createWitnessKey(name: string, signingKey: SigningKey): NoteKey {
  return createNoteKey(name, COSIGNATURE, signingKey.publicKey)
}

/** Reads the written form of a witness's public key. @throws CheckpointError */
export function readWitnessKey(text: string): NoteKey {
  return readNoteKey(text, COSIGNATURE)
}

/** Cosigns the text of a note. Returns the signature line. */
export function cosign(
  { key, signingKey }: { key: NoteKey; signingKey: SigningKey },
  text: string,
  seconds: number,
): string {
  const time = new Uint8Array(TIME_BYTES)
  new DataView(time.buffer).setBigUint64(0, BigInt(seconds))
  return signatureLine(key, concatBytes(time, signingKey.sign(messageOf(text, seconds))))
}

/** When a witness cosigned, in seconds since 1970; undefined if it did not. @throws CheckpointError if its signature is wrong */
export function readCosignature(signatures: readonly NoteSignature[], key: NoteKey, text: string): number | undefined {
  const timed = findSignature(signatures, key)
  if (!timed) return undefined
  if (timed.length === COSIGNATURE_BYTES) {
    const seconds = Number(new DataView(timed.buffer, timed.byteOffset, TIME_BYTES).getBigUint64(0))
    const signature = timed.subarray(TIME_BYTES)
    if (seconds <= LAST_SECOND && isSignedBy(key, messageOf(text, seconds), signature)) return seconds
  }
  throw new CheckpointError(`the cosignature of ${key.name} does not verify`)
}

function messageOf(text: string, seconds: number): Uint8Array {
  return encodeUtf8(`cosignature/v1\ntime ${seconds}\n${text}`)
}

export interface AddCheckpoint {
  /** the size of the tree from which the proof starts, or 0 for none */
  old: number
  /** the consistency proof from the old tree to that of the note */
  proof: Uint8Array[]
  note: string
}

/** Writes a request. */
export function writeAddCheckpoint({ old, proof, note }: AddCheckpoint): string {
  return `old ${old}\n${proof.map((hash) => `${encodeBase64(hash)}\n`).join('')}\n${note}`
}

/** Reads a request without reading its note. @throws CheckpointError */
export function readAddCheckpoint(body: Uint8Array): AddCheckpoint {
  const [, old = '', lines = '', note = ''] = (body.length <= MAX_REQUEST_BYTES && REQUEST.exec(decode(body))) || []
  const encoded = lines.split('\n').slice(0, -1)
  if (note === '' || !Number.isSafeInteger(Number(old)) || encoded.length > MOST_HASHES)
    throw new CheckpointError('this is not a request for a cosignature: old size, proof, an empty line and the note')
  return { old: Number(old), proof: encoded.map(decodeHash), note }
}

function decodeHash(text: string): Uint8Array {
  const hash = findBase64(text, HASH_BYTES)
  if (!hash) throw new CheckpointError('a line of the proof is not the canonical base64 of 32 bytes')
  return hash
}

function decode(body: Uint8Array): string {
  try {
    return decodeUtf8(body)
  } catch {
    return ''
  }
}

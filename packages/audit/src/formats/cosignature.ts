/** Cosignatures of witnesses over the trees of logs, see cosignature.md 1, 2 and 6. Pure. */
import { concatBytes, encodeUtf8 } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import {
  CheckpointError,
  COSIGNATURE,
  createNoteKey,
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

/** Makes a witness's public key from its signing key. @throws CheckpointError if the name is invalid */
export function createWitnessKey(name: string, signingKey: SigningKey): NoteKey {
  return createNoteKey(name, COSIGNATURE, signingKey.publicKey)
}

/** Reads the written form of a witness's public key. @throws CheckpointError */
export function readWitnessKey(text: string): NoteKey {
  return readNoteKey(text, COSIGNATURE)
}

/** Cosigns the text of a note: returns the line. */
export function cosign(
  { key, signingKey }: { key: NoteKey; signingKey: SigningKey },
  text: string,
  seconds: number,
): string {
  const time = new Uint8Array(TIME_BYTES)
  new DataView(time.buffer).setBigUint64(0, BigInt(seconds))
  return signatureLine(key, concatBytes(time, signingKey.sign(messageOf(text, seconds))))
}

/**
 * Reads when a witness cosigned the text, in seconds since 1970; undefined if no line has its name and id.
 * @throws CheckpointError if its line is not a cosignature of this text
 */
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

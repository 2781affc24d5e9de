/** Signed statements of where a log ends, see checkpoint.md. Pure. */
import { decodeBase64, encodeBase64, encodeUtf8, isUuid } from '@eaas/protocol'
import { equalBytes, type SigningKey } from '../crypto.js'
import { unlessThrown } from '../unless-thrown.js'
import {
  CheckpointError,
  createNoteKey,
  ED25519,
  encodeNoteKey,
  isSignedBy,
  type NoteKey,
  OtherSignerError,
  readNoteKey,
  signatureLine,
} from './signed-note.js'

export const ORIGIN = 'eaas/audit/checkpoint/v1'
const KEY_NAME = 'eaas-audit'
const HASH_BYTES = 32
const NOTE = new RegExp(`^((?:[^\\n]+\\n)+)\\n\\u2014 ${KEY_NAME} ([^\\n]+)\\n$`)
const STATEMENT = new RegExp(
  `^${ORIGIN}\\n([^\\n]+)\\n([1-9]\\d{0,15})\\n([^\\n]+)\\n(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)\\n$`,
)

/** What a checkpoint states (checkpoint.md 1). */
export interface Checkpoint {
  tenant_id: string
  last_id: number
  hash: Uint8Array
  /** when it was signed: RFC 3339, UTC, milliseconds */
  created_at: string
}

/** Signs a statement. Returns the note. */
export function signCheckpoint(signingKey: SigningKey, { tenant_id, last_id, hash, created_at }: Checkpoint): string {
  return signNote(signingKey, `${ORIGIN}\n${tenant_id}\n${last_id}\n${encodeBase64(hash)}\n${created_at}\n`)
}

/** A public key in its written form, or all keys that signed for an installation, oldest first (key-change.md 4). */
export type PublicKeys = string | readonly string[]

/** Reads a note that one of the keys signed. @throws CheckpointError (checkpoint.md 4) */
export function readCheckpoint(note: string, publicKeys: PublicKeys): Checkpoint {
  return parseText(openNote(note, publicKeys))
}

/** Reads a note without checking its signature. @throws CheckpointError */
export function parseCheckpoint(note: string): Checkpoint {
  return parseText(parseNote(note).text)
}

function parseText(text: string): Checkpoint {
  const [, tenant_id = '', last_id = '', h = '', created_at = ''] = STATEMENT.exec(text) ?? []
  if (!isUuid(tenant_id)) throw new CheckpointError('this is not a checkpoint of an EaaS audit log')
  return { tenant_id, ...readPosition(last_id, h), created_at }
}

/** Reads the lines of an id and its hash. @throws CheckpointError */
export function readPosition(last_id: string, h: string): { last_id: number; hash: Uint8Array } {
  const hash = base64(h)
  if (hash.length !== HASH_BYTES || !Number.isSafeInteger(Number(last_id)))
    throw new CheckpointError('this is not a checkpoint of an EaaS audit log: its entry id or its hash is impossible')
  return { last_id: Number(last_id), hash }
}

/** Whether a text is a checkpoint that one of the keys signed. */
export function isSignedCheckpoint(note: string, publicKeys: PublicKeys): boolean {
  return unlessThrown(() => readCheckpoint(note, publicKeys), CheckpointError) !== undefined
}

/** Signs a text that ends with a line feed. Returns the note (checkpoint.md 2). */
export function signNote(signingKey: SigningKey, text: string): string {
  return `${text}\n${signatureLine(keyOf(signingKey), signingKey.sign(encodeUtf8(text)))}`
}

/** Reads the text of a note that one of the keys signed. @throws CheckpointError */
export function openNote(note: string, publicKeys: PublicKeys): string {
  const { text, signature } = parseNote(note)
  const key = [publicKeys]
    .flat()
    .map(readPublicKey)
    .find(({ id }) => equalBytes(signature.subarray(0, id.length), id))
  if (!key) throw new OtherSignerError('the checkpoint was signed by another key')
  if (!isSignedBy(key, encodeUtf8(text), signature.subarray(key.id.length)))
    throw new CheckpointError('the checkpoint was altered: its signature does not verify')
  return text
}

function parseNote(note: string): { text: string; signature: Uint8Array } {
  const [, text, signed = ''] = NOTE.exec(note) ?? []
  if (text === undefined) throw new CheckpointError('this is not a checkpoint of an EaaS audit log')
  return { text, signature: base64(signed) }
}

/** Writes the public key of a signing key (checkpoint.md 3). */
export function encodePublicKey(signingKey: SigningKey): string {
  return encodeNoteKey(keyOf(signingKey))
}

/** Reads a public key in its written form. @throws CheckpointError */
export function readPublicKey(text: string): NoteKey {
  const key = unlessThrown(() => readNoteKey(text, ED25519), CheckpointError)
  if (key?.name === KEY_NAME) return key
  throw new CheckpointError(`this is not a public key of an EaaS audit log: it must be ${KEY_NAME}+<8 digits>+<base64>`)
}

function keyOf(signingKey: SigningKey): NoteKey {
  return createNoteKey(KEY_NAME, ED25519, signingKey.publicKey)
}

function base64(text: string): Uint8Array {
  try {
    return decodeBase64(text)
  } catch {
    throw new CheckpointError('a part of the checkpoint or of the public key is not canonical base64')
  }
}

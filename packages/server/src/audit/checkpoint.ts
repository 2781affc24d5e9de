/** Signed statements of where a log ends, see checkpoint.md. Pure. */
import { createPublicKey, hash as digest, type KeyObject, sign, verify } from 'node:crypto'
import { concatBytes, decodeBase64, encodeBase64, encodeHex, encodeUtf8, isUuid } from '@eaas/protocol'
import { equalBytes } from './chain.js'

/** The first line of each note. */
export const ORIGIN = 'eaas/audit/checkpoint/v1'
const KEY_NAME = 'eaas-audit'
/** C2SP signed-note: the type of an Ed25519 signature. */
const ED25519 = 0x01
const KEY_ID_BYTES = 4
const PUBLIC_KEY_BYTES = 32
const HASH_BYTES = 32
/** RFC 8410: the bytes before the 32 bytes of an Ed25519 public key in SubjectPublicKeyInfo. */
const SPKI_PREFIX = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00)
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

/** Thrown when a text is not a checkpoint or public key, or when a checkpoint was not signed by the given key. */
export class CheckpointError extends Error {
  override readonly name = 'CheckpointError'
}

/** Signs a statement: returns the note. */
export function signCheckpoint(signingKey: KeyObject, { tenant_id, last_id, hash, created_at }: Checkpoint): string {
  return signNote(signingKey, `${ORIGIN}\n${tenant_id}\n${last_id}\n${encodeBase64(hash)}\n${created_at}\n`)
}

/** Reads a note that the key signed. @throws CheckpointError (checkpoint.md 4) */
export function readCheckpoint(note: string, publicKey: string): Checkpoint {
  return parseText(openNote(note, publicKey))
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
  if (hash.length !== HASH_BYTES || !Number.isSafeInteger(Number(last_id))) {
    throw new CheckpointError('this is not a checkpoint of an EaaS audit log: its entry id or its hash is impossible')
  }
  return { last_id: Number(last_id), hash }
}

/** Signs a text whose last line feed is in it: returns the note (checkpoint.md 2). */
export function signNote(signingKey: KeyObject, text: string): string {
  const publicKey = publicKeyBytes(createPublicKey(signingKey))
  const signature = sign(null, encodeUtf8(text), signingKey)
  return `${text}\n\u2014 ${KEY_NAME} ${encodeBase64(concatBytes(keyId(publicKey), signature))}\n`
}

/** The text of a note that the key signed. @throws CheckpointError */
export function openNote(note: string, publicKey: string): string {
  const key = decodePublicKey(publicKey)
  const { text, signature } = parseNote(note)
  if (!equalBytes(signature.subarray(0, KEY_ID_BYTES), keyId(key))) {
    throw new CheckpointError('the checkpoint was signed by another key')
  }
  const verifier = createPublicKey({ key: Buffer.from(concatBytes(SPKI_PREFIX, key)), format: 'der', type: 'spki' })
  if (!verify(null, encodeUtf8(text), verifier, signature.subarray(KEY_ID_BYTES))) {
    throw new CheckpointError('the checkpoint was altered: its signature does not verify')
  }
  return text
}

function parseNote(note: string): { text: string; signature: Uint8Array } {
  const [, text, signed = ''] = NOTE.exec(note) ?? []
  if (text === undefined) throw new CheckpointError('this is not a checkpoint of an EaaS audit log')
  return { text, signature: base64(signed) }
}

/** A public key in its written form (checkpoint.md 3). */
export function encodePublicKey(signingKey: KeyObject): string {
  const key = publicKeyBytes(createPublicKey(signingKey))
  return `${KEY_NAME}+${encodeHex(keyId(key))}+${encodeBase64(concatBytes(Uint8Array.of(ED25519), key))}`
}

function decodePublicKey(text: string): Uint8Array {
  const [name, id, encoded = ''] = text.split('+', 2).concat(text.split('+').slice(2).join('+'))
  const bytes = base64(encoded)
  const key = bytes.subarray(1)
  if (name !== KEY_NAME || bytes[0] !== ED25519 || key.length !== PUBLIC_KEY_BYTES || id !== encodeHex(keyId(key))) {
    throw new CheckpointError(
      `this is not a public key of an EaaS audit log: it must be ${KEY_NAME}+<8 digits>+<base64>`,
    )
  }
  return key
}

function keyId(publicKey: Uint8Array): Uint8Array {
  const named = concatBytes(encodeUtf8(`${KEY_NAME}\n`), Uint8Array.of(ED25519), publicKey)
  return digest('sha256', named, 'buffer').subarray(0, KEY_ID_BYTES)
}

function publicKeyBytes(key: KeyObject): Uint8Array {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length)
}

function base64(text: string): Uint8Array {
  try {
    return decodeBase64(text)
  } catch {
    throw new CheckpointError('a part of the checkpoint or of the public key is not canonical base64')
  }
}

/** C2SP signed notes (c2sp.org/signed-note): a text, its signatures, and the written form of keys. Pure. */
import { concatBytes, decodeBase64, encodeBase64, encodeHex, encodeUtf8, isWellFormed } from '@eaas/protocol'
import { equalBytes, sha256, verifySignature } from '../crypto.js'

/** The type of a plain Ed25519 signature. */
export const ED25519 = 0x01
/** The type of a witness's cosignature: Ed25519 with a time (c2sp.org/tlog-cosignature). */
export const COSIGNATURE = 0x04
const KEY_ID_BYTES = 4
const PUBLIC_KEY_BYTES = 32
/** A name has no plus and no Unicode space, including U+0085, which `\s` does not match. */
const NAME = '[^\\s\\u0085+]+'
const SIGNATURE_LINE = new RegExp(`^\\u2014 (${NAME}) ([A-Za-z0-9+/]+={0,2})$`, 'u')
const KEY_NAME = new RegExp(`^${NAME}$`, 'u')
const WRITTEN_KEY = new RegExp(`^(${NAME})\\+([0-9a-f]{8})\\+([A-Za-z0-9+/]+={0,2})$`, 'u')

/** Thrown when a text is not a checkpoint or public key, or when a checkpoint was not signed by the given key. */
export class CheckpointError extends Error {
  override readonly name: string = 'CheckpointError'
}

/** Thrown when none of the given keys signed. */
export class OtherSignerError extends CheckpointError {
  override readonly name = 'OtherSignerError'
}

export interface NoteKey {
  name: string
  type: number
  /** 4 bytes that tell keys of one name apart */
  id: Uint8Array
  /** 32 bytes of Ed25519 */
  key: Uint8Array
}

export type NoteSignature = { name: string; id: Uint8Array; signature: Uint8Array }

export interface SignedNote {
  /** what was signed, with the last line feed */
  text: string
  signatures: NoteSignature[]
}

/** Makes a key. @throws CheckpointError if the name is empty, or has a space, a plus or a control character */
export function createNoteKey(name: string, type: number, key: Uint8Array): NoteKey {
  if (!KEY_NAME.test(name) || !isPlain(name))
    throw new CheckpointError(
      'the name of a key must have at least one character, and no space, plus or control character',
    )
  const named = concatBytes(encodeUtf8(`${name}\n`), Uint8Array.of(type), key)
  return { name, type, id: sha256(named).subarray(0, KEY_ID_BYTES), key }
}

/** Writes a key as name+id+base64, C2SP's `vkey`. */
export function encodeNoteKey({ name, type, id, key }: NoteKey): string {
  return `${name}+${encodeHex(id)}+${encodeBase64(concatBytes(Uint8Array.of(type), key))}`
}

/** Reads a key of this type. @throws CheckpointError */
export function readNoteKey(text: string, type: number): NoteKey {
  const [, name = '', id = '', encoded = ''] = WRITTEN_KEY.exec(text) ?? []
  const bytes = findBase64(encoded)
  if (bytes?.length === 1 + PUBLIC_KEY_BYTES && bytes[0] === type) {
    const known = createNoteKey(name, type, bytes.subarray(1))
    if (encodeHex(known.id) === id) return known
  }
  const form = `<name>+<8 digits>+<base64 of 0x${type.toString(16).padStart(2, '0')} and 32 bytes>`
  throw new CheckpointError(`this is not a public key of this type: it must be ${form}, and the digits must be its id`)
}

/** Writes the line of a signature, with its line feed. */
export function signatureLine({ name, id }: Pick<NoteKey, 'name' | 'id'>, signature: Uint8Array): string {
  return `\u2014 ${name} ${encodeBase64(concatBytes(id, signature))}\n`
}

/** Splits a note; checks no signature. @throws CheckpointError */
export function splitNote(note: string): SignedNote {
  const end = note.lastIndexOf('\n\n') + 1
  if (end < 2 || !note.endsWith('\n') || !isPlain(note.replaceAll('\n', '')))
    throw new CheckpointError('this is not a signed note: a text, an empty line and signatures')
  return { text: note.slice(0, end), signatures: readSignatures(note.slice(end + 1)) }
}

/** Reads signature lines, each with its line feed. @throws CheckpointError if there is none, or one is malformed */
export function readSignatures(lines: string): NoteSignature[] {
  if (!lines.endsWith('\n')) throw new CheckpointError('the last line of the signatures is not ended')
  return lines
    .slice(0, -1)
    .split('\n')
    .map((line) => {
      const [, name = '', encoded = ''] = SIGNATURE_LINE.exec(line) ?? []
      const bytes = findBase64(encoded)
      if (!bytes || bytes.length <= KEY_ID_BYTES) throw new CheckpointError('this is not the line of a signature')
      return { name, id: bytes.subarray(0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) }
    })
}

/** Finds the first signature with both the name and the id of a key: one of the two would not be enough. */
export function findSignature(signatures: readonly NoteSignature[], { name, id }: NoteKey): Uint8Array | undefined {
  return signatures.find((one) => one.name === name && equalBytes(one.id, id))?.signature
}

/** Whether the signature over the bytes is the key's. */
export function isSignedBy({ key }: Pick<NoteKey, 'key'>, bytes: Uint8Array, signature: Uint8Array): boolean {
  return verifySignature(key, bytes, signature)
}

/** Decodes base64; undefined if the text is not canonical, or does not decode to `length` bytes. */
export function findBase64(text: string, length?: number): Uint8Array | undefined {
  try {
    const bytes = decodeBase64(text)
    return length === undefined || bytes.length === length ? bytes : undefined
  } catch {
    return undefined
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: those that a note must not have
const CONTROL = /[\u0000-\u001f]/

function isPlain(text: string): boolean {
  return !CONTROL.test(text) && isWellFormed(text)
}

/** Signed statements about the keys that sign for an installation over time, see key-change.md. Pure. */
import { encodeUtf8 } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import { unlessThrown } from '../unless-thrown.js'
import { encodePublicKey, openNote, readPublicKey, signNote } from './checkpoint.js'
import { CheckpointError, findSignature, isSignedBy, type NoteKey, signatureLine, splitNote } from './signed-note.js'

const ORIGIN = 'eaas/audit/key-change/v1'
const STATEMENT = new RegExp(
  `^${ORIGIN}\\n([^\\n]+)\\n([^\\n]+)\\n(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)\\n$`,
)
/** The old key's and the new key's. */
const SIGNATURES = 2
const INSTALLATION_ORIGIN = 'eaas/audit/installation/v1'
const MOST_KEYS = 10_000

/** A statement: both keys in their written form (checkpoint.md 3), and its time: RFC 3339, UTC, milliseconds. */
export type KeyChange = { from: string; to: string; created_at: string }

/** Signs, with both keys, that `to` signs from now on. Returns the note. */
export function signKeyChange(from: SigningKey, to: SigningKey, created_at: string): string {
  const [before, after] = [encodePublicKey(from), encodePublicKey(to)]
  const text = `${ORIGIN}\n${before}\n${after}\n${created_at}\n`
  const sign = (key: SigningKey, publicKey: string) =>
    signatureLine(readPublicKey(publicKey), key.sign(encodeUtf8(text)))
  return `${text}\n${sign(from, before)}${sign(to, after)}`
}

/** Reads a note that both of its keys signed. @throws CheckpointError (key-change.md 3) */
export function readKeyChange(note: string): KeyChange {
  const { text, signatures } = splitNote(note)
  const [, from = '', to = '', created_at = ''] = STATEMENT.exec(text) ?? []
  if (created_at === '') throw new CheckpointError('this is not a statement about a new signing key')
  if (from === to) throw new CheckpointError('the statement names one key twice')
  const keys = [readPublicKey(from), readPublicKey(to)]
  const isSigned = (key: NoteKey, at: number) => {
    const signature = findSignature(signatures.slice(at, at + 1), key)
    return signature !== undefined && isSignedBy(key, encodeUtf8(text), signature)
  }
  if (signatures.length !== SIGNATURES || !keys.every(isSigned))
    throw new CheckpointError(
      'the statement about a new signing key was not signed by both keys, the earlier one first',
    )
  return { from, to, created_at }
}

/** Reads a note that both of its keys signed; undefined if it is not one. */
export function findKeyChange(note: string): KeyChange | undefined {
  return unlessThrown(() => readKeyChange(note), CheckpointError)
}

/** Reads statements that must follow from one another. @throws CheckpointError (key-change.md 4) */
export function followKeyChanges(notes: readonly string[]): KeyChange[] {
  const changes = notes.map(readKeyChange)
  const seen = new Set<string>()
  for (const [at, { from, to }] of changes.entries()) {
    if (at > 0 && changes[at - 1]?.to !== from)
      throw new CheckpointError('the statements about new signing keys do not follow from one another')
    seen.add(from)
    if (seen.has(to)) throw new CheckpointError('the statements about new signing keys lead back to an earlier key')
  }
  return changes
}

/** Lists the keys that these statements name, oldest first. */
export function listKeys(changes: readonly KeyChange[]): string[] {
  return [...changes.slice(0, 1).map(({ from }) => from), ...changes.map(({ to }) => to)]
}

/** Signs the public keys of an installation, oldest first; the last one is the signer's. Returns the note. */
export function signInstallation(signingKey: SigningKey, publicKeys: readonly string[]): string {
  return signNote(signingKey, installationText(publicKeys))
}

/** Reads the keys of an installation, oldest first; the last one signed. @throws CheckpointError (key-change.md 7) */
export function readInstallation(note: string): string[] {
  const [text = ''] = note.split('\n\n', 1)
  const publicKeys = text.split('\n').slice(1)
  if (publicKeys.length > MOST_KEYS || `${text}\n` !== installationText(publicKeys))
    throw new CheckpointError("this is not a statement of an installation's keys")
  for (const publicKey of publicKeys) readPublicKey(publicKey)
  if (new Set(publicKeys).size < publicKeys.length)
    throw new CheckpointError('the statement names one key of the installation twice')
  openNote(note, publicKeys.slice(-1))
  return publicKeys
}

function installationText(publicKeys: readonly string[]): string {
  return [INSTALLATION_ORIGIN, ...publicKeys].map((line) => `${line}\n`).join('')
}

/** Reads the keys, checkpoint files and witness keys against which a log is verified. */
import { type PublicKeys, readPublicKey } from '../formats/checkpoint.js'
import { readWitnessKey } from '../formats/cosignature.js'
import { CheckpointError, COSIGNATURE, ED25519, readNoteKey } from '../formats/signed-note.js'
import { findWitnessed, type Witnessed } from '../formats/witnessed.js'
import { unlessThrown } from '../unless-thrown.js'
import { type Kept, listWitnessedLines, readKept } from '../verify/kept-checkpoint.js'
import { readGiven } from './files.js'

const KEY_START = 'eaas-audit+'
/** The line of a verdict that rests on the key in the file itself. */
export const KEY_OF_FILE =
  'WARNING     the public key came from the file itself: give the one that you trust with --public-key'

/** Reads a public key, or the file that contains it. @throws CheckpointError, CommandError */
export async function readKey(text: string): Promise<string> {
  if (text.startsWith(KEY_START)) return assertKey(text)
  const key = (await readGiven(text)).trim()
  if (!key.startsWith(KEY_START))
    throw new CheckpointError(`${text} is not a public key, which must begin with ${KEY_START}`)
  return assertKey(key)
}

// A mistyped key must not make a sound export look invalid.
function assertKey(key: string): string {
  readPublicKey(key)
  return key
}

/** Says what is wrong with a witness's key and what to give instead; undefined if nothing is wrong. */
export function findWitnessKeyFault(text: string): string | undefined {
  if (isKey(text, COSIGNATURE)) return undefined
  if (isKey(text, ED25519)) return `${text} is the key of a log, which a witness does not cosign with. ${GIVE_KEY}`
  return `${text} is not the key of a witness, or was mistyped: its parts do not belong together. ${GIVE_KEY}`
}

const GIVE_KEY =
  'Give the whole key as eaas-audit witness --create printed it and EAAS_WITNESSES has it: <name>+<8 digits>+<base64>'

function isKey(text: string, type: number): boolean {
  return unlessThrown(() => readNoteKey(text, type), CheckpointError) !== undefined
}

/** Finds the checkpoint of the installation's log that all witnesses cosigned. @throws CheckpointError */
export function findWitnessedNote(
  kept: Kept,
  { publicKey, witness }: { publicKey: PublicKeys; witness: readonly string[] },
): Witnessed {
  return findWitnessed(listWitnessedLines(kept), { publicKey, witnesses: witness.map(readWitnessKey) })
}

/** Calls `read` with the content of checkpoint files. Its errors then name the files. @throws CheckpointError */
export async function readAs<T>(files: string | readonly string[], read: (kept: Kept) => T): Promise<T> {
  const kept = await readKeptFiles(files)
  try {
    return read(kept)
  } catch (error) {
    throw error instanceof CheckpointError
      ? new CheckpointError(`${[files].flat().join(', ')}: ${error.message}`)
      : error
  }
}

/** Reads checkpoint files as if they were one. @throws CheckpointError if one has no checkpoint, CommandError */
export async function readKeptFiles(files: string | readonly string[]): Promise<Kept> {
  return readKept(await Promise.all([files].flat().map(async (name) => ({ name, text: await readGiven(name) }))))
}

export function viewWitnessed(witnessed: Witnessed | undefined): {
  witnessed?: { entry_id: number; cosigned_at: string }
} {
  if (!witnessed) return {}
  const { last_id, seconds } = witnessed
  return { witnessed: { entry_id: last_id, cosigned_at: new Date(seconds * 1_000).toISOString() } }
}

export function describeWitnessed(witnessed: Witnessed | undefined): string[] {
  const view = viewWitnessed(witnessed).witnessed
  if (!view) return []
  return [
    `witnesses   cosigned entry ${view.entry_id} of the installation's log; the oldest cosignature is of ${view.cosigned_at}`,
  ]
}

/** Checks, with the tree next to a checkpoint, that witnesses saw the checkpoint's log, see tree.md 5. Pure. */
import { encodeBase64, encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { unlessThrown } from '../unless-thrown.js'
import { type Checkpoint, type PublicKeys, readCheckpoint } from './checkpoint.js'
import { COSIGNATURE_BYTES, readCosignature } from './cosignature.js'
import { inclusionProof, type Leaves, verifyInclusion } from './merkle.js'
import { CheckpointError, findBase64, type NoteKey, splitNote } from './signed-note.js'
import { readTree, readTreeKeys } from './tree.js'

/** The member `tree` of a line of the checkpoint file. */
export interface KeptTree {
  /** the note, with the cosignature lines of the witnesses */
  checkpoint: string
  /** the Merkle proof that the line's checkpoint is the last leaf: hashes in base64 */
  proof: string[]
}

/** The members of a checkpoint file's line that concern witnesses; `tree` is unchecked. */
export type WitnessedLine = { checkpoint: string; tree: unknown }

/** A checkpoint that every required witness cosigned. */
export interface Witnessed extends Checkpoint {
  note: string
  /** the time of the oldest cosignature, in seconds since 1970 */
  seconds: number
  /** the Merkle proof that the cosigned tree ends with the checkpoint */
  proof: Uint8Array[]
}

/** Makes the member `tree` of the line whose checkpoint states the last hash. */
export function keepTree(note: string, hashes: Leaves): KeptTree {
  return { checkpoint: note, proof: inclusionProof(hashes, hashes.length - 1).map(encodeBase64) }
}

/**
 * Reads a line's checkpoint that each of the witnesses cosigned, with the time of the oldest cosignature.
 * @throws CheckpointError if the key did not sign checkpoint and tree, the tree does not end with the checkpoint, or a
 * witness did not cosign it
 */
export function readWitnessed(
  { checkpoint: note, tree }: WitnessedLine,
  { publicKey, witnesses }: { publicKey: PublicKeys; witnesses: readonly NoteKey[] },
): Omit<Witnessed, 'note'> {
  const checkpoint = readCheckpoint(note, publicKey)
  const { checkpoint: treeNote, proof } = readMember(tree)
  const { size, root, text, signatures } = readTree(treeNote, readTreeKeys(publicKey))
  const { tenant_id, last_id, hash } = checkpoint
  if (tenant_id !== INSTALLATION_ID)
    throw new CheckpointError("only checkpoints of the installation's log have witnesses")
  if (size !== last_id || !verifyInclusion({ root, size, index: size - 1, leaf: hash, proof }))
    throw new CheckpointError('the checkpoint is not the end of the tree beside it')
  const times = witnesses.map((witness) => {
    const seconds = readCosignature(signatures, witness, text)
    if (seconds === undefined) throw new CheckpointError(`${witness.name} has not cosigned it`)
    return seconds
  })
  return { ...checkpoint, seconds: Math.min(...times), proof }
}

/**
 * Finds the first line that every witness cosigned, preferring those that `prefer` accepts. Lines come newest first.
 * @throws CheckpointError if there is none. It names the required witnesses that no line names, and those that lines do
 * name; if all required ones are named, it says what is wrong with the newest line
 */
export function findWitnessed(
  lines: readonly WitnessedLine[],
  {
    prefer,
    ...trusted
  }: { publicKey: PublicKeys; witnesses: readonly NoteKey[]; prefer?: ((known: Checkpoint) => boolean) | undefined },
): Witnessed {
  let newest: Witnessed | undefined
  let fault: CheckpointError | undefined
  for (const line of lines) {
    try {
      const read = readWitnessed(line, trusted)
      newest ??= { ...read, note: line.checkpoint }
      if (!prefer || prefer(read)) return { ...read, note: line.checkpoint }
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error
      fault ??= error
    }
  }
  if (newest) return newest
  if (!fault) throw new CheckpointError("it has no checkpoint of the installation's log that a witness has seen")
  throw notCosigned(lines, trusted.witnesses) ?? fault
}

// The file cannot tell why: the key is another witness's, the file is older than the witness, or the witness refused.
function notCosigned(lines: readonly WitnessedLine[], witnesses: readonly NoteKey[]): CheckpointError | undefined {
  const named = new Set(lines.flatMap(listCosigners))
  const silent = witnesses.map(shortName).filter((name) => !named.has(name))
  if (silent.length === 0) return undefined
  const others = named.size === 0 ? 'no line of it is cosigned' : `its lines are cosigned by ${[...named].join(', ')}`
  return new CheckpointError(
    `${silent.join(', ')} has not cosigned it: ${others}. Compare the key with EAAS_WITNESSES; if it is right, have the witness say why it does not cosign this log`,
  )
}

/** Lists the short names of the witnesses with a cosignature, unverified, in a line; none without a tree. */
export function listCosigners({ tree }: WitnessedLine): string[] {
  const { signatures = [] } = unlessThrown(() => splitNote(readMember(tree).checkpoint), CheckpointError) ?? {}
  // A cosignature contains a time, and so is longer than the log's own signature.
  return signatures.filter(({ signature }) => signature.length === COSIGNATURE_BYTES).map(shortName)
}

function shortName({ name, id }: Pick<NoteKey, 'name' | 'id'>): string {
  return `${name}+${encodeHex(id)}`
}

function readMember(tree: unknown): { checkpoint: string; proof: Uint8Array[] } {
  const { checkpoint, proof } = (tree ?? {}) as Partial<Record<keyof KeptTree, unknown>>
  if (typeof checkpoint !== 'string' || !Array.isArray(proof)) throw new CheckpointError('no witness has seen it')
  return { checkpoint, proof: proof.map(decodeNode) }
}

function decodeNode(text: unknown): Uint8Array {
  const node = typeof text === 'string' ? findBase64(text) : undefined
  if (!node) throw new CheckpointError('a hash of the proof beside the tree is not canonical base64')
  return node
}

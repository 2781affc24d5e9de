/** Decides what a witness answers to a request, see cosignature.md 4. Pure. */
import { equalBytes } from '../crypto.js'
import { type AddCheckpoint, readAddCheckpoint } from '../formats/cosignature.js'
import { merkleRoot, verifyConsistency } from '../formats/merkle.js'
import {
  CheckpointError,
  findSignature,
  type NoteKey,
  type SignedNote,
  signatureLine,
  splitNote,
} from '../formats/signed-note.js'
import { assertSigned, readTreeHead, type TreeHead } from '../formats/tree.js'

/** The keys of each log, by origin. */
export type LogKeys = ReadonlyMap<string, readonly NoteKey[]>

/** The last tree of a log that a witness cosigned. */
export type Seen = Pick<TreeHead, 'size' | 'root'>

/** A request whose note a key of the log signed. */
export interface Admitted extends Pick<AddCheckpoint, 'old' | 'proof'> {
  head: TreeHead
  /** the text that the log signed and the witness is to cosign */
  text: string
  /** the text with the log's signatures only */
  note: string
}

export class WitnessRefusal extends Error {
  override readonly name = 'WitnessRefusal'
  constructor(
    readonly status: 400 | 403 | 404 | 409 | 422,
    message: string,
    /** with 409: the last cosigned size */
    readonly size?: number,
  ) {
    super(message)
  }
}

/** Reads a request and checks who signed its note. @throws WitnessRefusal 400, 404 or 403 */
export function admit(body: Uint8Array, logs: LogKeys): Admitted {
  const { old, proof, note } = refuseAs(400, () => readAddCheckpoint(body))
  const signed = refuseAs(400, () => splitNote(note))
  const head = refuseAs(400, () => readTreeHead(signed.text))
  if (old > head.size) throw new WitnessRefusal(400, 'the old size is above that of the checkpoint')
  const keys = logs.get(head.origin)
  if (!keys) throw new WitnessRefusal(404, 'this witness does not know the log')
  refuseAs(403, () => assertSigned(signed, keys))
  return { old, proof, head, text: signed.text, note: noteOf(signed, keys) }
}

/** Checks that the tree continues the last one cosigned, if any. @throws WitnessRefusal 409 or 422 */
export function assertConsistent({ old, proof, head: { size, root } }: Admitted, seen: Seen | undefined): void {
  const { size: oldSize, root: oldRoot } = seen ?? { size: 0, root: merkleRoot([]) }
  if (old !== oldSize) throw new WitnessRefusal(409, 'the old size is not what this witness cosigned last', oldSize)
  if (seen && size === oldSize && !equalBytes(root, oldRoot))
    throw new WitnessRefusal(409, 'this witness cosigned another tree of this size', oldSize)
  if (!verifyConsistency({ oldRoot, oldSize, newRoot: root, newSize: size, proof }))
    throw new WitnessRefusal(422, 'the proof does not show that the tree continues what this witness cosigned last')
}

/** Whether the log signed a tree that was refused because it was not shown to continue the last one cosigned. */
export function contradicts({ old, head: { size, root } }: Admitted, seen: Seen): boolean {
  return old === seen.size && (size !== old || !equalBytes(root, seen.root))
}

function noteOf({ text, signatures }: SignedNote, keys: readonly NoteKey[]): string {
  const lines = keys.map((key) => {
    const signature = findSignature(signatures, key)
    return signature ? signatureLine(key, signature) : ''
  })
  return `${text}\n${lines.join('')}`
}

function refuseAs<T>(status: 400 | 403, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof CheckpointError) throw new WitnessRefusal(status, error.message)
    throw error
  }
}

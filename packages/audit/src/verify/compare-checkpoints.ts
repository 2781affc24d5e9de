/** Compares every checkpoint that was kept of a log with an export of it, see export.md 6. Pure. */
import { equalBytes } from '../crypto.js'
import { type Checkpoint, type PublicKeys, parseCheckpoint, readCheckpoint } from '../formats/checkpoint.js'
import { CheckpointError } from '../formats/signed-note.js'
import type { Stretch } from '../formats/stretch.js'
import type { AcceptedRollbacks } from './accepted-rollbacks.js'
import { ExportFault } from './read-export.js'

/** How the checkpoints of a log compare with an export that contradicts none of them. */
export interface ComparedCheckpoints {
  given: number
  /** those whose entries the file does not have */
  not_compared: number
  /** those of entries that the log lost, where an entry of the file says that an operator accepted that */
  accepted: number
}

/** Thrown for a kept checkpoint that contradicts an export, but that none of the keys signed. */
export class KeptNoteError extends CheckpointError {
  override readonly name = 'KeptNoteError'
}

/** What another entry in the place of a known one says. Which of the two it was, the entries don't tell. */
export const ANOTHER_LOG = 'the log was rewritten, or rolled back and written on'

/**
 * What a log that is shorter than its checkpoint says: by the times that the server signed, which of the two
 * is the older.
 */
export function endsBefore(log: string, end: Pick<Checkpoint, 'last_id' | 'created_at'>, kept: Checkpoint): string {
  const known =
    `${log} ended with entry ${end.last_id} when this was signed, at ${end.created_at}; ` +
    `the checkpoint of ${kept.created_at} is of entry ${kept.last_id}`
  if (kept.created_at > end.created_at) return `${known}: this is older than the checkpoint, or the log was rolled back`
  return `${known}: by these times, the log was rolled back`
}

interface Kept extends Checkpoint {
  note: string
}

/** Compares checkpoints of one log with its entries as they are read. */
export class CheckpointComparison {
  /** what is not compared yet, by the entries */
  readonly #left = new Map<number, Kept[]>()
  readonly #contradicting: Kept[] = []
  readonly #rollbacks: AcceptedRollbacks
  readonly #given: number
  #agreeing = 0

  /**
   * Signatures are checked of those alone that contradict something: there may be many thousand.
   * @param rollbacks of the log, complete once `judge` is called
   */
  constructor(notes: readonly string[], rollbacks: AcceptedRollbacks) {
    this.#rollbacks = rollbacks
    this.#given = notes.length
    for (const kept of notes.flatMap(parseKept))
      this.#left.set(kept.last_id, [...(this.#left.get(kept.last_id) ?? []), kept])
  }

  /** Compares those of an entry. */
  compare({ id, hash }: { id: number; hash: Uint8Array }): void {
    const kept = this.#left.get(id) ?? []
    const others = kept.filter((each) => !equalBytes(each.hash, hash))
    this.#left.delete(id)
    this.#agreeing += kept.length - others.length
    this.#contradicting.push(...others)
  }

  /**
   * Judges them by what was signed of the end. @throws ExportFault if one contradicts the export or another one,
   * KeptNoteError if it does and was not signed
   */
  judge(end: Stretch, publicKeys: PublicKeys): ComparedCheckpoints {
    this.compare({ id: end.head_id, hash: end.head_hash })
    const left = [...this.#left.values()]
    // What was signed after the export may be of entries that were written since.
    const beyond = left.flat().filter((kept) => kept.last_id > end.head_id && kept.created_at <= end.created_at)
    const contradicting = [...this.#contradicting, ...beyond].sort((a, b) => a.last_id - b.last_id)
    const wrong = contradicting.filter((kept) => !this.#rollbacks.find(kept))
    const [first] = wrong
    if (first) throw unsignedError(first, publicKeys) ?? faultOf(first, end)
    for (const kept of left) this.#assertOneHash(kept, publicKeys)
    const accepted = contradicting.length - wrong.length
    return { given: this.#given, not_compared: this.#given - this.#agreeing - accepted, accepted }
  }

  // The file does not have the entry: which of the two is of this log, it cannot tell.
  #assertOneHash(kept: readonly Kept[], publicKeys: PublicKeys): void {
    const [one, ...others] = kept.filter((each) => !this.#rollbacks.find(each) && !unsignedError(each, publicKeys))
    const other = one && others.find(({ hash }) => !equalBytes(hash, one.hash))
    if (!other) return
    const reason = `the checkpoints of ${one.created_at} and of ${other.created_at} state different hashes of entry ${one.last_id}`
    throw new ExportFault(`${reason}: ${ANOTHER_LOG}, and ${NOT_ACCEPTED}`, one.last_id)
  }
}

const NOT_ACCEPTED = 'no entry of the export accepts that (audit.rollback_accepted)'

function faultOf(kept: Kept, end: Stretch): ExportFault {
  const { last_id, created_at } = kept
  if (last_id > end.head_id) {
    const known = { last_id: end.head_id, created_at: end.created_at }
    return new ExportFault(endsBefore('the log', known, kept), end.head_id + 1)
  }
  const reason = `entry ${last_id} is not the one of the checkpoint of ${created_at}: ${ANOTHER_LOG}, and ${NOT_ACCEPTED}`
  return new ExportFault(reason, last_id)
}

/** Describes what the checkpoints beside the one that a verdict names add to it; nothing if all agree. */
export function describeCheckpoints({ given, not_compared, accepted }: ComparedCheckpoints): string[] {
  return [
    ...(not_compared > 0
      ? [`${not_compared} of ${given} of this log could not be compared: the file does not have their entries`]
      : []),
    ...(accepted > 0
      ? [
          `${accepted} of ${given} of this log are of entries that it lost: an operator accepted that, by entries audit.rollback_accepted`,
        ]
      : []),
  ]
}

/** None of a line that a crash cut short or somebody edited: it proves nothing. */
function parseKept(note: string): Kept[] {
  try {
    return [{ ...parseCheckpoint(note), note }]
  } catch (error) {
    if (error instanceof CheckpointError) return []
    throw error
  }
}

/** What to say of a checkpoint that contradicts and that none of the keys signed; undefined if one of them did. */
function unsignedError({ note, last_id, created_at }: Kept, publicKeys: PublicKeys): KeptNoteError | undefined {
  try {
    readCheckpoint(note, publicKeys)
    return undefined
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    return new KeptNoteError(
      `the checkpoint of ${created_at} contradicts the export at entry ${last_id}, but cannot be trusted: ${error.message}. If its line was edited, remove it; if another key signed it, ask the operator why`,
    )
  }
}

/** Compares every checkpoint that was kept of a log, and of the installation's, with an export of it, see export.md 6. Pure. */
import { INSTALLATION_ID } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { type Checkpoint, type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import { CheckpointError } from '../formats/signed-note.js'
import type { Stretch } from '../formats/stretch.js'
import type { AcceptedRollbacks } from './accepted-rollbacks.js'
import { byNewest, findNote, namedOf } from './kept-checkpoint.js'
import { ExportFault } from './read-export.js'
import type { KeptStatement } from './verify-export.js'

/** How the checkpoints that were given compare with an export that contradicts none of them. */
export interface ComparedCheckpoints {
  given: number
  /** those whose entries the file does not have, nor is linked to; and what another installation signed */
  not_compared: number
  /** those of entries that the log lost, where an entry of the file says that an operator accepted that */
  accepted: number
}

/** Thrown for a kept checkpoint of the log that contradicts an export, but that none of the keys signed. */
export class KeptNoteError extends CheckpointError {
  override readonly name = 'KeptNoteError'
}

/** What another entry in the place of a known one says. Which of the two it was, the entries don't tell. */
export const ANOTHER_LOG = 'the log was rewritten, or rolled back and written on'

/** What an export shows of the installation's log, by its anchor (export.md 8 and 9). */
export interface ShownInstallation {
  /** where the log ended, and when that was signed */
  head_id: number
  created_at: string
  /** the entries with their hashes that it shows */
  known: readonly Pick<Checkpoint, 'last_id' | 'hash'>[]
  /** whether the file has the entry of the tenant that the anchor covers */
  isCovering: boolean
}

/** What all checkpoints together say of an export that contradicts none. */
export interface Comparison {
  /** the one that the verdict names: the newest that could not be compared, if none that agrees is as new */
  named: Checkpoint
  /** whether that one was compared */
  isCompared: boolean
  counted: ComparedCheckpoints
}

/** `later`: of an entry behind the end, and signed after the export, which so says nothing of it */
type State = 'agrees' | 'contradicts' | 'later'

interface Kept extends Checkpoint {
  note: string
  /** undefined as long as it was not compared */
  state?: State
}

/** Compares checkpoints with a log as its entries are read. */
export class CheckpointComparison {
  readonly #named: Kept
  /** all, the newest first */
  readonly #kept: readonly Kept[]
  /** those of the log itself of entries that were not read yet, by these */
  readonly #left = new Map<number, Kept[]>()
  readonly #signers: PublicKeys
  readonly #tenant_id: string
  readonly #rollbacks: AcceptedRollbacks
  readonly #given: number

  /**
   * Signatures are checked of the named one and of those alone that the verdict rests on: there may be many thousand.
   * @param named by default the newest of the log, or else the newest
   * @param rollbacks of the log, complete once `judge` is called
   * @throws CheckpointError if none of the signers signed the named one, ExportFault if it is of another log
   */
  constructor(
    named: string | undefined,
    notes: readonly string[],
    options: { tenant_id: string; signers: PublicKeys; rollbacks: AcceptedRollbacks },
  ) {
    this.#tenant_id = options.tenant_id
    this.#signers = options.signers
    this.#rollbacks = options.rollbacks
    const isOfLog = ({ tenant_id }: Kept) => tenant_id === options.tenant_id || tenant_id === INSTALLATION_ID
    const given = [...new Set(named === undefined ? notes : [named, ...notes])]
    const known = given.flatMap((note): Kept | [] => findNote(note) ?? []).filter(isOfLog)
    const note = named ?? namedOf(known, options.tenant_id)?.note
    if (note === undefined) throw new ExportFault('none of the checkpoints is of this tenant or of the installation')
    this.#named = { ...readCheckpoint(note, options.signers), note }
    if (!isOfLog(this.#named)) throw new ExportFault('the checkpoint belongs to another tenant')
    this.#given = given.length
    this.#kept = [this.#named, ...known.filter((other) => other.note !== note)].sort(byNewest)
    for (const kept of this.#kept)
      if (this.#isOwn(kept)) this.#left.set(kept.last_id, [...(this.#left.get(kept.last_id) ?? []), kept])
  }

  /** The one that the verdict is to name. */
  get named(): Checkpoint {
    return this.#named
  }

  /** Compares those of an entry. Returns what the named one says against it, if it does. */
  compare({ id, hash }: { id: number; hash: Uint8Array }): ExportFault | undefined {
    const found = this.#left.get(id) ?? []
    this.#left.delete(id)
    for (const kept of found) kept.state = equalBytes(kept.hash, hash) ? 'agrees' : 'contradicts'
    return found.includes(this.#named) && this.#named.state === 'contradicts'
      ? new ExportFault(`entry ${id} is not the one of the checkpoint: ${ANOTHER_LOG}`, id)
      : undefined
  }

  /** Whether one that agrees is of this entry, so that a file which begins behind it misses nothing. */
  joins(id: number): boolean {
    return this.#kept.some((kept) => kept.last_id === id && this.#isOwn(kept) && this.#isAgreeing(kept))
  }

  /**
   * Judges all by what was signed of the ends. @throws ExportFault if one contradicts the export or another one,
   * KeptNoteError if it does and was not signed
   */
  judge(end: Stretch, installation: ShownInstallation | undefined): Comparison {
    for (const kept of this.#kept) {
      if (kept.state !== undefined) continue
      const state = this.#isOwn(kept)
        ? this.#stateAtEnd(kept, end)
        : installation && this.#stateBeside(kept, installation)
      if (state) kept.state = state
    }
    const wrong = this.#kept.filter(({ state }) => state === 'contradicts')
    const excused = wrong.filter((kept) => this.#isExcused(kept))
    const [first] = wrong.filter((kept) => !excused.includes(kept)).sort((a, b) => this.#order(a, b))
    if (first) throw unsignedError(first, this.#signers) ?? this.#faultOf(first, end, installation)
    const silent = this.#kept.filter(({ state }) => state === undefined || state === 'later')
    for (const kept of byEntry(silent)) this.#assertOneHash(kept)
    const unparsed = this.#given - this.#kept.length
    const unused = this.#findUnused(installation)
    return {
      named: unused ?? this.#named,
      isCompared: !unused && this.#named.state === 'agrees',
      counted: { given: this.#given, not_compared: silent.length + unparsed, accepted: excused.length },
    }
  }

  /**
   * Which entry may explain that the log contradicts the named checkpoint, and what to give; empty if none does. It is
   * the log's own word, so it counts only beside a newer checkpoint that agrees (export.md 6).
   */
  explain(kept: Kept = this.#named): string {
    const accepted = this.#isOwn(kept) && this.#rollbacks.find(kept)
    if (!accepted) return ''
    return `; by entry ${accepted.id}, audit.rollback_accepted, an operator accepted at ${accepted.created_at} that entries through ${accepted.through} were lost. Give a checkpoint from after that too: if the log agrees with it, this one counts as of a lost entry`
  }

  #isOwn({ tenant_id }: Checkpoint): boolean {
    return tenant_id === this.#tenant_id
  }

  #isAgreeing(kept: Kept): boolean {
    return kept.state === 'agrees' && !unsignedError(kept, this.#signers)
  }

  #stateAtEnd(kept: Kept, { head_id, head_hash, created_at }: Stretch): State | undefined {
    if (kept.last_id === head_id) return equalBytes(kept.hash, head_hash) ? undefined : 'contradicts'
    return kept.last_id > head_id ? this.#stateBehind(kept, created_at) : undefined
  }

  // Another installation's log has the same id, and its checkpoints may stand in the same file.
  #stateBeside(kept: Kept, installation: ShownInstallation): State | undefined {
    const state = this.#stateIn(kept, installation)
    return state && unsignedError(kept, this.#signers) ? undefined : state
  }

  // A checkpoint of the installation's log vouches for the tenant only by the anchor.
  #stateIn(kept: Kept, { head_id, created_at, known, isCovering }: ShownInstallation): State | undefined {
    if (kept.last_id > head_id) return this.#stateBehind(kept, created_at)
    const same = known.filter(({ last_id }) => last_id === kept.last_id)
    if (same.some(({ hash }) => !equalBytes(hash, kept.hash))) return 'contradicts'
    return same.length > 0 && isCovering ? 'agrees' : undefined
  }

  // What was signed after the export may be of entries that were written since.
  #stateBehind(kept: Kept, signed_at: string): State {
    return kept === this.#named || kept.created_at <= signed_at ? 'contradicts' : 'later'
  }

  /** Whether an operator accepted the loss: the log's own word, which never counts against its newest checkpoint. */
  #isExcused(kept: Kept): boolean {
    if (!this.#isOwn(kept) || !this.#rollbacks.find(kept)) return false
    const newer = this.#kept.slice(0, this.#kept.indexOf(kept))
    return newer.some((other) => (this.#isOwn(other) || other === this.#named) && this.#isAgreeing(other))
  }

  /**
   * The newest that could not be compared, if none that agrees was signed as late. With a file that has no anchor, none
   * of the installation can be.
   */
  #findUnused(installation: ShownInstallation | undefined): Kept | undefined {
    const newest = this.#kept.find((kept) => this.#isAgreeing(kept))
    return this.#kept.find(
      (kept) =>
        kept.state === undefined &&
        (installation !== undefined || this.#isOwn(kept)) &&
        newest !== undefined &&
        kept.created_at > newest.created_at &&
        !unsignedError(kept, this.#signers),
    )
  }

  /** Those of the log itself first, by their entries. */
  #order(a: Kept, b: Kept): number {
    return Number(this.#isOwn(b)) - Number(this.#isOwn(a)) || a.last_id - b.last_id
  }

  // The file does not have the entry: which of the two is of this log, it cannot tell.
  #assertOneHash(kept: readonly Kept[]): void {
    if (!findOther(kept)) return
    const signed = kept.filter(
      (each) => !(this.#isOwn(each) && this.#rollbacks.find(each)) && !unsignedError(each, this.#signers),
    )
    const [one] = signed
    const other = findOther(signed)
    if (!one || !other) return
    const reason = `the checkpoints of ${other.created_at} and of ${one.created_at} state different hashes of entry ${one.last_id}`
    if (this.#isOwn(one)) throw new ExportFault(`${reason}: ${ANOTHER_LOG}, and ${NOT_ACCEPTED}`, one.last_id)
    throw new ExportFault(`${reason} of the installation's log: ${ANOTHER_LOG}; ${LEAVE_OUT}`)
  }

  #faultOf(kept: Kept, end: Stretch, installation: ShownInstallation | undefined): ExportFault {
    if (this.#isOwn(kept)) return ownFault(kept, end, this.explain(kept))
    const { last_id, created_at } = kept
    const isNewerThere = this.#kept.some(
      (other) => !this.#isOwn(other) && this.#isAgreeing(other) && byNewest(other, kept) < 0,
    )
    const hint = isNewerThere ? `; ${LEAVE_OUT}` : ''
    if (installation && last_id > installation.head_id)
      return new ExportFault(`${endsBefore("the installation's log", installation, kept)}${hint}`)
    return new ExportFault(
      `entry ${last_id} of the installation's log is not that of the checkpoint of ${created_at}: ${ANOTHER_LOG}${hint}`,
    )
  }
}

/** Checkpoints of one entry of one log together. */
function byEntry(kept: readonly Kept[]): Iterable<Kept[]> {
  const entries = new Map<string, Kept[]>()
  for (const one of kept) {
    const entry = `${one.tenant_id} ${one.last_id}`
    const known = entries.get(entry)
    if (known) known.push(one)
    else entries.set(entry, [one])
  }
  return entries.values()
}

/** The first with another hash than the very first. */
function findOther([one, ...others]: readonly Kept[]): Kept | undefined {
  return one && others.find(({ hash }) => !equalBytes(hash, one.hash))
}

function ownFault(kept: Kept, end: Stretch, why: string): ExportFault {
  const { last_id, created_at } = kept
  if (last_id > end.head_id) return new ExportFault(`${endsBefore('the log', end, kept)}${why}`, end.head_id + 1)
  const reason = `entry ${last_id} is not the one of the checkpoint of ${created_at}: ${ANOTHER_LOG}`
  return new ExportFault(`${reason}${why || `, and ${NOT_ACCEPTED}`}`, last_id)
}

const NOT_ACCEPTED = 'no entry of the export accepts that (audit.rollback_accepted)'
/** The entries that accept a rollback of the installation's log are in no export of a tenant. */
const LEAVE_OUT =
  'if an operator accepted a rollback of that log since, have it explained, and give only checkpoints of it from after that'

/**
 * What a log that is shorter than its checkpoint says: by the times that the server signed, which of the two
 * is the older.
 */
function endsBefore(log: string, end: Pick<Stretch, 'head_id' | 'created_at'>, kept: Checkpoint): string {
  const known =
    `${log} ended with entry ${end.head_id} when this was signed, at ${end.created_at}; ` +
    `the checkpoint of ${kept.created_at} is of entry ${kept.last_id}`
  if (kept.created_at > end.created_at) return `${known}: this is older than the checkpoint, or the log was rolled back`
  return `${known}: by these times, the log was rolled back`
}

/**
 * Names what a checkpoint states, so that its owner can tell it from others: entry, log, hash as in the note,
 * and time.
 */
export function describeStatement({ tenant_id, id, hash, signed_at }: KeptStatement): string {
  const log = tenant_id === INSTALLATION_ID ? "the installation's log" : 'the log'
  return `entry ${id} of ${log}, hash ${hash}, signed at ${signed_at}`
}

/** Describes what the checkpoints beside the one that a verdict names add to it; nothing if all agree. */
export function describeCheckpoints({ given, not_compared, accepted }: ComparedCheckpoints): string[] {
  return [
    ...(not_compared > 0
      ? [
          `${not_compared} of ${given} could not be compared: the file does not have their entries, nor is linked to them, or another installation signed them`,
        ]
      : []),
    ...(accepted > 0
      ? [
          `${accepted} of ${given} are of entries that the log lost: an operator accepted that, by entries audit.rollback_accepted`,
        ]
      : []),
  ]
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

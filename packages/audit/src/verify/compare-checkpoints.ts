/** Compares the kept checkpoints of a log, and of the installation's log, with an export of it, see export.md 6. Pure. */
import { INSTALLATION_ID, listTexts } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { type Checkpoint, type PublicKeys, parseCheckpoint, readCheckpoint } from '../formats/checkpoint.js'
import { CheckpointError } from '../formats/signed-note.js'
import type { Stretch } from '../formats/stretch.js'
import type { AcceptedRollbacks } from './accepted-rollbacks.js'
import { byNewest, findNote, namedOf } from './kept-checkpoint.js'
import { ExportFault } from './read-export.js'
import type { KeptStatement } from './verify-export.js'

/** How the given checkpoints compare with an export that contradicts none of them. */
export interface ComparedCheckpoints {
  given: number
  /** those that the installation's keys did not sign, or whose entries the file neither has nor is linked to */
  not_compared: number
  /** those of lost entries, if an entry of the file says that an operator accepted the loss */
  accepted: number
}

/** Thrown for a kept checkpoint that contradicts the export but was not signed by any of the keys. */
export class KeptNoteError extends CheckpointError {
  override readonly name = 'KeptNoteError'
}

/** The meaning of another hash at a known entry's id. The entries cannot tell which of the two happened. */
export const ANOTHER_LOG = 'the log was rewritten, or rolled back and written on'

/** What an export shows of the installation's log, with its anchor (export.md 8 and 9). */
export interface ShownInstallation {
  /** where the log ended, and when that was signed */
  head_id: number
  created_at: string
  /** the entries shown, with their hashes */
  known: readonly Pick<Checkpoint, 'last_id' | 'hash'>[]
  /** whether the file has the tenant's entry that the anchor covers */
  isCovering: boolean
}

/** Why a checkpoint was not compared: the installation's keys did not sign it, or the file lacks its entry. */
export type Unused = 'unsigned' | 'missing'

/** What all checkpoints together say about an export that contradicts none of them. */
export interface Comparison {
  /** the checkpoint that the verdict names: the newest one that could not be compared, or the one that was to be named */
  named: Checkpoint
  isCompared: boolean
  unused: Unused | undefined
  /** the checkpoint that was to be named, if it agrees */
  agreeing: Checkpoint | undefined
  counted: ComparedCheckpoints
}

type State = 'agrees' | 'contradicts'

interface Kept extends Checkpoint {
  note: string
  /** undefined while not compared; stays so if the export was signed before the checkpoint and ends before its entry */
  state?: State
}

export class CheckpointComparison {
  readonly #named: Kept
  /** all, the newest first */
  readonly #kept: readonly Kept[]
  /** the log's own checkpoints whose entries are still unread, by entry id */
  readonly #left = new Map<number, Kept[]>()
  readonly #signers: PublicKeys
  readonly #installation: PublicKeys
  readonly #tenant_id: string
  readonly #rollbacks: AcceptedRollbacks
  readonly #given: number

  /**
   * Checks only the signatures of `named`, by default the result of `namedOf`, and of those that the verdict rests on:
   * there may be thousands. `signers` signed this log, `installation` the installation's. @throws CheckpointError if
   * `named` is not signed, ExportFault if it belongs to another log
   */
  constructor(
    named: string | undefined,
    notes: readonly string[],
    options: { tenant_id: string; signers: PublicKeys; installation: PublicKeys; rollbacks: AcceptedRollbacks },
  ) {
    this.#tenant_id = options.tenant_id
    this.#signers = options.signers
    this.#installation = options.installation
    this.#rollbacks = options.rollbacks
    const isOfLog = ({ tenant_id }: Kept) => tenant_id === options.tenant_id || tenant_id === INSTALLATION_ID
    const given = [...new Set(named === undefined ? notes : [named, ...notes])]
    const known = given.flatMap((note): Kept | [] => findNote(note) ?? []).filter(isOfLog)
    const note = named ?? namedOf(known, { ...options, signers: options.installation })?.note
    if (note === undefined) throw new ExportFault('none of the checkpoints is of this tenant or of the installation')
    this.#named = { ...parseCheckpoint(note), note }
    readCheckpoint(note, this.#signersOf(this.#named))
    if (!isOfLog(this.#named)) throw new ExportFault('the checkpoint belongs to another tenant')
    this.#given = given.length
    this.#kept = [this.#named, ...known.filter((other) => other.note !== note)].sort(byNewest)
    for (const kept of this.#kept)
      if (this.#isOwn(kept)) this.#left.set(kept.last_id, [...(this.#left.get(kept.last_id) ?? []), kept])
  }

  get named(): Checkpoint {
    return this.#named
  }

  /** Compares the checkpoints for an entry. Returns a fault if the named one contradicts it. */
  compare({ id, hash }: { id: number; hash: Uint8Array }): ExportFault | undefined {
    const found = this.#left.get(id) ?? []
    this.#left.delete(id)
    for (const kept of found) kept.state = equalBytes(kept.hash, hash) ? 'agrees' : 'contradicts'
    return found.includes(this.#named) && this.#named.state === 'contradicts'
      ? new ExportFault(`entry ${id} is not the one of the checkpoint: ${ANOTHER_LOG}`, id)
      : undefined
  }

  /** Whether a checkpoint for this entry agrees: then a file that begins after the entry misses nothing. */
  joins(id: number): boolean {
    return this.#kept.some((kept) => kept.last_id === id && this.#isOwn(kept) && this.#isAgreeing(kept))
  }

  /**
   * Judges all checkpoints once the signed ends of the logs are known. @throws ExportFault if one contradicts the
   * export or another checkpoint, KeptNoteError if it was signed by none of the keys
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
    if (first) throw this.#unsignedError(first) ?? this.#faultOf(first, end, installation)
    const silent = this.#kept.filter(({ state }) => state === undefined)
    for (const kept of byEntry(silent)) this.#assertOneHash(kept)
    const unparsed = this.#given - this.#kept.length
    const [unused] = silent
    const agreeing = this.#named.state === 'agrees' ? this.#named : undefined
    return {
      named: unused ?? this.#named,
      isCompared: !unused && unparsed === 0 && agreeing !== undefined,
      unused: unused && (this.#unsignedError(unused) ? 'unsigned' : 'missing'),
      agreeing,
      counted: { given: this.#given, not_compared: silent.length + unparsed, accepted: excused.length },
    }
  }

  /**
   * Names the entry that may explain why the log contradicts a checkpoint, and what to give; empty if there is none. An
   * entry is the log's own word, so it only counts together with a newer checkpoint that agrees (export.md 6).
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
    return kept.state === 'agrees' && !this.#unsignedError(kept)
  }

  #signersOf({ tenant_id }: Checkpoint): PublicKeys {
    return tenant_id === INSTALLATION_ID ? this.#installation : this.#signers
  }

  #unsignedError(kept: Kept): KeptNoteError | undefined {
    return unsignedError(kept, this.#signersOf(kept))
  }

  #stateAtEnd(kept: Kept, { head_id, head_hash, created_at }: Stretch): State | undefined {
    if (kept.last_id === head_id) return equalBytes(kept.hash, head_hash) ? undefined : 'contradicts'
    return kept.last_id > head_id ? this.#stateBehind(kept, created_at) : undefined
  }

  // The logs of all installations have the same id, so a file may hold checkpoints of another one.
  #stateBeside(kept: Kept, installation: ShownInstallation): State | undefined {
    const state = this.#stateIn(kept, installation)
    return state && this.#unsignedError(kept) ? undefined : state
  }

  // A checkpoint of the installation's log vouches for the tenant's log only through the anchor.
  #stateIn(kept: Kept, { head_id, created_at, known, isCovering }: ShownInstallation): State | undefined {
    if (kept.last_id > head_id) return this.#stateBehind(kept, created_at)
    const same = known.filter(({ last_id }) => last_id === kept.last_id)
    if (same.some(({ hash }) => !equalBytes(hash, kept.hash))) return 'contradicts'
    return same.length > 0 && isCovering ? 'agrees' : undefined
  }

  // If it was signed after the export, its entry may have been written since.
  #stateBehind(kept: Kept, signed_at: string): State | undefined {
    return kept === this.#named || kept.created_at <= signed_at ? 'contradicts' : undefined
  }

  /** Whether an operator accepted the loss. Only the log says so, which never excuses the newest checkpoint. */
  #isExcused(kept: Kept): boolean {
    if (!this.#isOwn(kept) || !this.#rollbacks.find(kept)) return false
    const newer = this.#kept.slice(0, this.#kept.indexOf(kept))
    return newer.some((other) => (this.#isOwn(other) || other === this.#named) && this.#isAgreeing(other))
  }

  /** Orders the log's own checkpoints first, then by entry. */
  #order(a: Kept, b: Kept): number {
    return Number(this.#isOwn(b)) - Number(this.#isOwn(a)) || a.last_id - b.last_id
  }

  // The file lacks the entry, so it cannot tell which of two hashes belongs to this log.
  #assertOneHash(kept: readonly Kept[]): void {
    if (!findOther(kept)) return
    const signed = kept.filter(
      (each) => !(this.#isOwn(each) && this.#rollbacks.find(each)) && !this.#unsignedError(each),
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

function findOther([one, ...others]: readonly Kept[]): Kept | undefined {
  return one && others.find(({ hash }) => !equalBytes(hash, one.hash))
}

function ownFault(kept: Kept, end: Stretch, why: string): ExportFault {
  const { last_id, created_at } = kept
  if (last_id > end.head_id) return new ExportFault(`${endsBefore('the log', end, kept)}${why}`, end.head_id + 1)
  const reason = `entry ${last_id} is not the one of the checkpoint of ${created_at}: ${ANOTHER_LOG}`
  return new ExportFault(`${reason}${why || `, and ${NOT_ACCEPTED}`}`, last_id)
}

export const NOT_ACCEPTED = 'no entry of the export accepts that (audit.rollback_accepted)'
/** Advice: a tenant's export never has the entries that accept a rollback of the installation's log. */
const LEAVE_OUT =
  'if an operator accepted a rollback of that log since, have it explained, and give only checkpoints of it from after that'

/** Advice: an export is compared only with checkpoints that a key of its installation signed, up to the export. */
export const OTHER_SIGNER =
  'If the operator replaced the key after the export, have the export made again. Leave the checkpoint out only if you know that it is of another installation, such as one that the tenant left, and compare it with an export from there'

/** Describes a log that ends before its checkpoint. The signed times tell which of the two is older. */
function endsBefore(log: string, end: Pick<Stretch, 'head_id' | 'created_at'>, kept: Checkpoint): string {
  const known =
    `${log} ended with entry ${end.head_id} when this was signed, at ${end.created_at}; ` +
    `the checkpoint of ${kept.created_at} is of entry ${kept.last_id}`
  if (kept.created_at > end.created_at) return `${known}: this is older than the checkpoint, or the log was rolled back`
  return `${known}: by these times, the log was rolled back`
}

/** Describes a checkpoint, so that its owner can tell it from others. */
export function describeStatement({ tenant_id, id, hash, signed_at }: KeptStatement): string {
  const log = tenant_id === INSTALLATION_ID ? "the installation's log" : 'the log'
  return `entry ${id} of ${log}, hash ${hash}, signed at ${signed_at}`
}

/** Describes what the checkpoints other than the named one add to a verdict; nothing if all agree. */
export function describeCheckpoints({ given, not_compared, accepted }: ComparedCheckpoints): string[] {
  return listTexts(
    not_compared > 0 &&
      `${not_compared} of ${given} could not be compared: the file does not have their entries, nor is linked to them, or the installation's keys did not sign them`,
    accepted > 0 &&
      `${accepted} of ${given} are of entries that the log lost: an operator accepted that, by entries audit.rollback_accepted`,
  )
}

/** Makes the error for a contradicting checkpoint that none of the keys signed; undefined if one of them did. */
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

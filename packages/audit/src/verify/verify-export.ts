/** Verifies an export offline from the file and a public key, see export.md. Imports only code of the specifications. */
import { encodeBase64, INSTALLATION_ID } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { type AuditEntry, entryHash, genesisHash, hasTimeGoneBack, readMetadata } from '../formats/chain.js'
import { type Checkpoint, type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import type { ExportAnchor, ExportHeader, ExportLinks, ExportTrailer } from '../formats/export.js'
import { followKeyChanges, type KeyChange, listKeys, readInstallation } from '../formats/key-change.js'
import { RunningRoot } from '../formats/merkle.js'
import { readEntryTree } from '../formats/proof.js'
import { CheckpointError } from '../formats/signed-note.js'
import { readStretch, type Stretch } from '../formats/stretch.js'
import { readTreeKey } from '../formats/tree.js'
import { AcceptedRollbacks, type CountedRollbacks } from './accepted-rollbacks.js'
import {
  ANOTHER_LOG,
  CheckpointComparison,
  type ComparedCheckpoints,
  KeptNoteError,
  type ShownInstallation,
  type Unused,
} from './compare-checkpoints.js'
import { assertContinues, assertCovers, assertLinks, readAnchorPosition } from './exported-anchor.js'
import { type Move, readMove } from './moves.js'
import {
  type ExportedEntry,
  ExportFault,
  isAnchor,
  isLinks,
  isTrailer,
  NO_INSTALLATION,
  readAnchorLine,
  readEntry,
  readHeader,
  readLinksLine,
  readTrailer,
} from './read-export.js'
import { createRightsHistory, type RightsFault, type RightsHistory } from './rights-history.js'

export interface ExportVerdict {
  valid: boolean
  tenant_id?: string
  verified_entries: number
  /** the id after which the entries begin */
  after_id?: number
  last_id?: number
  /** the last entry of the log when the export was signed; greater than `last_id` for a stretch (export.md 4) */
  head_id?: number
  missing?: Missing[]
  whole?: boolean
  /** whether the signing key was given by the caller, not only by the file */
  trusted_key: boolean
  /**
   * if another key than the signing one was given: the statements by which the given key vouches for the signing one. A
   * thief of the given key could also write them
   */
  key_changes?: KeyChange[]
  /** if checkpoints were given: whether all were compared */
  checkpoint_compared?: boolean
  /** the given checkpoint, once its signature was verified, or the newest one that could not be compared */
  checkpoint?: KeptStatement
  /** why that checkpoint could not be compared */
  unused?: Unused | undefined
  /** if several checkpoints were given: how all compare */
  checkpoints?: ComparedCheckpoints
  /** set if entries of the file say that an operator accepted the loss of entries */
  accepted_rollbacks?: CountedRollbacks
  /** if the file has entries by which the tenant moved to another installation */
  moves?: Move[]
  signed_at?: string
  /** the key that signed the export, as the file states it */
  public_key?: string
  /** the name of the installation's tree, as that key states it */
  tree?: string
  /** whether the caller gave that name */
  trusted_tree?: boolean
  /** the last signed entry, if the file ends before it: the file was truncated, or joined wrongly */
  signed_through?: number
  /** the last purged entry, if a purge is why the log does not begin with entry 1 */
  purged_through?: number
  /** the anchor in the installation's log that covers the tenant, if the file has one (export.md 8) */
  anchor?: {
    id: number
    created_at: string
    tenants: number
    /** the tenant's head that it covers */
    last_id: number
    /** whether the file has the entry of that head */
    compared: boolean
    /**
     * if a checkpoint of the installation's log was compared: whether it vouches for the anchor, because it is for the
     * anchor's entry, or because the tree that witnesses cosigned with it contains the anchor. If not, only the server
     * says that both belong to one log, and its keys could sign another
     */
    vouched?: boolean
  }
  /** the first entry that is wrong or missing */
  broken_at?: number
  /** the first line that is wrong, counted from 1 */
  line?: number
  reason?: string
}

export interface KeptStatement {
  /** the tenant of the log */
  tenant_id: string
  id: number
  /** `h` of that entry, in base64 as in the note */
  hash: string
  signed_at: string
}

/** Makes what a verdict says about a checkpoint. */
export function viewCheckpoint({ tenant_id, last_id, hash, created_at }: Checkpoint): KeptStatement {
  return { tenant_id, id: last_id, hash: encodeBase64(hash), signed_at: created_at }
}

/** `beginning`: before the first entry; `end`: after the last one */
export type Missing = 'beginning' | 'end'

export interface VerifyExportOptions {
  /**
   * the public keys to trust; by default the one in the file, which proves nothing against a forger. A key may be from
   * before or after a key change that the file states
   */
  publicKey?: PublicKeys | undefined
  /** the name that the installation's tree must have (tree.md 2) */
  tree?: string | undefined
  /** the note of the checkpoint that the verdict names; by default the newest of `checkpoints`, first those of the log itself */
  checkpoint?: string | undefined
  /** the notes of all kept checkpoints of this log and the installation's: none may contradict the file (export.md 6) */
  checkpoints?: readonly string[]
  /** if witnesses cosigned a tree that ends with `checkpoint`: its proof (tree.md 5) */
  treeProof?: readonly Uint8Array[] | undefined
  /** called with each verified entry; its content counts only if the verdict is valid */
  onEntry?: ((entry: ExportedEntry) => void) | undefined
  onProgress?: ((entries: number) => void) | undefined
}

const PROGRESS_ENTRIES = 50_000

/** Advice for a key that did not sign a genuine file: the file may be older than the key. */
export const IF_REPLACED = '; if the operator replaced the key since, give the earlier one'

/**
 * Verifies the lines of an export, each without its line feed. Never throws because of the file's content, which the
 * verdict reports. @throws KeptNoteError if one of `checkpoints` contradicts the file and was not signed
 */
export async function verifyExport(
  lines: AsyncIterable<string> | Iterable<string>,
  { onProgress, ...options }: VerifyExportOptions = {},
): Promise<ExportVerdict> {
  const reader = new ExportReader(options)
  const { verdict } = reader
  let line = 0
  let refused: ExportVerdict | undefined
  const refuse = ({ reason, entry_id }: ExportFault): ExportVerdict => ({
    ...verdict,
    ...{ line, reason, ...(entry_id === undefined ? {} : { broken_at: entry_id }) },
  })
  try {
    for await (const text of lines) {
      line += 1
      reader.read(text)
      refused ??= reader.contradiction && refuse(reader.contradiction)
      if (verdict.verified_entries % PROGRESS_ENTRIES === 0) onProgress?.(verdict.verified_entries)
    }
    line += 1
    reader.end()
    return refused ? { ...refused, reason: `${refused.reason}${reader.explain()}` } : { ...verdict, valid: true }
  } catch (error) {
    if (refused) return refused
    if (error instanceof KeptNoteError) throw error
    if (error instanceof CheckpointError) return { ...verdict, line, reason: error.message }
    if (!(error instanceof ExportFault)) throw error
    return refuse(error)
  }
}

/** The verdict's text about an entry that earlier entries do not allow (chain.md 11). */
const RIGHTS_FAULTS: Readonly<Record<RightsFault, (id: number) => string>> = {
  replaces_mismatch: (id) =>
    `entry ${id} was not made on the last state of its row: an older row was put back before it`,
  state_violated: (id) => `entry ${id} was not allowed by the entries before it: an older row was put back before it`,
  deletion_incomplete: (id) =>
    `the tenant is deleted, but by the entries through ${id} a key is not destroyed, or an API key not revoked`,
}

type Position = { id: number; hash: Uint8Array; created_at: string }

class ExportReader {
  readonly verdict: ExportVerdict
  /** the kept checkpoint contradicts an entry. The file is refused, but read to its end: a later entry may accept the loss */
  contradiction: ExportFault | undefined
  private header: ExportHeader | undefined
  private history: RightsHistory = createRightsHistory({ after_id: 0 })
  private isPurged = false // whether a purge is why the log does not begin with entry 1
  private last: Position = { id: 0, hash: new Uint8Array(), created_at: '' }
  /** the entries that say that the log continues in another installation */
  private readonly moves: Move[] = []
  private readonly rollbacks = new AcceptedRollbacks()
  private comparison: CheckpointComparison | undefined
  private covered: ExportAnchor | undefined
  private links: ExportLinks | undefined
  private isEnded = false
  private readonly leaves = new RunningRoot()
  private changes: KeyChange[] = []
  private installation: readonly string[] = []

  constructor(private readonly options: Omit<VerifyExportOptions, 'onProgress'>) {
    this.verdict = { valid: false, verified_entries: 0, trusted_key: options.publicKey !== undefined }
  }

  read(line: string): void {
    if (this.isEnded) throw new ExportFault('there is something after the trailer')
    if (!this.header) this.readHeader(line)
    else if (isAnchor(line)) this.readAnchor(line, this.header)
    else if (isLinks(line)) this.readLinks(line, this.header)
    else if (isTrailer(line)) this.readTrailer(line, this.header)
    else this.readEntry(line, this.header)
  }

  end(): void {
    if (!this.isEnded)
      throw new ExportFault(
        `the file was cut short: it ends with entry ${this.last.id}, without the line that is signed`,
      )
  }

  private readHeader(line: string): void {
    const header = readHeader(line)
    const { tenant_id, after_id, after_hash } = header
    if (after_id === 0 && !equalBytes(after_hash, genesisHash(tenant_id)))
      throw new ExportFault('after_hash is not the genesis hash')
    this.header = header
    this.last = { id: after_id, hash: after_hash, created_at: '' }
    this.history = createRightsHistory({ after_id })
    Object.assign(this.verdict, { tenant_id, after_id })
    this.changes = followKeyChanges(header.key_changes)
    if (this.changes.length > 0 && this.given && !this.given.some((key) => this.keys.includes(key)))
      throw new ExportFault(
        `the export is of an installation whose signing keys do not include the one given${IF_REPLACED}`,
      )
    if (header.installation !== undefined) this.installation = readInstallation(header.installation)
    else if (tenant_id === INSTALLATION_ID) throw new ExportFault(NO_INSTALLATION)
    this.assertTreeName()
    this.keep(tenant_id)
    this.compareWithKept()
  }

  private assertTreeName(): void {
    const { installation, verdict } = this
    const { tree: given } = this.options
    const [first] = installation
    if (first !== undefined)
      Object.assign(verdict, { tree: readTreeKey(first).name, trusted_tree: given !== undefined })
    if (given !== undefined && given !== verdict.tree)
      throw new ExportFault(
        verdict.tree ? `the tree of the installation is ${verdict.tree}, not ${given}` : NO_INSTALLATION,
      )
  }

  private get given(): string[] | undefined {
    const { publicKey } = this.options
    return publicKey === undefined ? undefined : [publicKey].flat()
  }

  /** The keys of which one must have signed a kept checkpoint of the log. @throws ExportFault if none was given */
  private get signers(): readonly string[] {
    if (!this.given) throw new ExportFault('a checkpoint was given without the public key that verifies it')
    return this.changes.length > 0 ? this.keys : this.given
  }

  /** All keys that signed the log, oldest first, as the file states them. */
  private get keys(): string[] {
    return listKeys(this.changes)
  }

  private readAnchor(line: string, { tenant_id, after_id }: ExportHeader): void {
    if (this.covered || this.last.id !== after_id) throw new ExportFault('an anchor stands before the entries, once')
    if (this.installation.length === 0) throw new ExportFault(NO_INSTALLATION)
    const covered = readAnchorLine(line)
    const { anchor, last_id } = covered
    const tenants = assertCovers(covered, tenant_id)
    this.covered = covered
    this.verdict.anchor = { id: anchor.id, created_at: anchor.created_at, tenants, last_id, compared: false }
    this.compareWithAnchor()
  }

  private readLinks(line: string, { after_id }: ExportHeader): void {
    if (!this.covered || this.links || this.last.id !== after_id)
      throw new ExportFault('what links entries to the anchor stands behind the anchor, once')
    this.links = readLinksLine(line)
  }

  private keep(tenant_id: string): void {
    const { checkpoint, checkpoints = [] } = this.options
    if (checkpoint === undefined && checkpoints.length === 0) return
    const { rollbacks, signers } = this
    const installation = this.installation.length > 0 ? this.installation : signers
    this.comparison = new CheckpointComparison(checkpoint, checkpoints, { tenant_id, signers, installation, rollbacks })
    Object.assign(this.verdict, { checkpoint_compared: false, checkpoint: viewCheckpoint(this.comparison.named) })
  }

  private readEntry(line: string, { tenant_id, after_id }: ExportHeader): void {
    const { last, verdict } = this
    const id = last.id + 1
    const entry = readEntry(line, { tenant_id, id })
    if (entry.id !== id) throw new ExportFault(`entry ${id} is missing`, id)
    if (!equalBytes(entry.hash, entryHash(last.hash, entry))) throw new ExportFault(`entry ${id} was altered`, id)
    if (hasTimeGoneBack(last, entry)) throw new ExportFault(`the time of entry ${id} went back`, id)
    const fault = this.history.read(entry)
    if (fault) throw new ExportFault(RIGHTS_FAULTS[fault](id), id)
    if (after_id > 0 && purgedThrough(entry) === after_id) this.isPurged = true
    const move = readMove(entry)
    if (move) this.moves.push(move)
    this.last = entry
    this.leaves.add(entry.hash)
    this.options.onEntry?.(entry)
    verdict.verified_entries += 1
    verdict.last_id = id
    this.compareWithKept()
    this.compareWithAnchor()
    this.rollbacks.read(entry)
  }

  private readTrailer(line: string, { tenant_id, after_id }: ExportHeader): void {
    const { last, verdict } = this
    const trailer = readTrailer(line)
    this.assertSigner(trailer.public_key)
    const signed = readSigned(trailer)
    verdict.public_key = trailer.public_key
    if (signed.tenant_id !== tenant_id) throw new ExportFault('the last line is of another log')
    if (signed.last_id !== last.id) {
      verdict.signed_through = signed.last_id
      const reason = `the file was signed through entry ${signed.last_id}, and ends with entry ${last.id}`
      throw new ExportFault(reason, Math.min(signed.last_id, last.id) + 1)
    }
    if (!equalBytes(signed.hash, last.hash))
      throw new ExportFault(`what was signed does not agree with entry ${last.id}, the last one`, last.id)
    if (trailer.tree !== undefined) this.assertTree(trailer.tree, trailer.public_key)
    const unfinished = this.history.end()
    if (unfinished) throw new ExportFault(RIGHTS_FAULTS[unfinished](last.id), last.id)
    const { counted } = this.rollbacks
    if (counted) verdict.accepted_rollbacks = counted
    if (this.moves.length > 0) verdict.moves = this.moves
    const { head_id } = signed
    const installation = this.covered && this.endAnchor(this.covered, { publicKey: trailer.public_key, head_id })
    if (!this.contradiction) this.conclude(signed, installation)
    if (this.isPurged) verdict.purged_through = after_id
    const isJoined = after_id === 0 || this.isPurged || this.comparison?.joins(after_id) === true
    const missing: Missing[] = [
      ...(isJoined ? [] : ['beginning' as const]),
      ...(head_id > last.id || this.moves.at(-1)?.entry_id === last.id ? ['end' as const] : []),
    ]
    Object.assign(verdict, { signed_at: signed.created_at, head_id, missing, whole: missing.length === 0 })
    this.isEnded = true
  }

  // The server signs a tree over exactly the file's entries (proof.md 2).
  private assertTree(note: string, publicKey: string): void {
    const { header, last, leaves } = this
    const { tenant_id, after_id, last_id, root } = readEntryTree(note, publicKey)
    const isOfFile = tenant_id === header?.tenant_id && after_id === header.after_id && last_id === last.id
    if (!isOfFile || !equalBytes(root, leaves.root()))
      throw new ExportFault('the tree that was signed is not that of these entries')
  }

  private assertSigner(signer: string): void {
    const { given, keys, changes, installation, verdict } = this
    assertStates({ keys, installation }, signer)
    if (given && keys.length === 0 && !given.includes(signer))
      throw new ExportFault(`the export names a different public key from the one given${IF_REPLACED}`)
    verdict.trusted_key = given?.includes(signer) ?? false
    if (!given || verdict.trusted_key) return
    verdict.key_changes = changes.slice(keys.findLastIndex((key) => given.includes(key)))
  }

  // The trailer's key signed the anchor's position.
  private endAnchor(covered: ExportAnchor, end: { publicKey: string; head_id: number }): ShownInstallation {
    const { links, verdict } = this
    const { last_id } = covered
    const position = readAnchorPosition(covered, end.publicKey)
    const { head_id, head_hash, created_at } = position
    if (links) assertLinks(links, { anchor: covered.anchor, head_id }, readTreeKey(end.publicKey, this.installation[0]))
    if (last_id > end.head_id) throw new ExportFault(`the log ends before the anchor, which covers ${last_id} entries`)
    const linked = (links?.entries ?? []).map(({ id, hash }) => ({ last_id: id, hash }))
    const known = [position, { last_id: head_id, hash: head_hash }, ...linked]
    return { head_id, created_at, known, isCovering: verdict.anchor?.compared === true }
  }

  private conclude(end: Stretch, installation: ShownInstallation | undefined): void {
    const { comparison, verdict } = this
    if (!comparison) return
    const { named, isCompared, unused, agreeing, counted } = comparison.judge(end, installation)
    Object.assign(verdict, { checkpoint_compared: isCompared, checkpoint: viewCheckpoint(named) })
    if (unused) verdict.unused = unused
    if (counted.given > 1) verdict.checkpoints = counted
    if (!agreeing || agreeing.tenant_id === verdict.tenant_id || !installation || !verdict.anchor) return
    const isSeen = this.isInTree(agreeing, verdict.anchor.id, installation.head_id)
    if (isCompared) verdict.anchor.vouched = agreeing.last_id === verdict.anchor.id || isSeen
  }

  /** Whether the tree that witnesses cosigned with a checkpoint contains the anchor. @throws ExportFault */
  private isInTree({ last_id }: Checkpoint, anchor_id: number, size: number): boolean {
    const linked = this.links?.entries.find(({ id }) => id === last_id)
    const { treeProof } = this.options
    if (!treeProof || !linked || last_id === anchor_id) return false
    assertContinues(linked, treeProof, size)
    return anchor_id < last_id
  }

  private compareWithAnchor(): void {
    const { covered, last, verdict } = this
    if (covered?.last_id !== last.id) return
    if (!equalBytes(covered.hash, last.hash)) {
      const reason = `entry ${last.id} is not the one that the anchor covers: ${ANOTHER_LOG}`
      throw new ExportFault(reason, last.id)
    }
    if (verdict.anchor) verdict.anchor.compared = true
  }

  private compareWithKept(): void {
    this.contradiction ??= this.comparison?.compare(this.last)
  }

  explain(): string {
    return this.comparison?.explain() ?? ''
  }
}

/** The keys of a log, and those of its installation, end with the signer of an export (export.md 2). @throws ExportFault */
export function assertStates(
  { keys, installation }: { keys: readonly string[]; installation: readonly string[] },
  signer: string,
): void {
  if (installation.length > 0 && installation.at(-1) !== signer)
    throw new ExportFault('another key than the one that signed the export states the keys of the installation')
  if (keys.length > 0 && keys.at(-1) !== signer)
    throw new ExportFault('the statements about new signing keys do not lead to the key that signed the export')
}

/** Reads the statement in the last line of an export; if it is a checkpoint, the log ends there. @throws CheckpointError */
export function readSigned(trailer: ExportTrailer): Stretch {
  if ('stretch' in trailer) return readStretch(trailer.stretch, trailer.public_key)
  const checkpoint = readCheckpoint(trailer.checkpoint, trailer.public_key)
  return { ...checkpoint, head_id: checkpoint.last_id, head_hash: checkpoint.hash }
}

/** Reads the last purged entry from a purge entry; undefined for other entries. */
export function purgedThrough(entry: Pick<AuditEntry, 'action' | 'metadata'>): number | undefined {
  if (entry.action !== 'audit.purge') return undefined
  const { purged_through } = readMetadata(entry)
  return typeof purged_through === 'number' ? purged_through : undefined
}

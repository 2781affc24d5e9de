/**
 * Finds checkpoints in the forms in which people keep them: a note, the answer of GET /v1/audit/checkpoint,
 * and the lines of EAAS_CHECKPOINT_FILE, one JSON object each, among other lines that a log shipper may have
 * added. Pure.
 */
import { INSTALLATION_ID } from '@eaas/protocol'
import { ORIGIN, parseCheckpoint } from '../formats/checkpoint.js'
import { EXPORT_FORMAT } from '../formats/export.js'
import { findKeyChange, type KeyChange } from '../formats/key-change.js'
import { CheckpointError } from '../formats/signed-note.js'
import { listCosigners, type WitnessedLine } from '../formats/witnessed.js'

/**
 * Finds the note to verify a tenant's log by: the text itself, or the tenant's newest note in it. Does not
 * check signatures. With `isComparable`, which tells the entries of the installation's log that an export can
 * be compared at, a note of that log serves if the tenant has none: the newest comparable one, or else the
 * newest.
 *
 * @throws CheckpointError if the text is an export, or holds checkpoints, but none of this tenant
 */
export function findKeptNote(text: string, tenant_id: string, isComparable?: (id: number) => boolean): string {
  assertNoExport(text)
  const notes = readNotes(text)
  if (notes.length === 0) return text // readCheckpoint will say what is wrong with it
  const of = (log: string) => notes.filter((note) => line(note, 1) === log).sort((a, b) => (isNewer(a, b) ? -1 : 1))
  const [own] = of(tenant_id)
  if (own !== undefined) return own
  const shared = isComparable ? of(INSTALLATION_ID) : []
  const found = shared.find((note) => isComparable?.(Number(line(note, 2)))) ?? shared[0]
  if (found === undefined)
    throw new CheckpointError(`it contains no checkpoint of this tenant, but ${describeKept(text)}`)
  return found
}

/**
 * The entries of the installation's log to which an export is linked: of so many checkpoints at the end of a
 * file.
 */
const LAST_LINKED = 16

/**
 * Collects the entries of the installation's log that the last checkpoints of a file are of, and the last
 * ones that each set of witnesses cosigned.
 */
export class KeptIds {
  #last: number[] = []
  readonly #cosigned = new Map<string, number>()

  /**
   * Adds the checkpoints of a text, or of one of its lines, in the order of the file. Checks no signature: an
   * id proves nothing.
   */
  add(text: string): void {
    for (const { checkpoint, tree } of readKept(text)) {
      const id = Number(line(checkpoint, 2))
      if (line(checkpoint, 1) !== INSTALLATION_ID || !Number.isSafeInteger(id) || id < 1) continue
      this.#last = [...this.#last.filter((other) => other !== id), id].slice(-LAST_LINKED)
      if (tree === undefined) continue
      const cosigners = listCosigners({ checkpoint, tree }).sort().join(' ')
      this.#cosigned.delete(cosigners)
      this.#cosigned.set(cosigners, id)
      const [oldest] = this.#cosigned.keys()
      if (this.#cosigned.size > LAST_LINKED && oldest !== undefined) this.#cosigned.delete(oldest)
    }
  }

  all(): number[] {
    return [...new Set([...this.#last, ...this.#cosigned.values()])]
  }
}

/**
 * Merges the texts of several files into one that has the lines of all; a single one stays as it was written, before an
 * editor put a byte order mark or other line ends into it.
 */
export function mergeKept(found: readonly string[]): string {
  const texts = found.map((text) => text.replace(/^\ufeff/, '').replaceAll('\r\n', '\n'))
  const [only = '', ...more] = texts
  if (more.length === 0) return only
  for (const text of texts) assertNoExport(text)
  const lines = texts.flatMap((text): KeptMembers[] =>
    text.startsWith(ORIGIN) ? splitNotes(text).map((checkpoint) => ({ checkpoint })) : readObjects(text),
  )
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** A note, and what stands beside it in its line of the file: no signature covers that. */
export interface KeptNote {
  checkpoint: string
  policy_version?: unknown
  head?: unknown
}

/**
 * Groups all notes of a text by the id of the log that they are of, each line once. Does not check
 * signatures. @throws CheckpointError if the text is an export
 */
export function groupKeptNotes(text: string): Map<string, KeptNote[]> {
  assertNoExport(text)
  const lines = readKept(text).map(({ checkpoint, policy_version, head }) => ({ checkpoint, policy_version, head }))
  const groups = new Map<string, KeptNote[]>()
  for (const each of new Map(lines.map((each) => [JSON.stringify(each), each])).values()) {
    const log = line(each.checkpoint, 1)
    const group = groups.get(log)
    if (group) group.push(each)
    else groups.set(log, [each])
  }
  return groups
}

/** Says what checkpoints a text has, for an error about what it lacks. */
export function describeKept(text: string): string {
  const notes = readNotes(text)
  const logs = [...new Set(notes.map((note) => line(note, 1)))]
  if (logs.length === 0) return text.trim() === '' ? 'no content' : 'no checkpoint'
  const [first = ''] = logs
  const more = logs.length === 1 ? '' : ` and of ${logs.length - 1} more`
  return `checkpoints of ${first === INSTALLATION_ID ? "the installation's log" : `tenant ${first}`}${more} only`
}

/**
 * Lists the lines of the installation's log that have a tree, in the order of the text (tree.md 5). Checks
 * nothing.
 */
export function listWitnessedLines(text: string): WitnessedLine[] {
  return readKept(text).flatMap(({ checkpoint, tree }) =>
    tree !== undefined && line(checkpoint, 1) === INSTALLATION_ID ? [{ checkpoint, tree }] : [],
  )
}

/**
 * Compares the statements about new signing keys in a text with those of an export. @throws CheckpointError if one
 * key was replaced by two
 */
export function assertSameChanges(text: string, changes: readonly KeyChange[]): void {
  for (const { key_change } of readObjects(text)) {
    const kept = typeof key_change === 'string' ? findKeyChange(key_change) : undefined
    const other = kept && changes.find(({ from, to }) => from === kept.from && to !== kept.to)
    if (!other) continue
    throw new CheckpointError(
      `key ${other.from} was replaced by two: by ${kept.to} here, and by ${other.to} in the export. Somebody else has that key: ask the operator which is theirs`,
    )
  }
}

// The trailer of an export has a checkpoint too. Compared with itself, an export would always agree.
function assertNoExport(text: string): void {
  if (text.startsWith(`{"format":${JSON.stringify(EXPORT_FORMAT)}`)) {
    throw new CheckpointError(
      'this is an export, and no checkpoint that was kept apart from it: give what eaas audit checkpoint printed, or EAAS_CHECKPOINT_FILE',
    )
  }
}

function readNotes(text: string): string[] {
  return readKept(text).map(({ checkpoint }) => checkpoint)
}

/** A note, and the members beside it; without members where it stands alone. */
function readKept(text: string): (KeptMembers & { checkpoint: string })[] {
  if (text.startsWith(ORIGIN)) return splitNotes(text).map((checkpoint) => ({ checkpoint }))
  return readObjects(text).flatMap(({ checkpoint, ...members }) =>
    isNote(checkpoint) ? [{ ...members, checkpoint }] : [],
  )
}

// Several files of one note each may have been joined to one. What stands between notes is part of the one
// before, which then has another form.
function splitNotes(text: string): string[] {
  const notes = text.split(NOTE_START).map((note) => note.replace(/\n+$/, '\n'))
  if (notes.length > 1) for (const note of notes) parseCheckpoint(note)
  return notes
}

function isNote(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(ORIGIN)
}

const NOTE_START = new RegExp(`^(?=${ORIGIN}\\n)`, 'm')

type KeptMembers = Partial<Record<keyof KeptNote | 'tree' | 'key_change', unknown>>

function readObjects(text: string): KeptMembers[] {
  return [text, ...text.split('\n')].flatMap((part) => {
    if (!part.trimStart().startsWith('{')) return []
    try {
      return [JSON.parse(part) as KeptMembers]
    } catch {
      return [] // many lines, or one that a crash cut short
    }
  })
}

// By the time of signing, because after an accepted rollback newer checkpoints have lower ids. At equal
// times, the longer log is newer.
function isNewer(note: string, other: string): boolean {
  const [signed, otherSigned] = [line(note, 4), line(other, 4)]
  return signed === otherSigned ? Number(line(note, 2)) > Number(line(other, 2)) : signed > otherSigned
}

function line(note: string, at: number): string {
  return note.split('\n')[at] ?? ''
}

/**
 * Reads checkpoints in the forms in which people keep them: a note, an answer of GET /v1/audit/checkpoint, and lines of
 * EAAS_CHECKPOINT_FILE, one JSON object each, possibly among other lines of a log shipper. Pure.
 */
import { INSTALLATION_ID, readJson } from '@eaas/protocol'
import { type Checkpoint, isSignedCheckpoint, ORIGIN, type PublicKeys, parseCheckpoint } from '../formats/checkpoint.js'
import { EXPORT_FORMAT } from '../formats/export.js'
import { findKeyChange, type KeyChange } from '../formats/key-change.js'
import { CheckpointError } from '../formats/signed-note.js'
import { listCosigners, type WitnessedLine } from '../formats/witnessed.js'
import { unlessThrown } from '../unless-thrown.js'

export type KeptFile = { name: string; text: string }

/** A note, its statement, and the other members of its line in the file, which no signature covers. */
export interface KeptNote extends Checkpoint {
  note: string
  tree?: unknown
  policy_version?: unknown
  head?: unknown
}

/** What was kept apart from a log, in one file or several, with unverified signatures. */
export interface Kept {
  /** without repetitions, the newest first */
  notes: KeptNote[]
  changes: string[]
}

/** Reads files. @throws CheckpointError naming the first file that is an export or has no checkpoint */
export function readKept(files: readonly KeptFile[]): Kept {
  return joinLines(files.flatMap(readFile))
}

/** Reads the text of a file that may have no checkpoint. @throws CheckpointError if it is an export */
export function parseKept(text: string): Kept {
  return joinLines(readLines(text))
}

function joinLines(lines: readonly Line[]): Kept {
  const notes = new Map(
    lines.flatMap(({ kept }): [string, KeptNote][] => (kept ? [[JSON.stringify({ ...kept, hash: null }), kept]] : [])),
  )
  return {
    notes: [...notes.values()].sort(byNewest),
    changes: lines.flatMap(({ change }) => (typeof change === 'string' ? [change] : [])),
  }
}

/** Newest first by time, not by id: after an accepted rollback newer checkpoints have lower ids. */
export function byNewest(one: Checkpoint, other: Checkpoint): number {
  if (one.created_at === other.created_at) return other.last_id - one.last_id
  return one.created_at > other.created_at ? -1 : 1
}

/**
 * Finds the checkpoint that a verdict names by default: the newest of the log itself or, if there is none, of the
 * installation's log. All installations' logs have the same id, so one signed by this installation's keys comes first.
 */
export function namedOf<T extends Checkpoint & { note: string }>(
  notes: readonly T[],
  { tenant_id, signers }: { tenant_id: string; signers: PublicKeys },
): T | undefined {
  const sorted = [...notes].sort(byNewest)
  const own = sorted.filter((note) => note.tenant_id === tenant_id)
  if (own.length > 0 && tenant_id !== INSTALLATION_ID) return own[0]
  return sorted.find(({ note }) => isSignedCheckpoint(note, signers)) ?? sorted[0]
}

/** Lists the notes of the given logs, the newest first. @throws CheckpointError if there are none */
export function notesOf({ notes }: Kept, logs: readonly string[]): [KeptNote, ...KeptNote[]] {
  const [newest, ...others] = notes.filter(({ tenant_id }) => logs.includes(tenant_id))
  if (!newest) {
    const log = logs[0] === INSTALLATION_ID ? "the installation's log" : 'this tenant'
    throw new CheckpointError(`it contains no checkpoint of ${log}, but ${describeKept(notes)}`)
  }
  return [newest, ...others]
}

/** How many of a server's last checkpoints of the installation's log each export is linked to. */
const LAST_LINKED = 16

/** The entry ids of the last checkpoints of the installation's log, and of the last one for each set of witnesses. */
export class KeptIds {
  #last = new Set<number>()
  readonly #cosigned = new Map<string, number>()

  constructor(private readonly most = LAST_LINKED) {}

  /** Adds checkpoints, the newest last. Checks no signature, since an id proves nothing. */
  add(notes: readonly KeptNote[]): void {
    for (const { tenant_id, last_id: id, note: checkpoint, tree } of notes) {
      if (tenant_id !== INSTALLATION_ID) continue
      this.#last.delete(id)
      this.#last.add(id)
      if (this.#last.size > 2 * this.most) this.#last = new Set(this.#newest())
      if (tree === undefined) continue
      const cosigners = listCosigners({ checkpoint, tree }).sort().join(' ')
      this.#cosigned.delete(cosigners)
      this.#cosigned.set(cosigners, id)
      const [oldest] = this.#cosigned.keys()
      if (this.#cosigned.size > LAST_LINKED && oldest !== undefined) this.#cosigned.delete(oldest)
    }
  }

  all(): number[] {
    return [...new Set([...this.#newest(), ...this.#cosigned.values()])]
  }

  #newest(): number[] {
    return [...this.#last].slice(-this.most)
  }
}

/** Describes which checkpoints there are, for an error about a missing one. */
export function describeKept(notes: readonly KeptNote[]): string {
  const [first, ...others] = new Set(notes.map(({ tenant_id }) => tenant_id))
  if (first === undefined) return 'no checkpoint'
  const more = others.length === 0 ? '' : ` and of ${others.length} more`
  return `checkpoints of ${first === INSTALLATION_ID ? "the installation's log" : `tenant ${first}`}${more} only`
}

/** Lists the lines of the installation's log with a tree (tree.md 5), unverified, the newest first. */
export function listWitnessedLines({ notes }: Kept): WitnessedLine[] {
  return notes.flatMap(({ tenant_id, note, tree }) =>
    tree !== undefined && tenant_id === INSTALLATION_ID ? [{ checkpoint: note, tree }] : [],
  )
}

/**
 * Compares kept key changes with those of an export. The first change from a key counts. @throws CheckpointError if a
 * key was replaced by two others
 */
export function assertSameChanges(kept: Kept, changes: readonly Pick<KeyChange, 'from' | 'to'>[]): void {
  for (const note of kept.changes) {
    const known = findKeyChange(note)
    const other = known && changes.find(({ from }) => from === known.from)
    if (!other || other.to === known.to) continue
    throw new CheckpointError(
      `key ${other.from} was replaced by two: by ${known.to} here, and by ${other.to} in the export. Somebody else has that key: ask the operator which is theirs`,
    )
  }
}

type Line = { kept?: KeptNote | undefined; change?: unknown }

// Refused even among readable files: otherwise nothing would be compared with it.
function readFile({ name, text }: KeptFile): Line[] {
  try {
    const lines = readLines(text)
    if (!lines.some(({ kept }) => kept)) throw new CheckpointError(NO_CHECKPOINT)
    return lines
  } catch (error) {
    throw error instanceof CheckpointError ? new CheckpointError(`${name}: ${error.message}`) : error
  }
}

function readLines(written: string): Line[] {
  // Mail programs and editors add a byte order mark and change line ends.
  const text = written.replace(/^\ufeff/, '').replaceAll('\r\n', '\n')
  assertNoExport(text)
  const start = text.search(NOTE_START)
  const [json, notes] = start < 0 ? [text, ''] : [text.slice(0, start), text.slice(start)]
  const lines = readObjects(json).map(({ checkpoint, key_change, tree, policy_version, head }) => {
    const kept = typeof checkpoint === 'string' ? findNote(checkpoint) : undefined
    return { kept: kept && { ...kept, tree, policy_version, head }, change: key_change }
  })
  // Text above a note is not a server's line, and may be the rest of another note.
  if (start > 0 && !lines.some(({ kept }) => kept)) throw new CheckpointError(NO_CHECKPOINT)
  return [...lines, ...splitNotes(notes).map((note) => ({ kept: parseNote(note) }))]
}

const NO_CHECKPOINT = 'this is not a checkpoint of an EaaS audit log'

// An export's trailer has a checkpoint, but an export always agrees with itself.
function assertNoExport(text: string): void {
  if (`\n${text}`.includes(`\n{"format":${JSON.stringify(EXPORT_FORMAT)}`))
    throw new CheckpointError(
      'this is an export, and no checkpoint that was kept apart from it: give what eaas audit checkpoint printed, or EAAS_CHECKPOINT_FILE',
    )
}

// Several notes may have been joined into one file. Text after a note becomes part of it and makes it malformed.
function splitNotes(text: string): string[] {
  return text.split(NOTE_START).flatMap((note) => (note === '' ? [] : [note.replace(/\n+$/, '\n')]))
}

const NOTE_START = new RegExp(`(?<![^\\n])(?=${ORIGIN}\\n)`)

function parseNote(note: string): KeptNote {
  return { ...parseCheckpoint(note), note }
}

/** Reads a note, unverified; undefined if it is malformed, as after a crash or an edit, and so proves nothing. */
export function findNote(note: string): KeptNote | undefined {
  return unlessThrown(() => parseNote(note), CheckpointError)
}

type Members = Partial<Record<'checkpoint' | 'key_change' | 'tree' | 'policy_version' | 'head', unknown>>

// A server's answer may span several lines. A line that a crash cut short is skipped.
function readObjects(text: string): Members[] {
  const whole = findObject(text)
  if (whole) return [whole]
  return text.split(OBJECT_START).flatMap((part) => {
    const [line = ''] = part.split('\n', 1)
    const found = findObject(line) ?? findObject(part.replace(/(?<![^\n])\}[ \t]*(?![^\n])[\s\S]*/, '}'))
    if (!found && JOINED.test(part)) throw new CheckpointError(NO_LINE_FEED)
    return found ?? []
  })
}

// Not `^`: in JavaScript it also matches after characters other than line feeds.
const OBJECT_START = /(?<![^\n])(?=[ \t]*\{)/
const JOINED = new RegExp(`\\}[ \\t]*(?:\\{|${ORIGIN}\\n)`)
const NO_LINE_FEED = 'two checkpoints are joined without a line feed between them: put each on lines of its own'

function findObject(text: string): Members | undefined {
  return text.trimStart().startsWith('{') ? (readJson(text) as Members | undefined) : undefined
}

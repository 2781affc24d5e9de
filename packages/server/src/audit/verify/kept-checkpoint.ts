/**
 * Finds checkpoints in the forms in which people keep them: a note, the answer of GET /v1/audit/checkpoint, and the lines of
 * EAAS_CHECKPOINT_FILE, one JSON object each, among other lines that a log shipper may have added. Pure.
 */
import { INSTALLATION_ID } from '@eaas/protocol'
import { CheckpointError, ORIGIN } from '../formats/checkpoint.js'
import { EXPORT_FORMAT } from '../formats/export.js'
import type { WitnessedLine } from '../formats/witnessed.js'

/**
 * Finds the note to verify a tenant's log by: the text itself, or the tenant's newest note among its lines. Does not check
 * signatures.
 *
 * @throws CheckpointError if the text is an export, or holds checkpoints, but none of this tenant
 */
export function findKeptNote(text: string, tenant_id: string): string {
  if (text.startsWith(ORIGIN)) return text
  assertNoExport(text)
  const notes = readNotes(text)
  if (notes.length === 0) return text // readCheckpoint will say what is wrong with it
  const own = notes.filter((note) => line(note, 1) === tenant_id)
  if (own.length === 0) throw new CheckpointError(`it contains no checkpoint of this tenant, but ${describeKept(text)}`)
  return own.reduce((newest, note) => (isNewer(newest, note) ? newest : note))
}

/** A note, and what stands beside it in its line of the file: no signature covers that. */
export interface KeptNote {
  checkpoint: string
  policy_version?: unknown
  head?: unknown
}

/** Groups all notes of a text by the id of the log that they are of, each line once. Does not check signatures. @throws CheckpointError if the text is an export */
export function groupKeptNotes(text: string): Map<string, KeptNote[]> {
  assertNoExport(text)
  const lines = text.startsWith(ORIGIN) ? [{ checkpoint: text }] : readLines(text)
  const groups = new Map<string, KeptNote[]>()
  for (const each of new Map(lines.map((each) => [JSON.stringify(each), each])).values()) {
    const log = line(each.checkpoint, 1)
    const group = groups.get(log)
    if (group) group.push(each)
    else groups.set(log, [each])
  }
  return groups
}

function readLines(text: string): KeptNote[] {
  return readObjects(text).flatMap(({ checkpoint, policy_version, head }) =>
    isNote(checkpoint) ? [{ checkpoint, policy_version, head }] : [],
  )
}

/** Says what checkpoints a text has, for an error about what it lacks. */
export function describeKept(text: string): string {
  const notes = text.startsWith(ORIGIN) ? [text] : readNotes(text)
  const logs = [...new Set(notes.map((note) => line(note, 1)))]
  if (logs.length === 0) return text.trim() === '' ? 'no content' : 'no checkpoint'
  const [first = ''] = logs
  const more = logs.length === 1 ? '' : ` and of ${logs.length - 1} more`
  return `checkpoints of ${first === INSTALLATION_ID ? "the installation's log" : `tenant ${first}`}${more} only`
}

/** Lists the lines of the installation's log that have a tree, in the order of the text (tree.md 5). Checks nothing. */
export function listWitnessedLines(text: string): WitnessedLine[] {
  return readObjects(text).flatMap(({ checkpoint, tree }) =>
    isNote(checkpoint) && tree !== undefined && line(checkpoint, 1) === INSTALLATION_ID ? [{ checkpoint, tree }] : [],
  )
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
  return readLines(text).map(({ checkpoint }) => checkpoint)
}

function isNote(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(ORIGIN)
}

type KeptMembers = Partial<Record<keyof KeptNote | 'tree', unknown>>

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

// By the time of signing, because after an accepted rollback newer checkpoints have lower ids. At equal times, the longer log is newer.
function isNewer(note: string, other: string): boolean {
  const [signed, otherSigned] = [line(note, 4), line(other, 4)]
  return signed === otherSigned ? Number(line(note, 2)) > Number(line(other, 2)) : signed > otherSigned
}

function line(note: string, at: number): string {
  return note.split('\n')[at] ?? ''
}

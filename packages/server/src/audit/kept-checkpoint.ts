/**
 * Checkpoints in the forms that they are kept in: a note, the answer of GET /v1/audit/checkpoint, and the lines of
 * EAAS_CHECKPOINT_FILE, one JSON object each, among whatever else a log shipper wrote between them. Pure.
 */
import { CheckpointError, ORIGIN } from './checkpoint.js'

/**
 * Finds the note to verify a tenant's log by: the one that the text is, or the newest of the tenant's among its lines. Whether
 * it is signed is not looked at here.
 *
 * @throws CheckpointError when there are checkpoints in it, and none is of this tenant
 */
export function findKeptNote(text: string, tenant_id: string): string {
  if (text.startsWith(ORIGIN)) return text
  const notes = readNotes(text)
  if (notes.length === 0) return text // what is wrong with it, whoever reads it will say
  const own = notes.filter((note) => line(note, 1) === tenant_id)
  if (own.length === 0) throw new CheckpointError('it holds no checkpoint of this tenant')
  return own.reduce((newest, note) => (isNewer(newest, note) ? newest : note))
}

/** Lists all notes of a tenant's log in a text, each once. Whether they are signed is not looked at here. */
export function listKeptNotes(text: string, tenant_id: string): string[] {
  const notes = text.startsWith(ORIGIN) ? [text] : readNotes(text)
  return [...new Set(notes)].filter((note) => line(note, 1) === tenant_id)
}

function readNotes(text: string): string[] {
  return [text, ...text.split('\n')].flatMap(readNote)
}

function readNote(text: string): string[] {
  if (!text.trimStart().startsWith('{')) return []
  try {
    const { checkpoint } = JSON.parse(text) as { checkpoint?: unknown }
    return typeof checkpoint === 'string' && checkpoint.startsWith(ORIGIN) ? [checkpoint] : []
  } catch {
    return [] // many lines, or one that a crash cut short
  }
}

// By the time of signing: after a rollback that was accepted, newer checkpoints have lower ids. Of one time, the longer log's.
function isNewer(note: string, other: string): boolean {
  const [signed, otherSigned] = [line(note, 4), line(other, 4)]
  return signed === otherSigned ? Number(line(note, 2)) > Number(line(other, 2)) : signed > otherSigned
}

function line(note: string, at: number): string {
  return note.split('\n')[at] ?? ''
}

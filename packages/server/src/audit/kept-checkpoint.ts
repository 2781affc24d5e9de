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
  const notes = [text, ...text.split('\n')].flatMap(readNote)
  if (notes.length === 0) return text // what is wrong with it, whoever reads it will say
  const own = notes.filter((note) => note.split('\n')[1] === tenant_id)
  if (own.length === 0) throw new CheckpointError('it holds no checkpoint of this tenant')
  return own.reduce((newest, note) => (lastId(note) >= lastId(newest) ? note : newest))
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

function lastId(note: string): number {
  return Number(note.split('\n')[2])
}

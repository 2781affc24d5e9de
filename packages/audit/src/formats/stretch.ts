/** Signed statements about a stretch of a log, see checkpoint.md 7. Pure. */
import { encodeBase64, isUuid } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import { openNote, type PublicKeys, readPosition, signNote } from './checkpoint.js'
import { CheckpointError } from './signed-note.js'

/** The first line of each note; it differs from a checkpoint's, so that no reader confuses the two. */
const STRETCH_ORIGIN = 'eaas/audit/stretch/v1'
const STATEMENT = new RegExp(
  `^${STRETCH_ORIGIN}\\n([^\\n]+)\\n([1-9]\\d{0,15})\\n([^\\n]+)\\n([1-9]\\d{0,15})\\n([^\\n]+)\\n` +
    '(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)\\n$',
)

/** What the note states: where the stretch ends, and where the log ended at the time of signing. */
export interface Stretch {
  tenant_id: string
  last_id: number
  hash: Uint8Array
  /** greater than `last_id` */
  head_id: number
  head_hash: Uint8Array
  /** when it was signed: RFC 3339, UTC, milliseconds */
  created_at: string
}

/** Signs a statement. Returns the note. */
export function signStretch(signingKey: SigningKey, stretch: Stretch): string {
  const { tenant_id, last_id, hash, head_id, head_hash, created_at } = stretch
  const lines = [STRETCH_ORIGIN, tenant_id, last_id, encodeBase64(hash), head_id, encodeBase64(head_hash), created_at]
  return signNote(signingKey, lines.map((line) => `${line}\n`).join(''))
}

/** Reads a note that one of the keys signed. @throws CheckpointError (checkpoint.md 7) */
export function readStretch(note: string, publicKeys: PublicKeys): Stretch {
  const [, tenant_id = '', last, h = '', head, headHash = '', created_at = ''] =
    STATEMENT.exec(openNote(note, publicKeys)) ?? []
  if (!isUuid(tenant_id) || last === undefined || head === undefined)
    throw new CheckpointError('this is no statement about a stretch of an EaaS audit log')
  const { last_id, hash } = readPosition(last, h)
  const { last_id: head_id, hash: head_hash } = readPosition(head, headHash)
  if (head_id <= last_id) throw new CheckpointError('the stretch would end after the log')
  return { tenant_id, last_id, hash, head_id, head_hash, created_at }
}

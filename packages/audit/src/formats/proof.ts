/** Signed trees over consecutive entries of a log, and files that use them to prove entries, see proof.md. Pure. */
import { encodeBase64, encodeHex as hex, isUuid } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import type { AuditEntry } from './chain.js'
import { openNote, type PublicKeys, signNote } from './checkpoint.js'
import { type LinkedEntry, writeEntry } from './export.js'
import { CheckpointError, findBase64 } from './signed-note.js'

export const PROOF_FORMAT = 'eaas/audit/proof/v1'
/** The first line of each statement; it differs from a checkpoint's, so that no reader confuses the two. */
const ENTRIES_ORIGIN = 'eaas/audit/entries/v1'
const STATEMENT = new RegExp(
  `^${ENTRIES_ORIGIN}\\n([^\\n]+)\\n(0|[1-9]\\d{0,15})\\n([1-9]\\d{0,15})\\n([^\\n]+)\\n` +
    '(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)\\n$',
)
const HASH_BYTES = 32

/** What is signed about the entries after `after_id` through `last_id` (proof.md 2). Time: RFC 3339, UTC, milliseconds. */
export type EntryTree = { tenant_id: string; after_id: number; last_id: number; root: Uint8Array; created_at: string }

export interface ProvenEntry {
  /** `h` of the previous entry */
  before: Uint8Array
  entry: AuditEntry & { hash: Uint8Array }
  proof: readonly Uint8Array[]
}

/** A file that proves entries (proof.md 3). */
export interface Proof {
  statement: string
  public_key: string
  /** statements that lead from the installation's first signing key to `public_key` */
  key_changes: readonly string[]
  /** sorted by id */
  entries: readonly ProvenEntry[]
  links: readonly LinkedEntry[]
}

/** Signs a tree. Returns the note. */
export function signEntryTree(signingKey: SigningKey, tree: EntryTree): string {
  const { tenant_id, after_id, last_id, root, created_at } = tree
  const lines = [ENTRIES_ORIGIN, tenant_id, after_id, last_id, encodeBase64(root), created_at]
  return signNote(signingKey, lines.map((line) => `${line}\n`).join(''))
}

/** Reads a note that one of the keys signed. @throws CheckpointError (proof.md 4) */
export function readEntryTree(note: string, publicKeys: PublicKeys): EntryTree {
  const [, tenant_id = '', after = '', last = '', encoded = '', created_at = ''] =
    STATEMENT.exec(openNote(note, publicKeys)) ?? []
  const root = findBase64(encoded, HASH_BYTES)
  const [after_id, last_id] = [Number(after), Number(last)]
  if (!isUuid(tenant_id) || !root || !Number.isSafeInteger(last_id) || after_id >= last_id)
    throw new CheckpointError('this is no statement about the entries of an EaaS audit log')
  return { tenant_id, after_id, last_id, root, created_at }
}

/** Writes the file, with its line feed. */
export function writeProof({ statement, public_key, key_changes, entries, links }: Proof): string {
  const start = { format: PROOF_FORMAT, statement, public_key, ...(key_changes.length > 0 && { key_changes }) }
  const proven = entries.map(
    ({ before, entry, proof }) =>
      `{"before":"${hex(before)}","entry":${writeEntry(entry)},"proof":${JSON.stringify(proof.map(hex))}}`,
  )
  const linked = links.map(({ id, hash, proof }) => ({ id, hash: hex(hash), proof: proof.map(hex) }))
  return `${JSON.stringify(start).slice(0, -1)},"entries":[${proven.join(',')}],"links":${JSON.stringify(linked)}}\n`
}

/** Writes the lines of an export, each with its line feed, see export.md. Pure. */
import { encodeHex as hex } from '@eaas/protocol'
import type { AuditEntry, ChainedEntry } from './chain.js'

export const EXPORT_FORMAT = 'eaas/audit/export/v1'

/** Where the entries of an export begin (export.md 2). */
export interface ExportHeader {
  tenant_id: string
  after_id: number
  after_hash: Uint8Array
  /** statements that lead from the first key that signed the log to the export's (key-change.md 4) */
  key_changes: readonly string[]
  /** the statement of the installation's keys (key-change.md 7), if the file has an anchor or is the installation's own log */
  installation?: string | undefined
}

/** Shows that an anchor in the installation's log covers the tenant's head (export.md 8). */
export interface ExportAnchor {
  anchor: AuditEntry & { hash: Uint8Array }
  after_hash: Uint8Array
  /** the head that is covered */
  last_id: number
  hash: Uint8Array
  index: number
  proof: readonly Uint8Array[]
  /** the note that states the anchor's position in the installation's log */
  signed: string
}

/** Shows that the tree of the installation's log contains the anchor and the entries of kept checkpoints (export.md 9). */
export interface ExportLinks {
  /** the note that states the tree (tree.md 3) */
  tree: string
  /** shows that the tree contains the anchor */
  proof: readonly Uint8Array[]
  /** sorted by id */
  entries: readonly LinkedEntry[]
}

/** An entry of the installation's log, and the proof that the tree contains it. */
export type LinkedEntry = { id: number; hash: Uint8Array; proof: readonly Uint8Array[] }

/** An export's last line (export.md 4): a checkpoint, or a statement that the log continues after the last entry. */
export type ExportTrailer = {
  public_key: string
  /** the note of the tree over the entries of the export (proof.md 2) */
  tree?: string | undefined
} & ({ checkpoint: string } | { stretch: string })

/** Writes the first line, with its line feed. */
export function headerLine({ tenant_id, after_id, after_hash, key_changes, installation }: ExportHeader): string {
  const header = { format: EXPORT_FORMAT, tenant_id, after_id, after_hash: hex(after_hash) }
  return `${JSON.stringify({ ...header, ...(key_changes.length > 0 && { key_changes }), installation })}\n`
}

/** Writes the line of an entry, with its line feed. */
export function entryLine(entry: Omit<ChainedEntry, 'mac'>): string {
  return `${writeEntry(entry)}\n`
}

/** Writes an entry as in its line, without the line feed. */
export function writeEntry(entry: Omit<ChainedEntry, 'mac'>): string {
  const { id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash } = entry
  const line = { id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash: hex(hash) }
  return JSON.stringify(line satisfies Omit<AuditEntry, 'tenant_id'> & { hash: string })
}

/** Writes the line of an anchor, with its line feed. */
export function anchorLine({ anchor, after_hash, last_id, hash, index, proof, signed }: ExportAnchor): string {
  const rest = { after_hash: hex(after_hash), last_id, hash: hex(hash), index, proof: proof.map(hex), signed }
  return `{"anchor":${writeEntry(anchor)},${JSON.stringify(rest).slice(1)}\n`
}

/** Writes the line that links entries of the installation's log to the anchor, with its line feed. */
export function linksLine({ tree, proof, entries }: ExportLinks): string {
  const linked = entries.map(({ id, hash, proof }) => ({ id, hash: hex(hash), proof: proof.map(hex) }))
  return `${JSON.stringify({ tree, proof: proof.map(hex), entries: linked })}\n`
}

/** Writes the last line, with its line feed. */
export function trailerLine({ public_key, tree, ...signed }: ExportTrailer): string {
  const end = 'stretch' in signed ? { stretch: signed.stretch } : { checkpoint: signed.checkpoint }
  return `${JSON.stringify({ ...end, public_key, tree })}\n`
}

/** Writes the lines of an export, see export.md. Pure. */
import type { AuditEntry, ChainedEntry } from './chain.js'

export const EXPORT_FORMAT = 'eaas/audit/export/v1'

/** Where the entries of an export begin (export.md 2). */
export interface ExportHeader {
  tenant_id: string
  after_id: number
  after_hash: Uint8Array
}

/** What an export ends with (export.md 4). */
export interface ExportTrailer {
  checkpoint: string
  public_key: string
}

/** The first line, with its line feed. */
export function headerLine({ tenant_id, after_id, after_hash }: ExportHeader): string {
  return `${JSON.stringify({ format: EXPORT_FORMAT, tenant_id, after_id, after_hash: hex(after_hash) })}\n`
}

/** The line of an entry, with its line feed. */
export function entryLine(entry: Omit<ChainedEntry, 'mac'>): string {
  const { id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash } = entry
  const line = { id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash: hex(hash) }
  return `${JSON.stringify(line satisfies Omit<AuditEntry, 'tenant_id'> & { hash: string })}\n`
}

/** The last line, with its line feed. */
export function trailerLine({ checkpoint, public_key }: ExportTrailer): string {
  return `${JSON.stringify({ checkpoint, public_key })}\n`
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

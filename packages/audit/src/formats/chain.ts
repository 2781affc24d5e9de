/** The bytes and hashes of the chain's entries, see chain.md 1 and 2. Only the server computes the MACs. Pure. */
import { concatBytes, encodeUtf8, type LogAction, readJson } from '@eaas/protocol'
import { sha256 } from '../crypto.js'

export const ENTRY_LABEL = 'eaas/audit/entry/v1'
const GENESIS_LABEL = encodeUtf8('eaas/audit/genesis/v1')
const HASH_LABEL = encodeUtf8('eaas/audit/hash/v1')
const MOST_BYTES_A_CHARACTER = 3

/** The fields of an entry (chain.md 1). */
export interface AuditEntry {
  tenant_id: string
  id: number
  action: LogAction
  key_id: string | null
  key_version: number | null
  actor: string
  ip_address: string | null
  /** canonical JSON text */
  metadata: string | null
  /** RFC 3339, UTC, milliseconds */
  created_at: string
}

/** An entry with its hash and MAC in the chain. */
export interface ChainedEntry extends AuditEntry {
  hash: Uint8Array
  mac: Uint8Array
}

/** Writes the text whose UTF-8 encoding is the bytes of an entry (chain.md 1). */
export function entryText(entry: AuditEntry): string {
  const { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at } = entry
  return JSON.stringify([
    ENTRY_LABEL,
    tenant_id,
    id,
    action,
    key_id,
    key_version,
    actor,
    ip_address,
    metadata,
    created_at,
  ])
}

/** Computes h_0 of a tenant (chain.md 2). */
export function genesisHash(tenant_id: string): Uint8Array {
  return sha256(concatBytes(GENESIS_LABEL, encodeUtf8(tenant_id)))
}

/** Computes h_n from h_(n-1) and the entry (chain.md 2). */
export function entryHash(previous: Uint8Array, entry: AuditEntry): Uint8Array {
  return textHash(previous, entryText(entry))
}

// All input is put into one block: allocating two arrays for each entry would take as long as its hash.
const block = new Uint8Array(4_096)
block.set(HASH_LABEL)
const encoder = new TextEncoder()

/** Computes h_n from h_(n-1) and the text of the entry (chain.md 2). */
export function textHash(previous: Uint8Array, text: string): Uint8Array {
  const at = HASH_LABEL.length + previous.length
  if (at + MOST_BYTES_A_CHARACTER * text.length > block.length)
    return sha256(concatBytes(HASH_LABEL, previous, encodeUtf8(text)))
  block.set(previous, HASH_LABEL.length)
  return sha256(block.subarray(0, at + encoder.encodeInto(text, block.subarray(at)).written))
}

/** Whether an entry is dated before the previous one, without being the entry that accepts this (chain.md 4). */
export function hasTimeGoneBack(
  previous: Pick<AuditEntry, 'created_at'>,
  { action, metadata, created_at }: Pick<AuditEntry, 'action' | 'metadata' | 'created_at'>,
): boolean {
  if (created_at >= previous.created_at) return false
  return action !== 'audit.clock_accepted' || readMetadata({ metadata }).ahead_until !== previous.created_at
}

/** Reads the metadata of an entry; empty if null, or not a JSON object, which no server writes. */
export function readMetadata({ metadata }: Pick<AuditEntry, 'metadata'>): Record<string, unknown> {
  const value = metadata === null ? undefined : readJson(metadata)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/**
 * The columns of audit entries as arrays in PostgreSQL's text format (its manual, 8.15), written in stretches between which other calls
 * run. The driver would write the arrays of a large batch in one go.
 */
import type { ChainedEntry } from '../audit/chain.js'
import { createStretches } from '../turn.js'

const ESCAPED = /["\\]/g

export type EntryColumns = Record<Exclude<keyof ChainedEntry, 'tenant_id' | 'created_at'>, string>

/** Writes one array for each column whose values differ between the entries of one append. */
export async function writeColumns(entries: readonly ChainedEntry[]): Promise<EntryColumns> {
  let [id, action, key_id, key_version, actor, ip_address, metadata, hash, mac] = ['', '', '', '', '', '', '', '', '']
  let separator = '{'
  const pause = createStretches()
  for (const entry of entries) {
    const due = pause()
    if (due) await due
    id += separator + entry.id
    action += separator + quoted(entry.action)
    key_id += separator + quoted(entry.key_id)
    key_version += separator + entry.key_version
    actor += separator + quoted(entry.actor)
    ip_address += separator + quoted(entry.ip_address)
    metadata += separator + quoted(entry.metadata)
    hash += separator + hex(entry.hash)
    mac += separator + hex(entry.mac)
    separator = ','
  }
  return {
    id: `${id}}`,
    action: `${action}}`,
    key_id: `${key_id}}`,
    key_version: `${key_version}}`,
    actor: `${actor}}`,
    ip_address: `${ip_address}}`,
    metadata: `${metadata}}`,
    hash: `${hash}}`,
    mac: `${mac}}`,
  }
}

function quoted(text: string | null): string {
  return text === null ? 'null' : `"${text.replace(ESCAPED, '\\$&')}"`
}

function hex({ buffer, byteOffset, length }: Uint8Array): string {
  return `"\\\\x${Buffer.from(buffer, byteOffset, length).toString('hex')}"`
}

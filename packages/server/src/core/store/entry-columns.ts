/**
 * The columns of audit entries as arrays in PostgreSQL's text format (its manual, 8.15). The driver would write the
 * arrays of many entries in one go; this code writes them in stretches, between which other calls run.
 */
import type { ChainedEntry } from '@eaas/audit/formats'
import { createStretches } from '../event-loop.js'

const ESCAPED = /["\\]/g

/** `append` is the position of the entry's append among those of the statement. */
type EntryColumns = Record<'append' | Exclude<keyof ChainedEntry, 'tenant_id' | 'created_at'>, string>

/** Writes one array for each column whose values differ between the entries of an append; appends may be of many tenants. */
export async function writeColumns(appends: readonly { entries: readonly ChainedEntry[] }[]): Promise<EntryColumns> {
  let [append, id, action, key_id, key_version, actor, ip_address, metadata, hash, mac] = Array<string>(10).fill('')
  let separator = '{'
  let at = 0
  const pause = createStretches()
  const writeAction = rememberLast()
  const writeKeyId = rememberLast()
  const writeActor = rememberLast()
  const writeAddress = rememberLast()
  for (const { entries } of appends) {
    for (const entry of entries) {
      const due = pause()
      if (due) await due
      append += separator + at
      id += separator + entry.id
      action += separator + writeAction(entry.action)
      key_id += separator + writeKeyId(entry.key_id)
      key_version += separator + entry.key_version
      actor += separator + writeActor(entry.actor)
      ip_address += separator + writeAddress(entry.ip_address)
      metadata += separator + quotedJson(entry.metadata)
      hash += separator + hex(entry.hash)
      mac += separator + hex(entry.mac)
      separator = ','
    }
    at += 1
  }
  return {
    append: `${append}}`,
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

/** Writes an array of values that need no quotes: ids, integers and times. */
export function writeArray(values: readonly (string | number)[]): string {
  return `{${values.join()}}`
}

export function writeBytes(values: readonly Uint8Array[]): string {
  return `{${values.map(hex).join()}}`
}

/** Quotes values, many of which repeat in a row. */
function rememberLast(): typeof quoted {
  let last: string | null = null
  let written = quoted(last)
  return (text) => {
    if (text !== last) {
      last = text
      written = quoted(text)
    }
    return written
  }
}

function quoted(text: string | null): string {
  return text === null ? 'null' : `"${text.replace(ESCAPED, '\\$&')}"`
}

/** JSON has no control characters, so JSON's own escapes are valid for PostgreSQL, and one call writes them. */
function quotedJson(text: string | null): string {
  return text === null ? 'null' : JSON.stringify(text)
}

function hex(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return `"\\\\x${buffer.toString('hex')}"`
}

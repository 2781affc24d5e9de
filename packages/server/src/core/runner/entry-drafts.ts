/** The entries of a decision before they are chained: the actor, and the metadata as canonical JSON. */
import type { EntryDraft } from '../audit/formats/chain.js'
import { MAX_METADATA } from '../store/audit.js'
import type { Caller, EntryNote } from './operation.js'

type Metadata = NonNullable<EntryNote['metadata']>

/** The entries of a batch often share their metadata, so its text is made once. */
export function draftEntries(notes: readonly EntryNote[], caller: Caller): EntryDraft[] {
  let last: EntryNote['metadata']
  let text: string | null = null
  return notes.map((note, at) => {
    if (at === 0 || note.metadata !== last) text = metadataText(note, caller)
    last = note.metadata
    return draft(note, caller, text)
  })
}

export function draftEntry(note: EntryNote, caller: Caller): EntryDraft {
  return draft(note, caller, metadataText(note, caller))
}

function draft({ action, key_id, key_version }: EntryNote, { actor, ip_address }: Caller, metadata: string | null) {
  return { action, key_id: key_id ?? null, key_version: key_version ?? null, actor, ip_address, metadata }
}

function metadataText({ metadata }: EntryNote, { on_behalf_of, correlation }: Caller): string | null {
  const named = on_behalf_of === undefined ? metadata : { ...metadata, on_behalf_of }
  const all = correlation === undefined ? named : { ...named, ...correlation }
  return all === undefined ? null : canonicalJson(all)
}

// Most metadata is already sorted, and sorting it again would add to the cost of each call.
function isSorted(metadata: object): boolean {
  let before = ''
  for (const name in metadata) {
    if (name < before) return false
    before = name
  }
  return true
}

/** For one UTF-16 code unit of a string. */
const MAX_UTF8_BYTES = 3

/** RFC 8785 for flat objects. */
function canonicalJson(metadata: Metadata): string {
  const sorted = () => Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)))
  const text = JSON.stringify(isSorted(metadata) ? metadata : sorted())
  // Readers cut off longer metadata, so the entry would no longer verify.
  if (text.length * MAX_UTF8_BYTES > MAX_METADATA && Buffer.byteLength(text) > MAX_METADATA)
    throw new Error(`the metadata of an entry is over ${MAX_METADATA} bytes`)
  return text
}

/** The new values of changed columns, and the old ones under `<name>_before`. */
export function recordChanges<Row extends object>(before: Row, changes: Partial<Row>): Metadata {
  const values: Metadata = {}
  for (const name of Object.keys(changes) as (keyof Row & string)[]) {
    values[name] = changes[name] as Metadata[string]
    values[`${name}_before`] = before[name] as Metadata[string]
  }
  return values
}

// Exports of logs that no server wrote, with an anchor of an installation's log, and what its server and witness
// would have kept.
import { createSecretKey } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { SigningKey } from '../../../packages/audit/src/crypto.js'
import { anchorMetadata } from '../../../packages/audit/src/formats/anchor.js'
import { type AuditEntry, entryHash, genesisHash } from '../../../packages/audit/src/formats/chain.js'
import { encodePublicKey, signCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import { cosign, createWitnessKey } from '../../../packages/audit/src/formats/cosignature.js'
import {
  anchorLine,
  type ExportAnchor,
  entryLine,
  headerLine,
  linksLine,
  trailerLine,
} from '../../../packages/audit/src/formats/export.js'
import { signInstallation, signKeyChange } from '../../../packages/audit/src/formats/key-change.js'
import { inclusionProof } from '../../../packages/audit/src/formats/merkle.js'
import { encodeNoteKey, splitNote } from '../../../packages/audit/src/formats/signed-note.js'
import { signStretch } from '../../../packages/audit/src/formats/stretch.js'
import { signTree } from '../../../packages/audit/src/formats/tree.js'
import { keepTree } from '../../../packages/audit/src/formats/witnessed.js'
import { signingKeyOf } from '../../../packages/audit/src/node/signing-key.js'
import { type Draft, signingKey, TENANT } from './written-export.js'

export type Entry = AuditEntry & { hash: Uint8Array }
/** An entry of a log: on a day of January 2026, `usage.doubled` by default. */
export type Drafted = Pick<Draft, 'metadata'> & { on: number; action?: string }

const witnessSigner = signingKeyOf(createSecretKey(Buffer.alloc(32, 6)))
const witnessKey = createWitnessKey('witness.example/w1', witnessSigner)
/** The key of the witness, as `--witness` takes it. */
export const WITNESS = encodeNoteKey(witnessKey)

export const day = (number: number) => `2026-01-${String(number).padStart(2, '0')}T00:00:00.000Z`

/** Makes the entries of a log, or those that follow some of its entries. */
export function chain(tenant_id: string, drafts: readonly Drafted[], before: readonly Entry[] = []): Entry[] {
  const entries = [...before]
  for (const { on, action = 'usage.doubled', metadata } of drafts) {
    const hash = entries.at(-1)?.hash ?? genesisHash(tenant_id)
    const fields = { tenant_id, id: entries.length + 1, action, key_id: null, key_version: null, actor: 'system' }
    const members = Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
    const text = metadata ? JSON.stringify(Object.fromEntries(members)) : null
    const entry = { ...fields, ip_address: null, metadata: text, created_at: day(on) } as AuditEntry
    entries.push({ ...entry, hash: entryHash(hash, entry) })
  }
  return entries
}

/** The entries of an installation's log: on each day, an anchor that covers these entries of a tenant, or a start. */
export function installationOf(
  drafts: readonly { on: number; covers?: Entry }[],
  before: readonly Entry[] = [],
): Entry[] {
  return chain(
    INSTALLATION_ID,
    drafts.map(({ on, covers }) => {
      if (!covers) return { on, action: 'installation.start' }
      const metadata = anchorMetadata([{ tenant_id: TENANT, last_id: covers.id, hash: covers.hash }])
      return { on, action: 'installation.anchor', metadata }
    }),
    before,
  )
}

/** Finds the entry of an id. */
export function at(log: readonly Entry[], id: number): Entry {
  const entry = log[id - 1]
  if (!entry) throw new Error(`the log has no entry ${id}`)
  return entry
}

/** The note of an entry of a log, as it was signed on a day, by default with the key of the export. */
export function noteOf({ tenant_id, id, hash }: Entry, on: number, key = signingKey): string {
  return signCheckpoint(key, { tenant_id, last_id: id, hash, created_at: day(on) })
}

/** Makes the line of a checkpoint file for an installation's log that ended then, cosigned by the witness. */
export function cosignedLine(log: readonly Entry[], on: number, keys: readonly SigningKey[] = [signingKey]): string {
  const [first = signingKey, last = first] = keys
  const hashes = log.map(({ hash }) => hash)
  const tree = signTree(last, hashes, encodePublicKey(first))
  return `${JSON.stringify({ checkpoint: noteOf(at(log, log.length), on, last), tree: keepTree(witnessed(tree), hashes) })}\n`
}

/** Adds the witness's cosignature to the note of a tree. */
export function witnessed(tree: string): string {
  return tree + cosign({ key: witnessKey, signingKey: witnessSigner }, splitNote(tree).text, 1_800_000_000)
}

/** Makes the statements that lead from each key to the next. */
export function changesOf(...keys: readonly SigningKey[]): string[] {
  return keys.slice(1).map((to, at) => signKeyChange(keys[at] ?? to, to, day(1)))
}

/** Makes the statement of the keys of an installation, by the last one. */
export function installationNote(...keys: readonly [SigningKey, ...SigningKey[]]): string {
  return signInstallation(keys.at(-1) ?? keys[0], keys.map(encodePublicKey))
}

export interface Anchored {
  installation: readonly Entry[]
  /** the entry of the anchor, which covers the tenant's last entry, or this one */
  anchor: number
  covers?: Entry
  /** entries that are linked to it; none: no line of links */
  linked?: readonly number[] | 'none'
  /** the key that names the tree, by default the signer's */
  first?: SigningKey
  /** hashes in the signed tree that differ from those of the entries */
  hashes?: Readonly<Record<number, Uint8Array>>
}

/** Who signs an export, and what its first line says of that. */
interface By {
  key: SigningKey
  key_changes: readonly string[]
  installation?: string | undefined
}

/** Makes an export of a log after the entry `after`, signed on a day. */
export function exportOf(
  log: readonly Entry[],
  on: number,
  anchored?: Anchored,
  after = 0,
  by: By = { key: signingKey, key_changes: [], installation: anchored && installationNote(signingKey) },
): string {
  const last = at(log, log.length)
  const { key, ...keys } = by
  const after_hash = after === 0 ? genesisHash(TENANT) : at(log, after).hash
  return [
    headerLine({ tenant_id: TENANT, after_id: after, after_hash, ...keys }),
    ...(anchored ? anchorLines(anchored, last, { on, key }) : []),
    ...log.slice(after).map(entryLine),
    trailerLine({ checkpoint: noteOf(last, on, key), public_key: encodePublicKey(key) }),
  ].join('')
}

function anchorLines(
  { installation, anchor, covers, linked, first, hashes: others = {} }: Anchored,
  last: Entry,
  { on, key }: { on: number; key: SigningKey },
) {
  const entry = at(installation, anchor)
  const end = at(installation, installation.length)
  const { id: last_id, hash } = covers ?? last
  const hashes = installation.map(({ id, hash }) => others[id] ?? hash)
  const proofOf = (id: number) => inclusionProof(hashes, id - 1)
  const head = { head_id: end.id, head_hash: end.hash, created_at: day(on) }
  const position = { tenant_id: INSTALLATION_ID, last_id: entry.id, hash: entry.hash, ...head }
  const line: ExportAnchor = {
    anchor: entry,
    after_hash: installation[anchor - 2]?.hash ?? genesisHash(INSTALLATION_ID),
    ...{ last_id, hash, index: 0, proof: [] },
    signed: entry === end ? noteOf(entry, on, key) : signStretch(key, position),
  }
  if (linked === 'none') return [anchorLine(line)]
  const links = (linked ?? []).map((id) => ({ id, hash: others[id] ?? at(installation, id).hash, proof: proofOf(id) }))
  const tree = signTree(key, hashes, encodePublicKey(first ?? key))
  return [anchorLine(line), linksLine({ tree, proof: proofOf(entry.id), entries: links })]
}

// Exports of logs that no server wrote: any history, made in milliseconds, signed by a key of the test's own.
import { createSecretKey } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import { type AuditEntry, entryHash, genesisHash } from '../../../packages/audit/src/formats/chain.js'
import { encodePublicKey, signCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import { entryLine, headerLine, trailerLine } from '../../../packages/audit/src/formats/export.js'
import { RunningRoot } from '../../../packages/audit/src/formats/merkle.js'
import { signEntryTree } from '../../../packages/audit/src/formats/proof.js'
import { signStretch } from '../../../packages/audit/src/formats/stretch.js'
import { signingKeyOf } from '../../../packages/audit/src/node/signing-key.js'

export const TENANT = '0f8a5b52-54b0-4c0e-9a57-1b7f6f0a7a01'

/** An entry without its position; metadata as an object, whose members are written sorted. */
export interface Draft {
  action: string
  created_at: string
  key_id?: string | null
  key_version?: number | null
  actor?: string
  ip_address?: string | null
  metadata?: Readonly<Record<string, unknown>> | null
}

export const signingKey = signingKeyOf(createSecretKey(Buffer.alloc(32, 7)))
export const publicKey = encodePublicKey(signingKey)

/** Writes the lines of a whole log, each with its line feed. */
export function* writeExport(drafts: Iterable<Draft>, signed_at: string): Generator<string> {
  let hash = genesisHash(TENANT)
  let id = 0
  const leaves = new RunningRoot()
  yield headerLine({ tenant_id: TENANT, after_id: 0, after_hash: hash, key_changes: [] })
  for (const draft of drafts) {
    id += 1
    const entry = entryOf(id, draft)
    hash = entryHash(hash, entry)
    leaves.add(hash)
    yield entryLine({ ...entry, hash })
  }
  const checkpoint = signCheckpoint(signingKey, { tenant_id: TENANT, last_id: id, hash, created_at: signed_at })
  const range = { tenant_id: TENANT, after_id: 0, last_id: id, root: leaves.root(), created_at: signed_at }
  yield trailerLine({ checkpoint, public_key: publicKey, tree: signEntryTree(signingKey, range) })
}

/** Cuts a written export into several files, each through one of the ids: all but the last one end with a stretch. */
export function cutExport(lines: readonly string[], ends: readonly number[], signed_at: string): string[] {
  const entries = lines.slice(1, -1)
  const hashAt = (id: number) => (id === 0 ? genesisHash(TENANT) : decodeHex(JSON.parse(entries[id - 1] ?? '').hash))
  const head_id = entries.length
  return [...ends, head_id].map((through, at) => {
    const after_id = ends[at - 1] ?? 0
    const header = headerLine({ tenant_id: TENANT, after_id, after_hash: hashAt(after_id), key_changes: [] })
    const end = { tenant_id: TENANT, last_id: through, hash: hashAt(through), created_at: signed_at }
    const leaves = new RunningRoot()
    for (let id = after_id + 1; id <= through; id++) leaves.add(hashAt(id))
    const range = { tenant_id: TENANT, after_id, last_id: through, root: leaves.root(), created_at: signed_at }
    const tree = signEntryTree(signingKey, range)
    const trailer =
      through === head_id
        ? { checkpoint: signCheckpoint(signingKey, end), public_key: publicKey, tree }
        : {
            stretch: signStretch(signingKey, { ...end, head_id, head_hash: hashAt(head_id) }),
            public_key: publicKey,
            tree,
          }
    return [header, ...entries.slice(after_id, through), trailerLine(trailer)].join('')
  })
}

function entryOf(id: number, draft: Draft): AuditEntry {
  const { action, created_at, key_id = null, key_version = null, actor = 'system', ip_address = null, metadata } = draft
  const members = Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  const text = metadata ? JSON.stringify(Object.fromEntries(members)) : null
  const fields = { key_id, key_version, actor, ip_address, metadata: text, created_at }
  return { tenant_id: TENANT, id, action, ...fields } as AuditEntry
}

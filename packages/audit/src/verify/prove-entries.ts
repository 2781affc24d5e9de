/** Makes a file that proves entries, from a valid export, see proof.md 3. Pure. */
import { encodeHex } from '@eaas/protocol'
import type { PublicKeys } from '../formats/checkpoint.js'
import type { LinkedEntry } from '../formats/export.js'
import { followKeyChanges, listKeys } from '../formats/key-change.js'
import { GrowingLeaves, inclusionProof } from '../formats/merkle.js'
import type { Proof, ProvenEntry } from '../formats/proof.js'
import { type ExportedEntry, readHeader, readTrailer } from './read-export.js'
import { type ExportVerdict, type VerifyExportOptions, verifyExport } from './verify-export.js'

export interface ProveOptions extends Pick<VerifyExportOptions, 'publicKey' | 'onProgress'> {
  ids: readonly number[]
  /** entries of kept checkpoints: the file links to their `h`, and always to the last entry of the export */
  links?: readonly number[]
}

export interface Proving {
  verdict: ExportVerdict
  /** undefined if the export is not valid, has no signed tree, or lacks an entry */
  proof?: Proof
  missing: number[]
}

/** Proves entries of an export, whose lines are given as to `verifyExport`. Keeps 64 bytes per entry in memory. */
export async function proveEntries(
  lines: AsyncIterable<string> | Iterable<string>,
  { ids, links = [], ...options }: ProveOptions,
): Promise<Proving> {
  const leaves = new GrowingLeaves()
  const wanted = new Set(ids)
  const found = new Map<number, Omit<ProvenEntry, 'proof'>>()
  const hashes = new Map<number, Uint8Array>()
  const ends: { first?: string; last?: string } = {}
  let before: Uint8Array | undefined

  async function* seen() {
    for await (const line of lines) {
      ends.first ??= line
      ends.last = line
      yield line
    }
  }
  const verdict = await verifyExport(seen(), {
    ...options,
    onEntry(entry: ExportedEntry) {
      const { id, hash } = entry
      if (wanted.has(id)) found.set(id, { before: before ?? readHeader(ends.first ?? '').after_hash, entry })
      if (links.includes(id)) hashes.set(id, hash)
      leaves.add(hash)
      before = hash
    },
  })
  const missing = [...wanted].filter((id) => !found.has(id))
  const { valid, after_id = 0, last_id = 0 } = verdict
  if (!valid || missing.length > 0 || !before) return { verdict, missing }
  hashes.set(last_id, before)
  const { tree, public_key } = readTrailer(ends.last ?? '')
  if (tree === undefined) return { verdict, missing }
  const proofAt = (id: number) => inclusionProof(leaves.now(), id - after_id - 1)
  const linked = ([id, hash]: [number, Uint8Array]): LinkedEntry => ({ id, hash, proof: proofAt(id) })
  return {
    verdict,
    missing,
    proof: {
      statement: tree,
      public_key,
      key_changes: readHeader(ends.first ?? '').key_changes,
      entries: [...found.values()].map((entry) => ({ ...entry, proof: proofAt(entry.entry.id) })),
      links: [...hashes].map(linked),
    },
  }
}

/** Lists the keys to trust for one of several exports. `header` is that of the last one, which states the key changes. */
export function signersOf(header: string, publicKey: string | undefined): PublicKeys | undefined {
  const keys = listKeys(followKeyChanges(readHeader(header).key_changes))
  return publicKey !== undefined && keys.includes(publicKey) ? keys : publicKey
}

/** Finds the one of consecutive exports that has all entries; `starts` are the ids before their first entries. */
export function selectExport(starts: readonly number[], ids: readonly number[]): number | undefined {
  const at = Math.max(
    0,
    starts.findLastIndex((after_id) => after_id < Math.min(...ids)),
  )
  const next = starts[at + 1]
  return next === undefined || Math.max(...ids) <= next ? at : undefined
}

/** Describes a proven entry for people. */
export function describeEntry({
  id,
  action,
  key_id,
  key_version,
  actor,
  created_at,
  metadata,
  hash,
}: ExportedEntry): string[] {
  return [
    `entry       ${id}, ${created_at}`,
    `action      ${action}`,
    ...(key_id === null ? [] : [`key         ${key_id}${key_version === null ? '' : `, version ${key_version}`}`]),
    `by          ${actor}`,
    ...(metadata === null ? [] : [`metadata    ${metadata}`]),
    `hash        ${encodeHex(hash)}`,
  ]
}

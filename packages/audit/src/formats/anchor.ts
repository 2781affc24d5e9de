/** What an anchor in the installation's log states about the heads of all tenants, see anchor.md 3. Pure. */
import { decodeHex, encodeHex, readJson } from '@eaas/protocol'
import * as z from 'zod/mini'
import { anchorLeaf, merkleRoot } from './merkle.js'

/** Sorted by tenant id. */
export type CoveredHeads = readonly { tenant_id: string; last_id: number; hash: Uint8Array }[]

const metadataSchema = z.strictObject({
  root: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  tenants: z.int().check(z.gte(0)),
})

/** Computes the root over the heads. @throws RangeError if a tenant id, last id or hash is malformed */
export function anchorRoot(heads: CoveredHeads): Uint8Array {
  return merkleRoot(heads.map(anchorLeaf))
}

/** Makes the metadata of an anchor over the heads. */
export function anchorMetadata(heads: CoveredHeads): { root: string; tenants: number } {
  return { root: encodeHex(anchorRoot(heads)), tenants: heads.length }
}

/** Reads the metadata of an anchor; undefined if the text is not exactly as the server writes it. */
export function readAnchorMetadata(metadata: string | null): { root: Uint8Array; tenants: number } | undefined {
  const { success, data } = metadataSchema.safeParse(readJson(metadata ?? 'null'))
  if (!success || metadata !== JSON.stringify({ root: data.root, tenants: data.tenants })) return undefined
  return { root: decodeHex(data.root), tenants: data.tenants }
}

/** The newest anchor of the installation's log as an export shows it (export.md 8). */
import { INSTALLATION_ID } from '@eaas/protocol'
import { type Head, isHeadAuthentic } from '../../audit/formats/chain.js'
import { signCheckpoint } from '../../audit/formats/checkpoint.js'
import type { ExportAnchor } from '../../audit/formats/export.js'
import { anchorLeaf, inclusionProof } from '../../audit/formats/merkle.js'
import { signStretch } from '../../audit/formats/stretch.js'
import { assertLeadsToHead } from '../../audit/lead-to-head.js'
import { TamperedEntryError } from '../../audit/listed-entries.js'
import { AnchorFault, readAnchor } from '../../audit/watch/newest-anchor.js'
import type { Services } from '../../runner/operation.js'
import { findEntryHash, findHead } from '../../store/audit.js'

/** Finds it; undefined if the tenant is not covered yet, or if the installation's log is not as the server wrote it. */
export async function findCovering(services: Services, tenant_id: string): Promise<ExportAnchor | undefined> {
  const { sql, installationKey } = services
  const anchor = await readAnchor(sql, installationKey).catch((error: unknown) => {
    if (!(error instanceof AnchorFault)) throw error
  })
  const index = anchor?.heads.findIndex((head) => head.tenant_id === tenant_id) ?? -1
  const covered = anchor?.heads[index]
  if (!anchor || !covered) return undefined
  const { entry, heads } = anchor
  const after_hash = await findEntryHash(sql, INSTALLATION_ID, entry.id - 1)
  const head = await findHead(sql, INSTALLATION_ID)
  if (!after_hash || !head || !isHeadAuthentic(installationKey, head)) return undefined
  try {
    await assertLeadsToHead(sql, { from: { last_id: entry.id, hash: entry.hash }, head })
  } catch (error) {
    if (error instanceof TamperedEntryError) return undefined
    throw error
  }
  return {
    anchor: entry,
    after_hash,
    last_id: covered.last_id,
    hash: covered.hash,
    index,
    proof: inclusionProof(heads.map(anchorLeaf), index),
    signed: signPosition(services, { last_id: entry.id, hash: entry.hash }, head),
  }
}

function signPosition(
  { signingKey, now }: Services,
  { last_id, hash }: Pick<Head, 'last_id' | 'hash'>,
  head: Head,
): string {
  const statement = { tenant_id: INSTALLATION_ID, last_id, hash, created_at: new Date(now()).toISOString() }
  if (head.last_id === last_id) return signCheckpoint(signingKey, statement)
  return signStretch(signingKey, { ...statement, head_id: head.last_id, head_hash: head.hash })
}

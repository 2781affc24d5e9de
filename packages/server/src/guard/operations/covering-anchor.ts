/** The newest anchor, and the links from kept checkpoints to it, as an export contains them (export.md 8 and 9). */
import {
  anchorLeaf,
  type ChainedEntry,
  type ExportLinks,
  inclusionProof,
  signCheckpoint,
  signStretch,
  signTree,
} from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Head } from '../../core/audit/formats/chain.js'
import type { Covering, ToLink } from '../../core/audit/guard.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { findEntryHash } from '../../core/store/audit.js'
import { AnchorFault, readAnchor } from '../watch/newest-anchor.js'
import { createTreeReader, UnprovenTreeError } from './proven-tree.js'

/**
 * Undefined if no genuine anchor covers the tenant, or if the log does not prove which keys signed for the installation.
 * @throws Refusal E_STATE if no demanded entry can be linked
 */
export async function findCovering(
  services: Services,
  tenant_id: string,
  { known, demanded }: ToLink = { known: [], demanded: [] },
): Promise<Covering | undefined> {
  const { sql, installationKey } = services
  // Before the log is read, since a checkpoint of later entries must have a later time.
  const created_at = new Date(services.now()).toISOString()
  const anchor = await readAnchor(sql, installationKey).catch((error: unknown) => {
    if (!(error instanceof AnchorFault)) throw error
  })
  const index = anchor?.heads.findIndex((head) => head.tenant_id === tenant_id) ?? -1
  const covered = anchor?.heads[index]
  const after_hash = anchor && (await findEntryHash(sql, INSTALLATION_ID, anchor.entry.id - 1))
  if (!anchor || !covered || !after_hash) {
    if (demanded.length === 0) return undefined
    throw new Refusal(
      'E_STATE',
      'no anchor covers the tenant, so no checkpoint of the installation can be linked to it: wait for the next anchor, or have one written with eaas audit checkpoint --installation',
    )
  }
  const { entry, heads, head } = anchor
  const proven = await proveLinks(services, { anchor: entry, head, known, demanded })
  return (
    proven && {
      anchor: {
        anchor: entry,
        after_hash,
        last_id: covered.last_id,
        hash: covered.hash,
        index,
        proof: inclusionProof(heads.map(anchorLeaf), index),
        signed: signPosition(services, { last_id: entry.id, hash: entry.hash, created_at }, head),
      },
      links: proven.links,
    }
  )
}

/** Proves, by the installation's whole log, which keys signed for it. @throws Refusal E_STATE if it states others */
export async function proveKeys({ sql, signingKey, installationKey }: Services, head: Head): Promise<void> {
  try {
    await createTreeReader()(sql, head, { auditKey: installationKey, publicKeys: signingKey.publicKeys })
  } catch (error) {
    throw error instanceof UnprovenTreeError ? new Refusal('E_STATE', error.message) : error
  }
}

function signPosition(
  { signingKey }: Services,
  position: Pick<Head, 'last_id' | 'hash' | 'created_at'>,
  head: Head,
): string {
  const statement = { tenant_id: INSTALLATION_ID, ...position }
  if (head.last_id === position.last_id) return signCheckpoint(signingKey, statement)
  return signStretch(signingKey, { ...statement, head_id: head.last_id, head_hash: head.hash })
}

/** Links the wanted entries by the tree of the whole log, and checks by it which keys signed for the installation. */
async function proveLinks(
  { sql, signingKey, installationKey }: Services,
  { anchor, head, known, demanded }: { anchor: ChainedEntry; head: Head } & ToLink,
): Promise<{ links: ExportLinks | undefined } | undefined> {
  // The verifier refuses a checkpoint of a later entry, whatever the export links.
  const wanted = new Set([...known, ...demanded].filter((id) => id <= head.last_id))
  const hashes = new Map<number, Uint8Array>()
  let afreshBy = 0
  const onEntry = ({ id, hash, action }: ChainedEntry) => {
    if (wanted.has(id)) hashes.set(id, hash)
    if (action === 'audit.rollback_accepted' && id <= anchor.id) afreshBy = id
  }
  try {
    const { publicKeys } = signingKey
    const tree = await createTreeReader()(sql, head, { auditKey: installationKey, publicKeys, onEntry })
    if (wanted.size === 0) return { links: undefined }
    // The anchors began afresh at `afreshBy` (anchor.md 4), so an earlier one says nothing about what later ones cover.
    if (demanded.length > 0 && demanded.every((id) => id < afreshBy)) {
      throw new Refusal(
        'E_STATE',
        `entry ${afreshBy} of the installation's log accepted a rollback of that log, so an earlier checkpoint covers no tenant: compare with one of the tenant itself`,
      )
    }
    const entries = [...hashes].filter(([id]) => id >= afreshBy)
    const links = {
      tree: signTree(signingKey, tree, publicKeys[0]),
      proof: inclusionProof(tree, anchor.id - 1),
      entries: entries.map(([id, hash]) => ({ id, hash, proof: inclusionProof(tree, id - 1) })),
    }
    return { links }
  } catch (error) {
    if (!(error instanceof UnprovenTreeError)) throw error
    if (demanded.length > 0) throw new Refusal('E_STATE', error.message)
    return undefined
  }
}

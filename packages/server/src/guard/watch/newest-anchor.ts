/** Reads the newest anchor of the installation's log and the heads that it covers (anchor.md 4). */
import { anchorRoot, type ChainedEntry, genesisHash, readAnchorMetadata } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import { followAuditKey } from '../../core/audit/audit-key.js'
import { type AuditKey, equalBytes, type Head, isHeadAuthentic, type KeptHead } from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import { findHead } from '../../core/store/audit.js'
import type { Queryable, Sql, Transaction } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { type AnchoredHead, findAnchorId, listAnchoredHeads } from '../store/anchors.js'
import { readStretch } from './follow.js'
import { followStretch } from './judge.js'

/** The anchored heads are not those of the newest anchor, or the log after it is not as the server wrote it. */
export class AnchorFault extends Error {
  override readonly name = 'AnchorFault'
}

/** The covered heads are in the order of their tenants' ids. */
export interface Anchor {
  entry: ChainedEntry
  heads: AnchoredHead[]
  head: Head // the head of the installation's log, to which the entries from the anchor on lead
}

/** Undefined before the first anchor. @throws AnchorFault unless it is the newest one and covers the anchored heads */
export async function readAnchor(sql: Sql, auditKey: AuditKey): Promise<Anchor | undefined> {
  // In one snapshot, since another process may write an anchor meanwhile.
  return sql.begin('isolation level repeatable read read only', (snapshot) => readAnchorIn(snapshot, auditKey))
}

/** Ignores an anchor that is not as the server wrote it: it says nothing about the tenant, and raises an alarm elsewhere. */
export async function findAnchored(
  { sql, installationKey }: { sql: Sql; installationKey: AuditKey },
  tenant_id: string,
): Promise<AnchoredHead | undefined> {
  try {
    return (await readAnchor(sql, installationKey))?.heads.find((head) => head.tenant_id === tenant_id)
  } catch (error) {
    if (error instanceof AnchorFault) return undefined
    throw error
  }
}

/** Undefined if no server wrote it, since a forged later time must not delay the next anchor. */
export async function readAnchorTime(sql: Queryable, auditKey: AuditKey): Promise<string | undefined> {
  const { entry } = await readNewest(sql, auditKey)
  return entry?.action === 'installation.anchor' ? entry.created_at : undefined
}

async function readNewest(
  sql: Queryable,
  auditKey: AuditKey,
): Promise<{ id: number | undefined; entry: ChainedEntry | undefined }> {
  await followAuditKey(sql, auditKey)
  const id = await findAnchorId(sql)
  const where = { tenant_id: INSTALLATION_ID, auditKey }
  return { id, entry: id === undefined ? undefined : await readAuthenticEntry(sql, { ...where, id }) }
}

/** As `readAnchor`, in a snapshot or under the lock of the installation's head. @throws AnchorFault */
export async function readAnchorIn(sql: Transaction, auditKey: AuditKey): Promise<Anchor | undefined> {
  const { id, entry } = await readNewest(sql, auditKey)
  const heads = await listAnchoredHeads(sql, readAnchorMetadata(entry?.metadata ?? null)?.tenants ?? 0)
  const anchor = compareAnchor({ id, entry, heads })
  const head = await followToHead(sql, auditKey, anchor?.entry)
  return anchor && { ...anchor, head }
}

// Checks that no anchor follows this one, or that there is none. The anchor was found by its column `action`, which the
// database administrator can edit for that moment. Computed hashes, which cover the column, must lead to the head in
// the same transaction. @throws AnchorFault
async function followToHead(sql: Transaction, auditKey: AuditKey, anchor: ChainedEntry | undefined): Promise<Head> {
  const tenant_id = INSTALLATION_ID
  const head = await findHead(sql, tenant_id).catch((error: unknown) => {
    if (!(error instanceof TamperedRowError)) throw error
  })
  if (!head || !isHeadAuthentic(auditKey, head)) {
    throw new AnchorFault("the head of the installation's log is missing, or not as the server wrote it")
  }
  let from: KeptHead = { last_id: anchor?.id ?? 0, hash: anchor?.hash ?? genesisHash(tenant_id), policy_version: 0 }
  for (;;) {
    const stretch = await readStretch(sql, from, head)
    const reached = followStretch(from, { head, stretch, auditKey })
    if ('kind' in reached) {
      throw new AnchorFault(
        `the installation's log does not lead from ${nameOf(anchor)} to its head: entry ${reached.id}`,
      )
    }
    const { last_id } = from
    const later = stretch.find(({ id, action }) => id > last_id && action === 'installation.anchor')
    if (later) throw new AnchorFault(`${nameOf(anchor)} is not the newest anchor: entry ${later.id} is`)
    if (reached === head) return head
    from = reached
  }
}

function nameOf(anchor: ChainedEntry | undefined): string {
  return anchor ? `the newest anchor that was found (entry ${anchor.id})` : 'its beginning'
}

/** `entry` is undefined if it is not authentic. @throws AnchorFault */
export function compareAnchor(found: {
  id: number | undefined
  entry: ChainedEntry | undefined
  heads: AnchoredHead[]
}): Omit<Anchor, 'head'> | undefined {
  const { id, entry, heads } = found
  if (id === undefined) {
    if (heads.length > 0) throw new AnchorFault("there are anchored heads, and no anchor in the installation's log")
    return undefined
  }
  if (!entry) throw new AnchorFault(`the newest anchor (entry ${id}) is not as the server wrote it`)
  const covered = readAnchorMetadata(entry.metadata)
  if (!covered || covered.tenants !== heads.length || !equalBytes(rootOf(heads), covered.root)) {
    throw new AnchorFault(`the anchored heads are not those of the newest anchor (entry ${id})`)
  }
  return { entry, heads }
}

// An edited row may have values that no leaf can have.
function rootOf(heads: readonly AnchoredHead[]): Uint8Array {
  try {
    return anchorRoot(heads)
  } catch {
    throw new AnchorFault('an anchored head holds values that no head has')
  }
}

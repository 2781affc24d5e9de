/** Reads the newest anchor of the installation's log and what it covers, see anchor.md 4. */
import type { KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { type AnchoredHead, findAnchorId, listAnchoredHeads } from '../../store/anchors.js'
import type { Queryable, Sql, Transaction } from '../../store/db.js'
import { anchorRoot, readAnchorMetadata } from '../formats/anchor.js'
import { type ChainedEntry, equalBytes } from '../formats/chain.js'
import { readAuthenticEntry } from '../read-entry.js'

/** Thrown when the anchored heads are not those of the newest anchor, or when that is not as the server wrote it. */
export class AnchorFault extends Error {
  override readonly name = 'AnchorFault'
}

/** The newest anchor, and the heads that it covers in the order of their tenants' ids. */
export interface Anchor {
  entry: ChainedEntry
  heads: AnchoredHead[]
}

/** Reads the newest anchor and checks that it covers the anchored heads; undefined before the first one. @throws AnchorFault */
export async function readAnchor(sql: Sql, auditKey: KeyObject): Promise<Anchor | undefined> {
  // In one snapshot: another process may write an anchor meanwhile.
  return sql.begin('isolation level repeatable read read only', (snapshot) => readFrom(snapshot, auditKey)) as Promise<
    Anchor | undefined
  >
}

/** Reads the heads that the newest anchor covers, in a transaction that holds the head of the installation's log. @throws AnchorFault */
export async function readAnchorHeads(sql: Transaction, auditKey: KeyObject): Promise<AnchoredHead[]> {
  return (await readFrom(sql, auditKey))?.heads ?? []
}

/** The time of the newest anchor; undefined if there is none, or if no server wrote it: a later time must not put the next one off. */
export async function readAnchorTime(sql: Queryable, auditKey: KeyObject): Promise<string | undefined> {
  const id = await findAnchorId(sql)
  const where = { tenant_id: INSTALLATION_ID, auditKey }
  const entry = id === undefined ? undefined : await readAuthenticEntry(sql, { ...where, id })
  return entry?.action === 'installation.anchor' ? entry.created_at : undefined
}

async function readFrom(sql: Transaction, auditKey: KeyObject): Promise<Anchor | undefined> {
  const id = await findAnchorId(sql)
  const entry =
    id === undefined ? undefined : await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, id, auditKey })
  const heads = await listAnchoredHeads(sql, readAnchorMetadata(entry?.metadata ?? null)?.tenants ?? 0)
  return compareAnchor({ id, entry, heads })
}

/**
 * Checks that the newest anchor covers the anchored heads; undefined if there is neither. `id` is that of the newest anchor, `entry` is undefined
 * if that is not authentic. @throws AnchorFault
 */
export function compareAnchor({
  id,
  entry,
  heads,
}: {
  id: number | undefined
  entry: ChainedEntry | undefined
  heads: AnchoredHead[]
}): Anchor | undefined {
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

// An edited row may hold what no leaf can.
function rootOf(heads: readonly AnchoredHead[]): Uint8Array {
  try {
    return anchorRoot(heads)
  } catch {
    throw new AnchorFault('an anchored head holds values that no head has')
  }
}

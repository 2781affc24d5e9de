/** Reads what the installation's log says about a tenant's log: the last entry that it names, and an accepted loss (anchor.md 4). */
import { type ChainedEntry, entryHash, genesisHash, readMetadata } from '@eaas/audit/formats'
import { decodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { type AuditKey, entryMac, equalBytes, type Witness } from '../core/audit/formats/chain.js'
import { findAuthenticMark, readAuthenticEntry } from '../core/audit/read-entry.js'
import { type NamedEntry, readRecordedTenants } from '../core/audit/recorded-tenants.js'
import type { Queryable } from '../core/store/db.js'
import { findMissingTenants, findStatuses } from '../core/store/tenants.js'

/** `rows` are the named entry and the one before it. */
export function hasNamed(
  rows: readonly ChainedEntry[],
  { tenant_id, named, auditKey }: { tenant_id: string; named: NamedEntry; auditKey: AuditKey | undefined },
): boolean {
  const entry = rows.find(({ id }) => id === named.id)
  const before = named.id === 1 ? genesisHash(tenant_id) : rows.find(({ id }) => id === named.id - 1)?.hash
  if (!entry || !before || !auditKey) return false
  const hash = entryHash(before, entry)
  return equalBytes(entry.mac, entryMac(auditKey, entry.id, hash)) && equalBytes(hash, named.hash)
}

/** Compares a tenant with the installation's log in this snapshot; returns the contradiction, if any. */
export async function findContradiction(
  snapshot: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<string | undefined> {
  const { ends, statuses } = await readRecordedTenants(snapshot, tenant_id)
  const named = ends.get(tenant_id)
  if (named && !(await isThere(snapshot, { tenant_id, auditKey, named }))) {
    return (
      `the installation's log names entry ${named.id} of the tenant's log, which has another entry there: the tenant was put back, or the ` +
      'database was tampered with'
    )
  }
  const [status, found] = [statuses.get(tenant_id), (await findStatuses(snapshot, [tenant_id])).get(tenant_id)]
  if (status === undefined || found === undefined || status === found) return undefined
  return `the installation's log says that the tenant is ${status}, and its row that it is ${found}: the database was tampered with`
}

export function witnessOf({ id, hash }: NamedEntry): Witness {
  return { last_id: id, hash, policy_version: 0 }
}

export async function isThere(
  sql: Queryable,
  { tenant_id, auditKey, named }: { tenant_id: string; auditKey: AuditKey; named: NamedEntry },
): Promise<boolean> {
  const { id } = named
  const mark = await findAuthenticMark(sql, { tenant_id, auditKey })
  if (mark && mark.purged_through >= id) return true
  const previousHash = mark?.purged_through === id - 1 ? mark.hash : undefined
  const entry = await readAuthenticEntry(sql, { tenant_id, id, auditKey }, previousHash)
  return entry !== undefined && equalBytes(entry.hash, named.hash)
}

/**
 * The known head of a tenant when an operator accepted that it is gone. Undefined if the alarm was not proven, since
 * more may have been known; if the tenant had moved away, since another installation continues its log; and if the
 * entry is not authentic or has other contents.
 */
export async function readLostHead(
  sql: Queryable,
  where: { auditKey: AuditKey; tenant_id: string; id: number },
): Promise<Witness | undefined> {
  const entry = await readLoss(sql, where)
  const { is_alarm_proven, status_before } = readMetadata(entry ?? { metadata: null })
  return entry && is_alarm_proven !== false && status_before !== 'moved' ? lostHead(entry.metadata) : undefined
}

/**
 * Whether an operator accepted that the tenant is gone with its whole witnessed log. With `isMoved`, only if its rows
 * were deleted here after its move.
 */
export async function isLossAccepted(
  sql: Queryable,
  of: { installationKey: AuditKey; tenant_id: string; witness: Witness | undefined; isMoved?: boolean },
): Promise<boolean> {
  const { installationKey, tenant_id, witness, isMoved = false } = of
  const id = (await readRecordedTenants(sql, tenant_id)).gone.get(tenant_id)
  if (id === undefined) return false
  const entry = await readLoss(sql, { auditKey: installationKey, tenant_id, id })
  if (!entry || (isMoved && readMetadata(entry).status_before !== 'moved')) return false
  return (witness?.last_id ?? 0) <= (lostHead(entry.metadata)?.last_id ?? 0)
}

/** Whether the tenant has no row, and an operator accepted that with its whole witnessed log. */
export async function isGoneAccepted(sql: Queryable, of: Parameters<typeof isLossAccepted>[1]): Promise<boolean> {
  return (await findMissingTenants(sql, [of.tenant_id])).length > 0 && (await isLossAccepted(sql, of))
}

async function readLoss(
  sql: Queryable,
  { auditKey, tenant_id, id }: { auditKey: AuditKey; tenant_id: string; id: number },
): Promise<{ metadata: string | null } | undefined> {
  const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, id, auditKey })
  const isOf = entry?.action === 'installation.tenant_gone' && readMetadata(entry).tenant_id === tenant_id
  return isOf ? entry : undefined
}

/** Undefined if the metadata names no head. */
export function lostHead(metadata: string | null): Witness | undefined {
  const { witnessed_id, witnessed_hash } = readMetadata({ metadata })
  if (typeof witnessed_id !== 'number' || witnessed_id === 0 || typeof witnessed_hash !== 'string') return undefined
  // The policy version is not on record; 0 is below every real one.
  return { last_id: witnessed_id, hash: decodeHex(witnessed_hash), policy_version: 0 }
}

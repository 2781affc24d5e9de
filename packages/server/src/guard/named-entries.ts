/** Whether the entry that the installation's log names last of a tenant's log is there (anchor.md 4). */
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { type AuditKey, entryMac, equalBytes, type Witness } from '../core/audit/formats/chain.js'
import { findAuthenticMark, readAuthenticEntry } from '../core/audit/read-entry.js'
import { type NamedEntry, readRecordedTenants } from '../core/audit/recorded-tenants.js'
import type { Queryable } from '../core/store/db.js'
import { findStatuses } from '../core/store/tenants.js'

/** `rows` must be the named entry and the one before it. */
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

/** Compares a tenant with the installation's log in this snapshot; returns what is wrong. */
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

/** Whether a log has the entry, or a purge took it. */
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

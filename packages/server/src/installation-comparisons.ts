/** Compares logs with the newest anchor, the heads that others saw, and the checkpoint file. */
import { followAuditKey, openAuditKey, readAuditKeys } from './core/audit/audit-key.js'
import type { AuditKey, Witness } from './core/audit/formats/chain.js'
import type { Services } from './core/runner/operation.js'
import type { Queryable } from './core/store/db.js'
import { NoDatabaseError } from './core/store/open-store.js'
import { assertWhole } from './core/store/tampered-row.js'
import { findMissingTenants } from './core/store/tenants.js'
import { isLossAccepted } from './guard/named-entries.js'
import { compareWithAnchor } from './guard/watch/anchor-watch.js'
import type { KeysOfHeads } from './guard/watch/follow.js'
import { watchesOf } from './guard/watch/head-watch.js'
import { holdsCheckpoints, type LineFault, readKeptFile } from './guard/watch/kept-witnesses.js'
import {
  ACCEPTED_ROW,
  createSharedAlarms,
  GONE_ACCEPTED,
  MISSING_TENANT,
  type SharedAlarms,
} from './guard/watch/shared-alarms.js'

export interface ComparisonOptions {
  onWarning?: (message: string, details: Record<string, unknown>) => void
  /** called with the faulty lines of the checkpoint file; without it, faults are not searched for */
  onKeptFaults?: (faults: readonly LineFault[]) => void
}

export interface Comparisons {
  sharedAlarms: SharedAlarms // call its `compare` about once a second
  /** Compares every tenant's log with the newest anchor; returns the errors of single tenants. */
  compareAnchored(): Promise<unknown[]>
}

/** Remembers the content of the checkpoint file about the logs, for the comparisons. */
export async function rememberKept(
  { sql, storeKeys, signingKey, committer, installationKey }: Services,
  file: string,
  { onKeptFaults, onWarning }: ComparisonOptions,
): Promise<void> {
  const { faults, witnesses, others } = await readKeptFile(file, signingKey.publicKeys, {
    isThorough: onKeptFaults !== undefined,
    findAuditKeys: (tenants) => readAuditKeys(sql, storeKeys, tenants),
  })
  if (faults.length > 0) onKeptFaults?.(faults)
  const watches = watchesOf(committer)
  for (const [tenant_id, witness] of witnesses) watches.get(tenant_id).held.remember(witness)
  for (const other of others) watches.get(other.tenant_id).held.remember(other)
  for (const tenant_id of await listUnexplained(sql, installationKey, witnesses))
    onWarning?.(MISSING_TENANT, { tenant_id, file, line: witnesses.get(tenant_id)?.line })
}

/** Those of these tenants that are missing in the database, except recorded deletions after a move. */
export async function listUnexplained(
  sql: Queryable,
  installationKey: AuditKey,
  witnesses: ReadonlyMap<string, Witness>,
): Promise<string[]> {
  const unexplained: string[] = []
  for (const tenant_id of await findMissingTenants(sql, [...witnesses.keys()])) {
    const witness = witnesses.get(tenant_id)
    if (!(await isLossAccepted(sql, { installationKey, tenant_id, witness, isMoved: true })))
      unexplained.push(tenant_id)
  }
  return unexplained
}

/** `assertSessions` is called before each comparison with the database. */
export function createComparisons(
  { sql, storeKeys, states, committer, installationKey, now }: Services,
  assertSessions: () => Promise<void>,
  { onWarning }: ComparisonOptions,
): Comparisons {
  const isGone = async (tenant_id: string) => {
    const [missing] = await findMissingTenants(sql, [tenant_id])
    if (missing !== undefined) states.forget(tenant_id)
    return missing !== undefined
  }
  const findAuditKey = async (tenant_id: string) => {
    const auditKey = (await states.find(tenant_id))?.auditKey
    if (!auditKey) return undefined
    await followAuditKey(sql, auditKey)
    return auditKey
  }
  const openKey: KeysOfHeads['openKey'] = (row) => openAuditKey(storeKeys, row)
  const shared = { sql, watches: watchesOf(committer), installationKey, findAuditKey, openKey }
  return {
    compareAnchored: () => compareWithAnchor(shared),
    sharedAlarms: createSharedAlarms({
      ...shared,
      assertSessions,
      isGone,
      onGoneAccepted: (tenant_id) => onWarning?.(GONE_ACCEPTED, { tenant_id }),
      onAcceptedRow: (tenant_id) => onWarning?.(ACCEPTED_ROW, { tenant_id }),
      now,
    }),
  }
}

/** Refuses a used checkpoint file for a database without an installation. @throws NoDatabaseError, HiddenRowsError */
export async function assertUnused(sql: Queryable, checkpointFile: string): Promise<void> {
  if (!(await holdsCheckpoints(checkpointFile))) return
  await assertWhole(sql)
  throw new NoDatabaseError(
    `There is no installation in this database, but ${checkpointFile} (EAAS_CHECKPOINT_FILE) holds checkpoints of one: somebody emptied the ` +
      'database, or this is another one, or another schema of it. Connect to the right one, or restore a backup. For a new installation, name another file.',
  )
}

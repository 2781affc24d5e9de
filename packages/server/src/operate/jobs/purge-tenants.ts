/** Purges logs: archives entries, restates rights that only they record, marks entries, and deletes them in batches. */
import { setTimeout as sleep } from 'node:timers/promises'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Config } from '../../core/config.js'
import type { Log, Run } from '../../core/jobs/periodic.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { isMovedAway } from '../../core/runner/tenant-state.js'
import { createTableComparison } from '../../guard/jobs/compare-tables.js'
import { listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import {
  OtherEntriesRefusal,
  type PurgeOptions,
  type PurgePlan,
  purgeAudit,
  verifyOnce,
} from '../operations/purge-audit.js'
import { reviewLeft } from '../operations/purge-candidate.js'
import { restateRights } from '../operations/restate-rights.js'
import { deleteOldest, hasEntryThrough } from '../store/purge.js'
import { archiveEntries, setAside } from './archive-entries.js'

const BATCH_ENTRIES = 2_000 // entries deleted in one statement
const PAUSE_MS = 20 // after each statement

export interface PurgeTenantOptions extends PurgeOptions {
  archiveDir?: string | undefined // a directory to which the entries are exported before they are marked
  onProgress?: ((deleted: number) => void) | undefined
  signal?: AbortSignal | undefined
}

/** Purges one log, and deletes entries that an earlier run only marked. @throws Refusal E_STATE, also if entries remain */
export async function purgeTenant(
  services: Services,
  tenant_id: string,
  { archiveDir, onProgress, signal, ...options }: PurgeTenantOptions,
): Promise<PurgePlan> {
  let verify = verifyOnce()
  const planning = purgeAudit({ ...options, verify, dryRun: true, isReview: options.dryRun === true })
  const { hash, ...plan } = await performAsSystem(services, tenant_id, planning)
  if (options.dryRun) return plan
  const through_id = plan.purged_through
  let archive: string | undefined
  // The hash is missing if there is nothing to purge.
  if (archiveDir !== undefined && hash) {
    const stretch = { tenant_id, after_id: through_id - plan.entries, through_id, hash }
    archive = await archiveEntries(services, stretch, archiveDir)
  }
  if (plan.restates > 0) {
    await restate(services, tenant_id, { through_id, signal })
    if (signal?.aborted) return { ...plan, purged_through: through_id - plan.entries, entries: 0 }
    // Verifies again while the entries to purge still exist, and checks that no row was hidden from its restatement.
    verify = verifyOnce()
  }
  const marking = { ...options, verify, signal, through_id, through_hash: hash }
  const purged = await mark(services, tenant_id, marking).catch(async (error: unknown) => {
    if (!archive || !(error instanceof OtherEntriesRefusal)) throw error
    throw new Refusal('E_STATE', `${error.message}. The archive is now ${await setAside(archive)}`)
  })
  let deleted = 0
  while (!signal?.aborted) {
    const batch = { tenant_id, through_id: purged.purged_through, limit: BATCH_ENTRIES }
    const count = await deleteOldest(services.sql, batch)
    if (count === 0) break
    deleted += count
    onProgress?.(deleted)
    await sleep(PAUSE_MS)
  }
  if (!signal?.aborted) await assertDeleted(services, { tenant_id, deleted, ...purged })
  return { ...purged, restates: plan.restates }
}

// A trigger or a policy of the database's owner can prevent deletions without an error, and hide the rows from this
// check. That changes the tables. If the tables are unchanged, another server's purge deleted the rest.
async function assertDeleted(
  services: Services,
  purged: Pick<PurgePlan, 'entries' | 'purged_through'> & { tenant_id: string; deleted: number },
): Promise<void> {
  const { tenant_id, deleted, entries, purged_through } = purged
  if (!(await hasEntryThrough(services.sql, tenant_id, purged_through))) {
    if (deleted >= entries) return
    const { differences, accepted } = await createTableComparison(services)()
    if (differences === 0 && !accepted) return
  }
  throw new Refusal(
    'E_STATE',
    `the entries through ${purged_through} are marked as purged, but the database deleted ${deleted} of ${entries} of them: something keeps ` +
      'the rest, as a trigger or a policy would (eaas doctor names one). The next purge deletes what is left',
  )
}

// Each transaction durably restates some rows, so a crash between two of them is harmless.
async function restate(
  services: Services,
  tenant_id: string,
  { signal, through_id }: { through_id: number; signal: AbortSignal | undefined },
): Promise<void> {
  while (!signal?.aborted && (await performAsSystem(services, tenant_id, restateRights({ through_id }))) > 0);
}

// Entries that became old enough after the plan are in no archive, so they stay. A crash between two marks is harmless.
async function mark(
  services: Services,
  tenant_id: string,
  { signal, ...options }: PurgeOptions & { through_id: number; signal: AbortSignal | undefined },
): Promise<PurgePlan> {
  let entries = 0
  for (;;) {
    const marked = await performAsSystem(services, tenant_id, purgeAudit(options))
    entries += marked.entries
    const isDone = marked.entries === 0 || marked.purged_through >= options.through_id
    if (isDone || signal?.aborted) return { ...marked, entries }
  }
}

interface PurgeTenantsOptions extends PurgeTenantOptions {
  onPurged: (tenant_id: string, plan: PurgePlan) => void
  /** called for a tenant whose purge was refused, before the others continue */
  onRefused: (tenant_id: string, error: unknown) => void
  /** called for a tenant that was skipped or has an edited row or an alarm, and for the installation if its log is unusable */
  onFailed: (tenant_id: string, error: unknown) => void
}

export async function purgeTenants(
  services: Services,
  { onPurged, onRefused, onFailed, ...options }: PurgeTenantsOptions,
): Promise<void> {
  const { tenants, leftOut, unread } = await listTenantsByVerifiedRecord(services, options.signal)
  if (options.signal?.aborted) return
  if (unread !== undefined) onFailed(INSTALLATION_ID, unread)
  for (const { tenant_id, reason } of leftOut) onFailed(tenant_id, new Error(reason))
  for (const tenant of tenants) {
    if (options.signal?.aborted) return
    if (isMovedAway(tenant)) continue // the installation that continues its log purges it
    const { tenant_id } = tenant
    try {
      const plan = await purgeTenant(services, tenant_id, options)
      if (plan.entries > 0) onPurged(tenant_id, plan)
    } catch (error) {
      ;(error instanceof Refusal ? onRefused : onFailed)(tenant_id, error)
    }
  }
}

const LOOKED_AT = 20 // tenants that one `look` checks in the database

export interface PurgeJobOptions {
  config: Pick<Config, 'auditRetentionMonths' | 'auditArchiveDir'>
  services: Services
  measures: { purgeRan: (refusedTenants: number) => void; purgeLeft: (tenants: number) => void }
  log: Log
}

export function createPurge({ config, services, measures, log }: PurgeJobOptions) {
  const retentionMonths = config.auditRetentionMonths
  /** tenants whose last purge was refused, and that still have entries for it to delete */
  let left: readonly string[] = []
  // A fault that fails this check also fails the purge.
  const isLeft = (tenant_id: string) =>
    performAsSystem(services, tenant_id, reviewLeft({ retentionMonths })).catch(() => true)
  return {
    async purge({ signal, fail }: Run): Promise<void> {
      const refused: string[] = []
      let isComplete = true
      await purgeTenants(services, {
        retentionMonths,
        archiveDir: config.auditArchiveDir,
        signal,
        onPurged: (tenant_id, plan) => log.info({ tenant_id, ...plan }, 'purged audit entries'),
        onRefused: (tenant_id, error) => {
          refused.push(tenant_id)
          log.error({ err: error, tenant_id }, 'purging the audit log failed')
        },
        onFailed: (tenant_id, error) => {
          isComplete = false
          services.states.forget(tenant_id) // a repaired row has no entry that would renew the state
          // A finding alone does not fail the run, and only a failed run is repeated.
          const failure = new Error('the log was not purged', { cause: error })
          fail(failure, 'it could not be found out what to purge; it will be retried', { tenant_id })
        },
      })
      if (signal.aborted) return
      left = refused
      if (isComplete) measures.purgeRan(refused.length)
      else measures.purgeLeft(refused.length)
    },
    /** A command may have purged some of them meanwhile. */
    async look(): Promise<void> {
      const before = left
      if (before.length === 0) return
      const still: string[] = []
      for (const tenant_id of before.slice(0, LOOKED_AT)) if (await isLeft(tenant_id)) still.push(tenant_id)
      // If a purge has ended meanwhile, its list is newer.
      if (left === before) left = [...before.slice(LOOKED_AT), ...still]
      measures.purgeLeft(left.length)
    },
  }
}

// Compares every log with the newest anchor and the rest of the installation's log (anchor.md 4).
import { INSTALLATION_ID } from '@eaas/protocol'
import { ChainAlarmError, TenantGoneError } from '../../core/audit/append-errors.js'
import { type AuditKey, isPurgeMarkAuthentic } from '../../core/audit/formats/chain.js'
import { type NamedEntry, readRecordedTenants } from '../../core/audit/recorded-tenants.js'
import { verifyLog } from '../../core/audit/verify/verify.js'
import { readChains } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { findMissingTenants, findStatuses, listTenantIds } from '../../core/store/tenants.js'
import { assertFormats } from '../../core/store/text-formats.js'
import { findContradiction, hasNamed, readLostHead, witnessOf } from '../named-entries.js'
import { findLastMarks, listHeadsWithKeys } from '../store/anchors.js'
import { findNewestAcceptance } from './acceptances.js'
import { KEY_CHANGED, type LogComparisonOptions } from './compare-logs.js'
import { followHeads, keyOf, LATER_AT_ONCE } from './follow.js'
import type { HeadWatch } from './head-watch.js'
import { judgeTenant } from './judge.js'
import { type Anchor, AnchorFault, readAnchor } from './newest-anchor.js'
import { TENANT_GONE } from './shared-alarms.js'

/** Raises alarms; returns the errors of single tenants. @throws the database's own error */
export async function compareWithAnchor(options: LogComparisonOptions): Promise<unknown[]> {
  const { sql, watches, installationKey: auditKey } = options
  await assertFormats(sql)
  const own = watches.get(INSTALLATION_ID)
  const anchor = await readAnchor(sql, auditKey).catch(async (error: unknown) => {
    if (!(error instanceof AnchorFault)) throw error
    await own.raise(sql, error.message)
    return undefined
  })
  if (own.alarm) return []
  // From the anchor to the end; `readAnchor` has proven that the anchor is the newest one.
  const after_id = anchor ? anchor.entry.id - 1 : undefined
  const storeKeys = { current: 0, keys: new Map() } // the installation has no row with a sealed secret that its log records
  const log = { tenant_id: INSTALLATION_ID, auditKey, storeKeys, after_id }
  const { valid, reason, broken_at } = await verifyLog(sql, log)
  if (!valid) return raiseInvalid(sql, own, { reason, broken_at })
  return [...(await compareAnchored(anchor, options)), ...(await compareRecorded(anchor, options))]
}

async function raiseInvalid(
  sql: Queryable,
  own: HeadWatch,
  { reason, broken_at }: { reason: string | undefined; broken_at: number | undefined },
): Promise<[]> {
  await own.raise(sql, `the installation's log is not valid: ${reason}, entry ${broken_at}`)
  return []
}

// An entry stored at an anchored head proves nothing, so each head becomes a point from which the log is followed.
async function compareAnchored(anchor: Anchor | undefined, options: LogComparisonOptions): Promise<unknown[]> {
  const errors: unknown[] = []
  for (const head of anchor?.heads ?? []) {
    const watch = options.watches.get(head.tenant_id)
    watch.held.rememberAnchored(head, { isContradicted: head.is_contradicted })
    const compare = (auditKey: AuditKey | undefined) => {
      if (auditKey) return watch.read(options.sql, auditKey)
      return head.is_there ? undefined : watch.raise(options.sql, TENANT_GONE)
    }
    if (head.is_contradicted) errors.push(...(await examineTenant(watch, options, compare)))
  }
  return errors
}

// Includes tenants outside the anchor, since anchors begin afresh after an accepted rollback of the installation's log.
async function compareRecorded(anchor: Anchor | undefined, options: LogComparisonOptions): Promise<unknown[]> {
  const { sql, watches, installationKey: auditKey } = options
  const tenant_ids = await listTenantIds(sql) // before the log, so that a tenant that is created meanwhile is on record
  const { present, gone, ends, statuses, altered_id } = await readRecordedTenants(sql)
  if (altered_id !== undefined)
    return raiseInvalid(sql, watches.get(INSTALLATION_ID), { reason: 'entry_altered', broken_at: altered_id })
  for (const tenant_id of await findMissingTenants(sql, [...present.keys()]))
    await watches.get(tenant_id).raise(sql, TENANT_GONE)
  const errors: unknown[] = []
  const covered = new Map(anchor?.heads.map(({ tenant_id, last_id }) => [tenant_id, last_id]))
  for (const tenant_id of tenant_ids) {
    const watch = watches.get(tenant_id)
    const [present_id = 0, gone_id = 0] = [present.get(tenant_id), gone.get(tenant_id)]
    const place = judgeTenant({ present_id, gone_id, anchor_id: anchor?.entry.id, isCovered: covered.has(tenant_id) })
    if (place === 'uncovered') {
      const { id } = await findNewestAcceptance(sql, { tenant_id: INSTALLATION_ID, auditKey })
      const reason = id > present_id ? notAccepted(tenant_id, id) : TENANT_UNCOVERED
      await watch.raise(sql, { reason, witness: undefined })
    } else if (place === 'unknown') await watch.raise(sql, { reason: TENANT_UNKNOWN, witness: undefined })
    else if (place === 'gone') {
      const lost = await readLostHead(sql, { auditKey, tenant_id, id: gone_id })
      if (!lost) await watch.raise(sql, { reason: TENANT_BACK, witness: undefined })
      else {
        watch.held.rememberAnchored(lost)
        errors.push(...(await examineTenant(watch, options, (key) => key && watch.read(sql, key))))
      }
    }
  }
  for (let at = 0; at < ends.size; at += LATER_AT_ONCE) {
    const named = new Map([...ends].slice(at, at + LATER_AT_ONCE))
    errors.push(...(await compareNamed(named, { ...options, covered, statuses })))
  }
  return errors
}

interface NamedOptions extends LogComparisonOptions {
  covered: ReadonlyMap<string, number> // by tenant, the entry that the newest anchor covers
  statuses: ReadonlyMap<string, string> // by tenant, the status on record, if there is one
}

// Reads the heads after the installation's log, so each must have reached the last entry that that log names.
async function compareNamed(named: ReadonlyMap<string, NamedEntry>, options: NamedOptions): Promise<unknown[]> {
  const { sql, watches, covered } = options
  const rows = await listHeadsWithKeys(sql, [...named.keys()])
  const reaching = rows.filter((head) => head.last_id >= (named.get(head.tenant_id)?.id ?? 0))
  for (const { tenant_id } of reaching) {
    const entry = named.get(tenant_id)
    const point = entry && witnessOf(entry)
    if (point && (covered.get(tenant_id) ?? 0) < point.last_id) watches.get(tenant_id).held.rememberAnchored(point)
  }
  const reached = new Set(reaching.map(({ tenant_id }) => tenant_id))
  for (const { watch, isBroken } of await followHeads(sql, reaching, options))
    if (isBroken) reached.delete(watch.tenant_id)
  const keys = new Map(rows.map((head) => [head.tenant_id, keyOf(head, options)]))
  const doubtful = await findDoubtful(named, { ...options, keys })
  const errors: unknown[] = []
  for (const [tenant_id, entry] of named) {
    const watch = watches.get(tenant_id)
    if (watch.alarm || (reached.has(tenant_id) && !doubtful.has(tenant_id))) continue
    const compare = async (auditKey: AuditKey | undefined) => {
      if (!auditKey) return // the tenant is missing, and `compareRecorded` raised the alarm
      const last_id = reached.has(tenant_id) ? entry.id : (await watch.read(sql, auditKey)).last_id
      // Checked separately from the points: an earlier acceptance would explain the point, but not the loss of this entry.
      if (last_id < entry.id)
        await watch.raise(sql, { reason: endsBefore(entry.id, last_id), witness: witnessOf(entry) })
      if (!doubtful.has(tenant_id)) return
      const reason = await sql.begin('isolation level repeatable read read only', (snapshot) =>
        findContradiction(snapshot, { tenant_id, auditKey }),
      )
      if (reason !== undefined) await watch.raise(sql, { reason, witness: undefined })
    }
    errors.push(...(await examineTenant(watch, options, compare)))
  }
  return errors
}

// These statements see different moments, so the caller reads such tenants again in one snapshot.
async function findDoubtful(
  named: ReadonlyMap<string, NamedEntry>,
  { sql, keys, statuses }: NamedOptions & { keys: ReadonlyMap<string, AuditKey | undefined> },
): Promise<Set<string>> {
  const tenant_ids = [...named.keys()]
  const stretches = [...named].map(([tenant_id, { id }]) => ({ tenant_id, after_id: id - 2, through_id: id }))
  const chains = await readChains(sql, stretches, 2)
  const found = await findStatuses(sql, tenant_ids)
  const marks = await findLastMarks(sql, tenant_ids)
  const isThere = ([tenant_id, entry]: [string, NamedEntry]) => {
    const [auditKey, mark] = [keys.get(tenant_id), marks.get(tenant_id)]
    const isPurged = auditKey && mark && mark.purged_through >= entry.id && isPurgeMarkAuthentic(auditKey, mark)
    return isPurged || hasNamed(chains.get(tenant_id) ?? [], { tenant_id, named: entry, auditKey })
  }
  const isStatus = (tenant_id: string) => !statuses.has(tenant_id) || statuses.get(tenant_id) === found.get(tenant_id)
  return new Set([...named].flatMap((each) => (isThere(each) && isStatus(each[0]) ? [] : [each[0]])))
}

/** Returns an error other than an alarm, which says nothing about the log. */
async function examineTenant(
  watch: HeadWatch,
  { sql, findAuditKey }: Pick<LogComparisonOptions, 'sql' | 'findAuditKey'>,
  look: (auditKey: AuditKey | undefined) => unknown,
): Promise<unknown[]> {
  try {
    await look(await findAuditKey(watch.tenant_id))
  } catch (error) {
    if (error instanceof ChainAlarmError || error instanceof TenantGoneError) return [] // the watch has raised the alarm, or the tenant is gone
    if (!(error instanceof TamperedRowError)) return [error]
    await watch.raise(sql, KEY_CHANGED)
  }
  return []
}

function endsBefore(end: number, last_id: number): string {
  return (
    `the installation's log names entry ${end} of the tenant's log, which ends with entry ${last_id}: the tenant was put back, or the ` +
    'database was tampered with'
  )
}

const TENANT_UNKNOWN =
  "the installation's log has no creation of the tenant: the database was tampered with, or the log lost the entry"
const TENANT_BACK =
  "the installation's log says that the tenant is gone, and nothing that the tenant could be compared with: it was put back"
const TENANT_UNCOVERED =
  "the newest anchor does not cover the tenant, which the installation's log has from before it: the tenant was put back after it was " +
  'accepted as gone, or the log was tampered with'

/** Anchors that began afresh after the tenant was created leave out tenants with an alarm. */
function notAccepted(tenant_id: string, accepted_id: number): string {
  return (
    `the newest anchor does not cover the tenant. When the loss of the installation's log was accepted (entry ${accepted_id} there), each tenant with an alarm was ` +
    `left out until its own loss is accepted: eaas accept rollback --tenant ${tenant_id}. If there was no alarm about this one, it was put back ` +
    'after it was accepted as gone, or the log was tampered with'
  )
}

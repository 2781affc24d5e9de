/**
 * Compares every tenant's log with the newest anchor of the installation's log (anchor.md 4): a tenant that
 * is missing, or whose log no longer holds the anchored head, is alarmed about. So one tenant cannot go back,
 * or go missing, alone.
 */
import type { KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { type HeadWithKey, listHeadsWithKeys, readChains } from '../../store/audit.js'
import { findLastMarks } from '../../store/audit-purge.js'
import type { Sql } from '../../store/db.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { findMissingTenants, findStatuses, listTenantIds } from '../../store/tenants.js'
import { assertFormats } from '../../store/text-formats.js'
import { ChainAlarmError } from '../append-errors.js'
import { isHeadAuthentic, isPurgeMarkAuthentic, type PurgeMark } from '../formats/chain.js'
import { findContradiction, hasNamed, witnessOf } from '../named-entries.js'
import { type NamedEntry, readLostHead, readRecordedTenants } from '../recorded-tenants.js'
import { verifyLog } from '../verify/verify.js'
import { findNewestAcceptance } from './acceptances.js'
import { LATER_AT_ONCE, readLater } from './follow.js'
import type { HeadWatch, HeadWatches } from './head-watch.js'
import { type Anchor, AnchorFault, readAnchor } from './newest-anchor.js'
import { earliestOf } from './points.js'
import { KEY_CHANGED, TENANT_GONE } from './shared-alarms.js'

export interface AnchorWatchOptions {
  sql: Sql
  watches: HeadWatches
  installationKey: KeyObject
  rowKey: KeyObject
  /** undefined if there is no such tenant */
  findAuditKey: (tenant_id: string) => Promise<KeyObject | undefined>
  /** opens the audit key of a tenant's row. @throws TamperedRowError */
  openKey: (row: { tenant_id: string; wrapped_audit_key: Uint8Array }) => KeyObject
}

/**
 * Compares once; raises the alarms. A fixed number of statements, and further ones only for tenants that
 * contradict the anchor, or of whose logs the installation's log names an entry after the anchor. Every head
 * that it covers counts as witnessed from then on: what is stored in its place proves nothing, so the entries
 * from it on are followed when the tenant is used, or by the comparisons once a second. Returns the errors of
 * single tenants. @throws the database's own error
 */
export async function compareWithAnchor({
  sql,
  watches,
  installationKey: auditKey,
  rowKey,
  ...keys
}: AnchorWatchOptions): Promise<unknown[]> {
  await assertFormats(sql)
  const own = watches.get(INSTALLATION_ID)
  const anchor = await readAnchor(sql, auditKey).catch((error: unknown) => {
    if (!(error instanceof AnchorFault)) throw error
    own.learn({ reason: error.message, witness: own.held.proven })
    return undefined
  })
  if (own.alarm) return []
  // From the anchor to the end. That it is the newest one is proven where it is read.
  const after_id = anchor ? anchor.entry.id - 1 : undefined
  const storeKeys = { current: 0, keys: new Map() } // the installation has no row with a secret that a log records
  const log = { tenant_id: INSTALLATION_ID, auditKey, rowKey, storeKeys, after_id }
  const { valid, reason, broken_at } = await verifyLog(sql, log)
  if (!valid) {
    learnInvalid(own, reason, broken_at)
    return []
  }
  for (const head of anchor?.heads ?? [])
    if (!head.is_contradicted) watches.get(head.tenant_id).held.rememberAnchored(head)
  const errors = anchor ? await examineContradicted(anchor, { sql, watches, ...keys }) : []
  return [...errors, ...(await compareWithRecord({ sql, watches, installationKey: auditKey, ...keys, anchor }))]
}

function learnInvalid(own: HeadWatch, reason: string | undefined, broken_at: number | undefined): void {
  own.learn({
    reason: `the installation's log is not valid: ${reason}, entry ${broken_at}`,
    witness: own.held.proven,
  })
}

// Not only the tenants of the anchor: an acceptance of this log's own rollback may have begun the anchors
// afresh.
async function compareWithRecord({
  sql,
  watches,
  installationKey,
  findAuditKey,
  openKey,
  anchor,
}: Omit<AnchorWatchOptions, 'rowKey'> & { anchor: Anchor | undefined }): Promise<unknown[]> {
  const tenant_ids = await listTenantIds(sql) // before the log: a tenant that is created meanwhile is on record
  const { present, gone, ends, statuses, altered_id } = await readRecordedTenants(sql)
  if (altered_id !== undefined) {
    learnInvalid(watches.get(INSTALLATION_ID), 'entry_altered', altered_id)
    return []
  }
  for (const tenant_id of await findMissingTenants(sql, [...present.keys()])) {
    const watch = watches.get(tenant_id)
    watch.learn({ reason: TENANT_GONE, witness: watch.held.proven })
  }
  const errors: unknown[] = []
  const covered = new Set(anchor?.heads.map(({ tenant_id }) => tenant_id))
  let accepted_id: Promise<number> | undefined
  for (const tenant_id of tenant_ids) {
    const recorded_id = present.get(tenant_id)
    if (recorded_id !== undefined) {
      // The entries before the anchor are not verified here: one that says that the tenant is gone may be
      // hidden.
      if (anchor && recorded_id < anchor.entry.id && !covered.has(tenant_id)) {
        accepted_id ??= findNewestAcceptance(sql, { tenant_id: INSTALLATION_ID, auditKey: installationKey })
        const reason = (await accepted_id) > recorded_id ? notAccepted(tenant_id, await accepted_id) : TENANT_UNCOVERED
        watches.get(tenant_id).learn({ reason, witness: undefined })
      }
      continue
    }
    const watch = watches.get(tenant_id)
    const id = gone.get(tenant_id)
    const lost = id === undefined ? undefined : await readLostHead(sql, { auditKey: installationKey, tenant_id, id })
    if (!lost) watch.learn({ reason: id === undefined ? TENANT_UNKNOWN : TENANT_BACK, witness: undefined })
    else {
      watch.held.rememberAnchored(lost)
      errors.push(...(await examineTenant(watch, findAuditKey, (auditKey) => auditKey && watch.read(sql, auditKey))))
    }
  }
  const anchored = new Map(anchor?.heads.map(({ tenant_id, last_id }) => [tenant_id, last_id]))
  errors.push(...(await compareEnds(ends, { sql, watches, findAuditKey, openKey, anchored })))
  errors.push(...(await compareNamed(ends, statuses, { sql, watches, findAuditKey, openKey })))
  return errors
}

// Two entries of each log, and of a purged one the mark: in as many statements as there are times 500
// tenants. What seems wrong is read again in one snapshot of the database, with what the installation's log
// says in that.
async function compareNamed(
  ends: ReadonlyMap<string, NamedEntry>,
  statuses: ReadonlyMap<string, string>,
  { sql, watches, findAuditKey, openKey }: Pick<AnchorWatchOptions, 'sql' | 'watches' | 'findAuditKey' | 'openKey'>,
): Promise<unknown[]> {
  const errors: unknown[] = []
  const all = [...ends].filter(([tenant_id]) => !watches.get(tenant_id).alarm)
  for (let at = 0; at < all.length; at += LATER_AT_ONCE) {
    const named = new Map(all.slice(at, at + LATER_AT_ONCE))
    const doubtful = await findDoubtful(sql, named, { statuses, openKey })
    for (const tenant_id of doubtful) {
      const watch = watches.get(tenant_id)
      const look = async (auditKey: KeyObject | undefined) => {
        if (!auditKey) return // a missing tenant is alarmed about by its creation
        const reason = await sql.begin('isolation level repeatable read read only', (snapshot) =>
          findContradiction(snapshot, { tenant_id, auditKey }),
        )
        if (reason !== undefined) watch.learn({ reason, witness: undefined })
      }
      errors.push(...(await examineTenant(watch, findAuditKey, look)))
    }
  }
  return errors
}

async function findDoubtful(
  sql: Sql,
  ends: ReadonlyMap<string, NamedEntry>,
  { statuses, openKey }: { statuses: ReadonlyMap<string, string> } & Pick<AnchorWatchOptions, 'openKey'>,
): Promise<string[]> {
  const tenant_ids = [...ends.keys()]
  const stretches = [...ends].map(([tenant_id, { id }]) => ({ tenant_id, after_id: id - 2, through_id: id }))
  const chains = await readChains(sql, stretches, 2)
  const found = await findStatuses(sql, tenant_ids)
  const keys = new Map(
    (await listHeadsWithKeys(sql, tenant_ids)).map((row) => [row.tenant_id, openOrUndefined(row, openKey)]),
  )
  const others = [...ends].flatMap(([tenant_id, named]) => {
    const rows = chains.get(tenant_id) ?? []
    return hasNamed(rows, { tenant_id, named, auditKey: keys.get(tenant_id) }) ? [] : [tenant_id]
  })
  const marks = others.length > 0 ? await findLastMarks(sql, others) : new Map<string, PurgeMark>()
  const isPurged = (tenant_id: string) => {
    const [mark, auditKey] = [marks.get(tenant_id), keys.get(tenant_id)]
    const isGood = mark && auditKey && isPurgeMarkAuthentic(auditKey, mark)
    return isGood && mark.purged_through >= (ends.get(tenant_id)?.id ?? 0)
  }
  const isOther = (tenant_id: string) => statuses.has(tenant_id) && statuses.get(tenant_id) !== found.get(tenant_id)
  return [...new Set([...others.filter((each) => !isPurged(each)), ...tenant_ids.filter(isOther)])]
}

// The heads are read after it, so none is older, and each is proven, and follows from the anchored one if
// that is before the entry: whoever shows a newer one for this moment only is found by the next comparison
// with what was witnessed.
async function compareEnds(
  ends: ReadonlyMap<string, NamedEntry>,
  {
    sql,
    watches,
    findAuditKey,
    openKey,
    anchored,
  }: Pick<AnchorWatchOptions, 'sql' | 'watches' | 'findAuditKey' | 'openKey'> & {
    /** the entry of each tenant that the newest anchor covers */
    anchored: ReadonlyMap<string, number>
  },
): Promise<unknown[]> {
  const rows = ends.size > 0 ? await listHeadsWithKeys(sql, [...ends.keys()]) : []
  const heads = new Map(rows.map((row) => [row.tenant_id, row]))
  // What is shown in its place in this moment proves nothing: the log is followed from it.
  const remember = (tenant_id: string, named: NamedEntry) => {
    const witness = witnessOf(named)
    if (witness && (anchored.get(tenant_id) ?? 0) < named.id) watches.get(tenant_id).held.rememberAnchored(witness)
  }
  for (const [tenant_id, named] of ends) {
    if ((heads.get(tenant_id)?.last_id ?? 0) >= named.id) remember(tenant_id, named)
  }
  const isReached = ([tenant_id, { id: end }]: [string, NamedEntry]) => {
    const found = heads.get(tenant_id)
    const watch = watches.get(tenant_id)
    return watch.alarm || (found && found.last_id >= end && isWitnessed(watch, found, { end, openKey }))
  }
  const open = new Map([...ends].filter((each) => !isReached(each)))
  const later = [...open].flatMap(([tenant_id, { id: end }]) => {
    const [head, witness] = [heads.get(tenant_id), earliestOf(watches.get(tenant_id).held.all)]
    return head && witness && head.last_id >= end ? [{ witness, head }] : []
  })
  for (let at = 0; at < later.length; at += LATER_AT_ONCE) {
    for (const { stretch, head: found } of await readLater(sql, later.slice(at, at + LATER_AT_ONCE))) {
      const auditKey = openOrUndefined(found, openKey)
      const { wrapped_audit_key: _, ...head } = found
      const { tenant_id } = head
      if (auditKey && watches.get(tenant_id).follow({ head, stretch }, auditKey) === 'wholly') open.delete(tenant_id)
    }
  }
  const errors: unknown[] = []
  for (const [tenant_id, named] of open) {
    const watch = watches.get(tenant_id)
    const look = async (auditKey: KeyObject | undefined) => {
      if (!auditKey) return // a missing tenant is alarmed about by its creation
      const { last_id } = await watch.read(sql, auditKey)
      if (last_id < named.id) watch.learn({ reason: endsBefore(named.id, last_id), witness: witnessOf(named) })
      else remember(tenant_id, named)
    }
    errors.push(...(await examineTenant(watch, findAuditKey, look)))
  }
  return errors
}

/**
 * Whether this process, or the anchor, has seen the log reach the entry. A proven head counts if nothing was
 * seen of the tenant.
 */
function isWitnessed(
  watch: HeadWatch,
  found: HeadWithKey,
  { end, openKey }: { end: number } & Pick<AnchorWatchOptions, 'openKey'>,
): boolean {
  if (watch.witnessed) return watch.witnessed.last_id >= end
  const auditKey = openOrUndefined(found, openKey)
  if (!auditKey) return false
  const { wrapped_audit_key: _, ...head } = found
  return watch.held.anchored
    ? watch.held.anchored.last_id >= end && isHeadAuthentic(auditKey, head)
    : watch.adopt(head, auditKey)
}

function openOrUndefined(
  { tenant_id, wrapped_audit_key }: HeadWithKey,
  openKey: AnchorWatchOptions['openKey'],
): KeyObject | undefined {
  try {
    return wrapped_audit_key === null ? undefined : openKey({ tenant_id, wrapped_audit_key })
  } catch (error) {
    if (!(error instanceof TamperedRowError)) throw error
    return undefined
  }
}

function endsBefore(end: number, last_id: number): string {
  return (
    `the installation's log names entry ${end} of the tenant's log, which ends with entry ${last_id}: the tenant was put back, or the ` +
    'database was tampered with'
  )
}

/** Looks at a tenant; an error that is no alarm is returned, since it says nothing of the log. */
async function examineTenant(
  watch: HeadWatch,
  findAuditKey: AnchorWatchOptions['findAuditKey'],
  look: (auditKey: KeyObject | undefined) => unknown,
): Promise<unknown[]> {
  try {
    await look(await findAuditKey(watch.tenant_id))
    return []
  } catch (error) {
    if (error instanceof ChainAlarmError) return [] // the watch has raised the alarm
    if (!(error instanceof TamperedRowError)) return [error]
    watch.learn({ reason: KEY_CHANGED, witness: watch.held.proven })
    return []
  }
}

/** The reason of an alarm about a tenant that the installation's log does not have. */
const TENANT_UNKNOWN =
  "the installation's log has no creation of the tenant: the database was tampered with, or the log lost the entry"
/** The reason of an alarm about a tenant that the installation's log says is gone, without what it had. */
const TENANT_BACK =
  "the installation's log says that the tenant is gone, and nothing that the tenant could be compared with: it was put back"
/** The reason of an alarm about a tenant that the newest anchor left out. */
const TENANT_UNCOVERED =
  "the newest anchor does not cover the tenant, which the installation's log has from before it: the tenant was put back after it was " +
  'accepted as gone, or the log was tampered with'

/**
 * The same where the anchors began afresh since the tenant was created: they leave out a tenant about which
 * there is an alarm.
 */
function notAccepted(tenant_id: string, accepted_id: number): string {
  return (
    `the newest anchor does not cover the tenant. When the loss of the installation's log was accepted (entry ${accepted_id} there), each tenant with an alarm was ` +
    `left out until its own loss is accepted: eaas audit accept-rollback --tenant ${tenant_id}. If there was no alarm about this one, it was put back ` +
    'after it was accepted as gone, or the log was tampered with'
  )
}

async function examineContradicted(
  { heads }: Anchor,
  { sql, watches, findAuditKey }: Pick<AnchorWatchOptions, 'sql' | 'watches' | 'findAuditKey'>,
): Promise<unknown[]> {
  const errors: unknown[] = []
  for (const head of heads) {
    if (!head.is_contradicted) continue
    const watch = watches.get(head.tenant_id)
    const look = (auditKey: KeyObject | undefined) => {
      if (!auditKey) return head.is_there ? undefined : watch.learn({ reason: TENANT_GONE, witness: watch.held.proven })
      return watch.read(sql, auditKey)
    }
    watch.held.rememberAnchored(head, { isContradicted: true })
    errors.push(...(await examineTenant(watch, findAuditKey, look)))
  }
  return errors
}

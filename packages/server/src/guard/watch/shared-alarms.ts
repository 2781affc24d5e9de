// Shares alarms among the processes of one database (chain.md 10): each writes its own as rows, and adopts those of others.
import { genesisHash } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import { isUnopened } from '../../core/audit/audit-key.js'
import { type AuditKey, alarmMac, type ChainAlarm, equalBytes, type Witness } from '../../core/audit/formats/chain.js'
import { findEntryHash } from '../../core/store/audit.js'
import { isPartUnreachable } from '../../core/store/db.js'
import { assertWhole, HiddenRowsError } from '../../core/store/tampered-row.js'
import { assertFormats } from '../../core/store/text-formats.js'
import { isLossAccepted } from '../named-entries.js'
import { deleteAlarmRow, listAlarms, lockAlarm, MAX_REASON, replaceAlarm, writeAlarm } from '../store/alarms.js'
import { findAcceptedRollback, findNewestAcceptance } from './acceptances.js'
import { compareLog, createLogComparison, type LogComparisonOptions, unlessTampered } from './compare-logs.js'
import type { Alarm, HeadWatch } from './head-watch.js'
import { laterOf } from './judge.js'

interface SharedAlarmsOptions extends LogComparisonOptions {
  assertSessions: () => Promise<void> // @throws ChangedSessionError if a session is not as it began
  isGone: (tenant_id: string) => Promise<boolean> // whether the tenant's row is gone; if so, drops the cached state
  onGoneAccepted?: ((tenant_id: string) => void) | undefined
  /** called after deleting the row of an alarm whose loss was already accepted */
  onAcceptedRow?: ((tenant_id: string) => void) | undefined
  now: () => number // milliseconds since 1970
}

export type SharedAlarms = ReturnType<typeof createSharedAlarms>

export const TENANT_GONE =
  'the tenant is missing from the database: a backup from before its creation was restored, or the database was tampered with'

export function createSharedAlarms({
  assertSessions,
  isGone,
  onGoneAccepted,
  onAcceptedRow,
  now,
  ...options
}: SharedAlarmsOptions) {
  const { sql, watches, installationKey, findAuditKey } = options
  const compareLogs = createLogComparison(options)
  /** for alarms without a witness: the newest rollback accepted before the alarm, which does not settle it */
  const acceptedBefore = new WeakMap<Alarm, number>()

  // Writes or ends this process's alarms. If a tenant fails, continues with the others and returns the errors. A server
  // also finds the heads of tenants that it has not served. @throws the database's own error
  async function compare({ findsUnseen = false } = {}): Promise<unknown[]> {
    const errors: unknown[] = []
    const unread: unknown[] = []
    const note = (list: unknown[]) => (error: unknown) => {
      list.push(error)
      // Before the rest of the run, which may take long if each statement waits for a lock.
      if (!isPartUnreachable(error)) watches.comparisons.failed()
      return undefined
    }
    // If the row of one tenant is at fault, only this tenant's comparison is overdue in the end.
    const unopened: unknown[] = []
    const ofTenant = (tenant_id: string) => (error: unknown) => {
      if (!isUnopened(error)) return note(errors)(error)
      watches.comparisons.failedOf(tenant_id)
      unopened.push(error)
      return undefined
    }
    try {
      await assertSessions()
      await assertFormats(sql)
      if (findsUnseen) await assertWhole(sql)
    } catch (error) {
      watches.comparisons.failed({ isCertain: error instanceof HiddenRowsError })
      throw error
    }
    const rows = await listAlarms(sql).catch(note(unread))
    for (const row of rows ?? []) await learn(row, findsUnseen).catch(ofTenant(row.tenant_id))
    // Even if alarms can't be read: an attacker who locks them must not keep this process from raising its own.
    const portion = await compareLogs({ unread: note(unread), ofTenant }, { findsUnseen })
    if (unread.length + errors.length === 0 && portion.isWhole) watches.comparisons.succeeded(portion)
    else if (!portion.isReached) watches.comparisons.failed()
    // While a machine does not answer, statements that ask all machines also fail.
    else if (errors.every(isPartUnreachable) && (!portion.isWhole || unread.every(isPartUnreachable)))
      watches.comparisons.succeededInPart()
    const found = new Map(rows?.map((row) => [row.tenant_id, row]))
    for (const watch of rows ? watches.alarmed() : []) {
      await share(watch, found.get(watch.tenant_id)).catch((error: unknown) => void errors.push(error))
    }
    if (unread.length > 0) throw unread[0]
    return [...errors, ...unopened]
  }

  // A row that no server wrote also raises an alarm, but its witness proves nothing.
  async function learn(row: ChainAlarm, isServing: boolean): Promise<void> {
    const watch = watches.get(row.tenant_id)
    if (watch.alarm && row.last_id <= (watch.alarm.witness?.last_id ?? 0)) return
    if (await isGone(row.tenant_id)) return watch.raise(sql, TENANT_GONE)
    const auditKey = await findAuditKey(row.tenant_id).catch(unlessTampered)
    if (!auditKey || auditKey === 'tampered' || !isGenuine(row, auditKey))
      return watch.raise(sql, 'the database contains an alarm that no server wrote')
    if (await wasAccepted(row, auditKey)) {
      if (await deleteAlarmRow(sql, row)) onAcceptedRow?.(row.tenant_id)
      return
    }
    const { reason, last_id, hash, policy_version } = row
    const witness = last_id === 0 ? undefined : { last_id, hash, policy_version }
    if (watch.alarm) return watch.learnWitness(witness)
    // If this process witnessed a later head than the row, it replaces the alarm by its own, unless the log is a fork that
    // has that head and lacks the row's. Taken before the log is read, which may be cut off by now; a command has read the
    // log already when it opened.
    const own = isServing ? watch.held.proven : watch.held.provenTold
    await compareLog(sql, watch, auditKey)
    const isFork = witness !== undefined && !(await hasEntry(row.tenant_id, witness))
    watch.learn({ reason, witness: isFork ? witness : laterOf(witness, own) })
  }

  // Whether the loss was accepted, and the log is the one that was left then: such a row was restored. An alarm without
  // a witness or a proven policy version may be about a later loss.
  async function wasAccepted(row: ChainAlarm, auditKey: AuditKey): Promise<boolean> {
    return row.policy_version > 0 && isAccepted({ tenant_id: row.tenant_id, auditKey }, row)
  }

  async function isAccepted(log: { tenant_id: string; auditKey: AuditKey }, witness: Witness): Promise<boolean> {
    const accepted = await findAcceptedRollback(sql, log, witness)
    if (!accepted || witness.last_id > accepted.agrees_through) return accepted !== undefined
    return hasEntry(log.tenant_id, witness)
  }

  async function hasEntry(tenant_id: string, { last_id, hash }: Witness): Promise<boolean> {
    const found = await findEntryHash(sql, tenant_id, last_id)
    return found !== undefined && equalBytes(found, hash)
  }

  // If the row is gone, either the alarm was settled, as the tenant's log records, or the row was deleted and is written
  // again. For a tenant that is gone, the installation's log has the record, and the installation's key makes the MAC.
  async function share(watch: HeadWatch, row: ChainAlarm | undefined): Promise<void> {
    const { tenant_id, alarm } = watch
    if (!alarm) return
    if (
      !row &&
      (await isGone(tenant_id)) &&
      (await isLossAccepted(sql, { installationKey, tenant_id, witness: alarm.witness }))
    ) {
      watch.release()
      return onGoneAccepted?.(tenant_id)
    }
    const auditKey = await findAuditKey(tenant_id)
    const key = auditKey ?? installationKey
    if (auditKey && !alarm.witness && !acceptedBefore.has(alarm)) {
      acceptedBefore.set(alarm, (await findNewestAcceptance(sql, { tenant_id, auditKey })).id)
    }
    // Without the tenant's key, this process can't judge a row that another process wrote with that key.
    const isGarbled = (found: ChainAlarm) =>
      alarm.witness !== undefined &&
      auditKey !== undefined &&
      ![auditKey, installationKey].some((each) => isGenuine(found, each))
    const isKept = (found: ChainAlarm) => !isGarbled(found) && found.last_id >= (alarm.witness?.last_id ?? 0)
    if (row) {
      if (!isKept(row)) await replace(alarmRow(alarm, tenant_id, key), isKept)
      return
    }
    if (auditKey && (await isSettled(tenant_id, auditKey, alarm))) return watch.release()
    await writeAlarm(sql, alarmRow(alarm, tenant_id, key))
  }

  // Judges again under the row's lock: the loss may be accepted by now, or another process may have written the same.
  function replace(alarm: ChainAlarm, isKept: (found: ChainAlarm) => boolean): Promise<unknown> {
    return sql.begin(async (transaction) => {
      const found = await lockAlarm(transaction, alarm.tenant_id)
      if (found && !isKept(found)) await replaceAlarm(transaction, alarm)
    })
  }

  function alarmRow({ reason, witness }: Alarm, tenant_id: string, key: AuditKey): ChainAlarm {
    const { last_id, policy_version } = witness ?? { last_id: 0, policy_version: 0 }
    const hash = last_id === 0 || !witness ? genesisHash(tenant_id) : witness.hash
    const raised_at = new Date(now()).toISOString()
    const row = { tenant_id, reason: reason.slice(0, MAX_REASON), last_id, hash, policy_version, raised_at }
    return { ...row, mac: alarmMac(key, row) }
  }

  async function isSettled(tenant_id: string, auditKey: AuditKey, alarm: Alarm): Promise<boolean> {
    const log = { tenant_id, auditKey }
    if (alarm.witness) return isAccepted(log, alarm.witness)
    const before = acceptedBefore.get(alarm)
    return before !== undefined && (await findNewestAcceptance(sql, log)).id > before
  }

  return { compare }
}

function isGenuine(row: ChainAlarm, auditKey: AuditKey): boolean {
  return equalBytes(row.mac, alarmMac(auditKey, row))
}

const SERVED = 'tenants are served, but what that log would record, such as a change of a tenant or a purge, is refused'

/** The installation's own log belongs to no tenant, so an alarm about it stops no tenant's calls. */
export function alarmMessage(tenant_id: string): string {
  if (tenant_id !== INSTALLATION_ID) return 'the audit chain is broken; this tenant is no longer served'
  return `the audit chain is broken, that of the installation's own log; ${SERVED}`
}

export function describeRefused(tenant_ids: readonly string[]): string {
  const own = tenant_ids.includes(INSTALLATION_ID)
    ? [
        `Of the installation's own log: ${SERVED}, until you settle this: see eaas accept rollback --installation --help`,
      ]
    : []
  const tenants = tenant_ids.some((id) => id !== INSTALLATION_ID)
    ? ['All calls of these tenants are refused until you settle this: see eaas accept --help']
    : []
  return [...own, ...tenants].join('. ')
}

export const MISSING_TENANT =
  'the checkpoint file names a tenant that is not in the database: a backup from before its creation was restored, or the database was ' +
  'tampered with. The tenant and its keys are lost unless a newer backup is restored, or one of the installation that it moved here from'

export const ACCEPTED_ROW =
  'an alarm that an operator had accepted was in the database again, and its row is deleted: unless a server wrote it at that moment, somebody ' +
  'put it back'

export const GONE_ACCEPTED = 'an operator accepted that a tenant is gone from the database; its alarm is cleared'

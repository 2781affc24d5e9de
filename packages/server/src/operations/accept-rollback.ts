/** Ends an alarm: the operator accepts that a log lost entries. Called by the operator; has no route. */
import { genesisHash } from '@eaas/audit'
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { appendToLocked } from '../audit/append/send-appends.js'
import { AuditWriteError } from '../audit/append-errors.js'
import {
  alarmMac,
  type ChainAlarm,
  equalBytes,
  extendChain,
  firstOfCurrent,
  type Head,
  isHeadAuthentic,
  nextPolicyEpoch,
  type Witness,
} from '../audit/formats/chain.js'
import { findHeadFault, type HeadFault } from '../audit/head-fault.js'
import { isThere, witnessOf } from '../audit/named-entries.js'
import { readAuthenticEntry } from '../audit/read-entry.js'
import { findNamedEnd } from '../audit/recorded-tenants.js'
import { type ValidLog, verifyLog } from '../audit/verify/verify.js'
import type { AcceptedRollback } from '../audit/watch/acceptances.js'
import { RECOVERY_PAGE } from '../recovery-page.js'
import { anchorHeads } from '../runner/anchor-heads.js'
import { assertRecordable } from '../runner/installation-log.js'
import type { Services } from '../runner/operation.js'
import { draftEntry, systemCaller } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { readValidLog } from '../runner/valid-log.js'
import { deleteAlarm, listAlarms, lockAlarm } from '../store/alarms.js'
import { findEntryHash, lockHead } from '../store/audit.js'
import type { Transaction } from '../store/db.js'
import { makeHead } from './shared/make-head.js'
import { unwrittenAlarm } from './shared/unwritten-alarm.js'

export interface AcceptOptions {
  /** for the log; 1 to 255 characters */
  reason: string
  onProgress?: (entries: number) => void
}

/** An entry of the log, and its time. */
interface Position {
  id: number
  created_at: string
}

/** What the log records now, and in which entry. */
export type Accepted = AcceptedRollback & {
  tenant_id: string
  entry_id: number
  /**
   * the newest entry of the log that somebody is known to have seen; null if none is. What came after is
   * known by the log alone.
   */
  compared: Position | null
  /** the last entry before this one */
  last: Position
}

const LOST_RENEWAL =
  'the log lost the entry from which on its audit key holds: a thief of the key before can have written all that is left. Restore a backup'

/**
 * Ends a tenant's alarm: one transaction appends an entry `audit.rollback_accepted`, raises the policy
 * version above every version that a lost entry can have had, and deletes the alarm. A crash leaves all of
 * that or nothing. If the head is missing, forged or not of the last entry, the same transaction first makes
 * it again from that entry.
 *
 * @throws Refusal E_STATE if there is no alarm and nothing wrong with the head, or if the remaining log does
 * not verify
 */
export async function acceptRollback(
  services: Services,
  tenant_id: string,
  { reason, onProgress }: AcceptOptions,
): Promise<Accepted> {
  if (tenant_id !== INSTALLATION_ID) assertRecordable(services)
  const state = await services.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const { auditKey } = state
  const alarms = await listAlarms(services.sql)
  const fault = await findHeadFault(services.sql, { tenant_id, auditKey })
  if (!fault && !alarms.some((alarm) => alarm.tenant_id === tenant_id)) throw noAlarm(services, state)
  const isHeadIgnored = fault !== undefined && fault.reason !== 'head_repeated'
  const end = await readEnd(services, state, { isHeadIgnored, onProgress })
  const { heads, ...accepted } = await services.sql.begin(async (sql) => {
    const head = isHeadIgnored ? await makeHead(sql, { tenant_id, auditKey }, end) : await lockHead(sql, tenant_id)
    if (!head || !isHeadAuthentic(auditKey, head)) throw notValid('head_forged', undefined)
    if (head.last_id < firstOfCurrent(auditKey)) throw new Refusal('E_STATE', LOST_RENEWAL)
    const alarm = await lockAlarm(sql, tenant_id)
    if (!alarm && !fault) throw noAlarm(services, state)
    return accept(services, sql, { state, head, alarm, reason, fault })
  })
  const { watches } = services.committer
  for (const head of heads) watches.get(head.tenant_id).commit(head)
  return accepted
}

async function accept(
  services: Services,
  sql: Transaction,
  {
    state,
    head,
    alarm,
    reason,
    fault,
  }: { state: TenantState; head: Head; alarm: ChainAlarm | undefined; reason: string; fault: HeadFault | undefined },
): Promise<Accepted & { heads: Head[] }> {
  const { clock } = services.committer
  const { auditKey, tenant } = state
  const { tenant_id } = tenant
  const watch = services.committer.watches.get(tenant_id)
  // The witness of a forged alarm must not get into the log.
  const isGenuine = alarm !== undefined && equalBytes(alarm.mac, alarmMac(auditKey, alarm))
  const row = isGenuine ? alarm : { last_id: 0, hash: genesisHash(tenant_id), policy_version: 0 }
  // What the own alarm knows counts too: the row may have been exchanged since it was read. A head is made
  // again only of a log that reaches all that this process knows of it.
  watch.held.weigh(auditKey)
  const known = fault && watch.held.proven
  const named = await findNamedEnd(sql, tenant_id)
  const lost = named && !(await isThere(sql, { tenant_id, auditKey, named })) ? named : undefined
  const told = latest([row, watch.alarm?.witness, known, lost && witnessOf(lost)])
  const found = told.last_id === 0 ? undefined : await findEntryHash(sql, tenant_id, told.last_id)
  const isContinued = found !== undefined && equalBytes(found, told.hash)
  // The entries that a head was made of are known to be what was written, as far as an alarm knows.
  const isWhole = fault !== undefined && (isContinued || told.last_id === 0)
  const witness = isWhole ? head : told
  const more: Record<string, string | number> = {}
  if (fault) more.head_fault = fault.reason
  if (lost) more.named_id = lost.id
  const metadata = {
    witnessed_id: witness.last_id,
    witnessed_hash: encodeHex(witness.hash),
    agrees_through: isWhole || isContinued ? witness.last_id : 0,
    policy_version: nextPolicyEpoch(Math.max(head.policy_version, told.policy_version)),
    reason,
    ...more,
  }
  if (!Number.isSafeInteger(metadata.policy_version)) throw new AuditWriteError('there is no higher policy version')
  const draft = draftEntry({ action: 'audit.rollback_accepted', metadata }, systemCaller(services))
  const { policy_version } = metadata
  const time = clock.read() // also of a log that is ahead: the command that ends this needs one without an alarm
  const next = extendChain(head, [draft], { auditKey, now: time, policy_version })
  await appendToLocked(sql, clock, { previous: head, next: next.head, entries: next.entries, time })
  await deleteAlarm(sql, tenant_id)
  const accepted = { tenant_id, entry_id: next.head.last_id, ...metadata }
  const anchored = await recordAcceptance(services, sql, { ...accepted, entry_hash: encodeHex(next.head.hash) })
  const seen = isContinued ? await readAuthenticEntry(sql, { tenant_id, auditKey, id: told.last_id }) : undefined
  const compared = seen ? { id: seen.id, created_at: seen.created_at } : null
  const heads = [next.head, ...(anchored ? [anchored] : [])]
  return { ...accepted, compared, last: { id: head.last_id, created_at: head.created_at }, heads }
}

function latest([first, ...others]: [Witness, ...(Witness | undefined)[]]): Witness {
  return others.reduce<Witness>((most, other) => (other && other.last_id > most.last_id ? other : most), first)
}

// The anchor that follows covers the log that is left: the alarm of this process must not keep it from being
// covered.
async function recordAcceptance(
  services: Services,
  sql: Transaction,
  metadata: { tenant_id: string; entry_id: number } & Record<string, string | number>,
): Promise<Head | undefined> {
  const { tenant_id } = metadata
  services.committer.watches.get(tenant_id).release()
  if (tenant_id === INSTALLATION_ID) return anchorHeads(services, sql, { afresh: true })
  const note = { action: 'installation.rollback_accepted' as const, metadata }
  return anchorHeads(services, sql, { notes: [note], accepted: tenant_id })
}

/** Verifies the log, and returns its end. @throws Refusal E_STATE if it is not valid */
async function readEnd(
  { sql, storeKeys }: Services,
  state: TenantState,
  options: { isHeadIgnored: boolean; onProgress: AcceptOptions['onProgress'] },
): Promise<ValidLog> {
  const log = await readValidLog({ verifyLog: (all) => verifyLog(sql, { ...all, storeKeys }) }, state, options)
  if (!log.valid) throw notValid(log.reason, log.broken_at)
  return log.valid
}

function notValid(reason: string | undefined, broken_at: number | undefined): Refusal {
  const where = broken_at === undefined ? '' : `, entry ${broken_at}`
  return new Refusal(
    'E_STATE',
    `the remaining log does not verify (${reason}${where}): it was tampered with, and nothing can be accepted until it verifies. ${RECOVERY_PAGE}`,
  )
}

function noAlarm({ committer }: Services, { tenant }: TenantState): Refusal {
  const log = tenant.tenant_id === INSTALLATION_ID ? "the installation's log" : `tenant ${tenant.name}`
  const { alarm } = committer.watches.get(tenant.tenant_id)
  if (alarm) return unwrittenAlarm(log, alarm.reason)
  return new Refusal('E_STATE', `there is no alarm about ${log}, so there is nothing to accept`)
}

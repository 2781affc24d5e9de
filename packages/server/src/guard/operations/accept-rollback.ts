/** Ends an alarm: the operator accepts that a log lost entries. Only for the operator; there is no route. */
import { genesisHash } from '@eaas/audit/formats'
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { AuditWriteError, RECOVERY_PAGE } from '../../core/audit/append-errors.js'
import { isUnopened } from '../../core/audit/audit-key.js'
import {
  type AuditKey,
  alarmMac,
  type ChainAlarm,
  equalBytes,
  extendChain,
  firstOfCurrent,
  type Head,
  headMac,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  nextPolicyEpoch,
  type Witness,
} from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import { readValidLog, type ValidLog, verifyLog } from '../../core/audit/verify/verify.js'
import { draftEntry } from '../../core/runner/entry-drafts.js'
import type { Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import { findEntryHash, findLastId, lockHead } from '../../core/store/audit.js'
import type { Transaction } from '../../core/store/db.js'
import { anchorHeads } from '../anchor-heads.js'
import { assertRecordable } from '../installation-log.js'
import { isThere, witnessOf } from '../named-entries.js'
import { deleteAlarm, listAlarms, lockAlarm } from '../store/alarms.js'
import { listAnchoredHeads, putHead } from '../store/anchors.js'
import { findNewestAcceptance } from '../watch/acceptances.js'
import { watchesOf } from '../watch/head-watch.js'
import type { AcceptedRollback } from '../watch/judge.js'
import { readServedHere, unwrittenAlarm } from './accept.js'
import { findHeadFault, type HeadFault } from './diff-audit.js'

interface AcceptOptions {
  reason: string // for the log; 1 to 255 characters
  shown?: Shown | undefined // what the operator was shown; by default any loss is accepted
  onProgress?: ((entries: number) => void) | undefined
}

type Position = { id: number; created_at: string }

export type Accepted = AcceptedRollback & {
  tenant_id: string
  entry_id: number
  compared: Position | null // the newest entry that is known to have been seen before; for later ones, the log is the only evidence
  last: Position // the last entry before this one
}

const LOST_RENEWAL =
  'the log lost the entry from which on its audit key holds: a thief of the key before can have written all that is left. Restore a backup'

/**
 * One transaction appends `audit.rollback_accepted`, raises the policy version above that of any lost entry, and
 * deletes the alarm. First it makes the head again if that is missing, forged or not of the last entry. After a crash,
 * all or nothing is done. @throws Refusal E_STATE if there is no alarm and no fault of the head, if the remaining log
 * does not verify, or if another installation continues it
 */
export async function acceptRollback(services: Services, tenant_id: string, options: AcceptOptions): Promise<Accepted> {
  const prepared = await prepare(services, tenant_id, { ...options, alarms: await listAlarms(services.sql) })
  const [accepted] = await acceptPrepared(services, [prepared], options.reason)
  if (!accepted) throw new Error('nothing was accepted')
  return accepted
}

const AT_ONCE = 100 // how many losses one transaction accepts, as each writes one anchor over all tenants

/** What the operator was shown of a log; a larger loss is not accepted. */
export interface Shown {
  tenant_id: string
  last_id: number // the last entry of the log, according to its head if that is older
  agrees_through: number // the last entry that was confirmed, perhaps after an older head
  witnessed_through: number // the last entry that is known to have been written
}

/** As `acceptRollback`, in a transaction for each hundred. If one tenant fails, the others continue. */
export async function acceptRollbacks(
  services: Services,
  shown: readonly Shown[],
  { reason, onProgress }: AcceptOptions,
): Promise<{ accepted: Accepted[]; refused: { tenant_id: string; error: unknown }[] }> {
  const accepted: Accepted[] = []
  const refused: { tenant_id: string; error: unknown }[] = []
  const alarms = await listAlarms(services.sql)
  const attempt = async (prepared: Prepared[]) => {
    try {
      accepted.push(...(await acceptPrepared(services, prepared, reason)))
    } catch (error) {
      const [only] = prepared
      if (!only || !isOfOneLog(error)) throw error
      if (prepared.length === 1) refused.push({ tenant_id: only.state.tenant.tenant_id, error })
      else for (const each of prepared) await attempt([each])
    }
  }
  for (let at = 0; at < shown.length; at += AT_ONCE) {
    const prepared: Prepared[] = []
    for (const each of shown.slice(at, at + AT_ONCE)) {
      try {
        prepared.push(await prepare(services, each.tenant_id, { reason, alarms, shown: each }))
      } catch (error) {
        if (!isOfOneLog(error)) throw error
        refused.push({ tenant_id: each.tenant_id, error })
      }
      onProgress?.(accepted.length + prepared.length)
    }
    if (prepared.length > 0) await attempt(prepared)
  }
  return { accepted, refused }
}

function isOfOneLog(error: unknown): boolean {
  return error instanceof Refusal || isUnopened(error)
}

interface Prepared {
  state: TenantState
  fault: HeadFault | undefined
  end: ValidLog
  shown: Shown | undefined
  witness: Witness | undefined // of this process's alarm, read before the transaction: if that fails, it may end the alarm
}

async function prepare(
  services: Services,
  tenant_id: string,
  { alarms, shown, onProgress }: AcceptOptions & { alarms: readonly ChainAlarm[] },
): Promise<Prepared> {
  if (tenant_id !== INSTALLATION_ID) assertRecordable(services)
  const state = await services.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const { auditKey } = state
  const fault = await findHeadFault(services.sql, { tenant_id, auditKey })
  if (!fault && !alarms.some((alarm) => alarm.tenant_id === tenant_id)) throw noAlarm(services, state)
  const end = await readEnd(services, state, { isHeadIgnored: isIgnored(fault), onProgress })
  const { alarm } = watchesOf(services.committer).get(tenant_id)
  return { state, fault, end, shown, witness: alarm?.witness }
}

function isIgnored(fault: HeadFault | undefined): boolean {
  return fault !== undefined && fault.reason !== 'head_repeated'
}

/** Accepts all in one transaction. The installation's log must be accepted alone. */
async function acceptPrepared(services: Services, all: readonly Prepared[], reason: string): Promise<Accepted[]> {
  const { accepted, heads } = await services.sql.begin(async (sql) => {
    const accepted: (Accepted & { entry_hash: string })[] = []
    const heads: Head[] = []
    for (const each of all) {
      const { head, ...one } = await acceptOne(services, sql, { ...each, reason })
      accepted.push(one)
      heads.push(head)
    }
    const anchored = await recordAcceptances(services, sql, accepted)
    return { accepted, heads: [...heads, ...(anchored ? [anchored] : [])] }
  })
  for (const head of heads) services.committer.guard.committed(head)
  return accepted.map(({ entry_hash: _, ...each }) => each)
}

async function acceptOne(
  services: Services,
  sql: Transaction,
  { state, fault, end, shown, reason, witness: own }: Prepared & { reason: string },
): Promise<Accepted & { entry_hash: string; head: Head }> {
  const { clock } = services.committer
  const { auditKey, tenant } = state
  const { tenant_id } = tenant
  const head = isIgnored(fault) ? await makeHead(sql, { tenant_id, auditKey }, end) : await lockHead(sql, tenant_id)
  if (!head || !isHeadAuthentic(auditKey, head)) throw notValid('head_forged', undefined)
  if (head.last_id < firstOfCurrent(auditKey)) throw new Refusal('E_STATE', LOST_RENEWAL)
  const alarm = await lockAlarm(sql, tenant_id)
  if (!alarm && !fault) throw noAlarm(services, state)
  const watch = watchesOf(services.committer).get(tenant_id)
  // The witness of a forged alarm must not get into the log.
  const isGenuine = alarm !== undefined && equalBytes(alarm.mac, alarmMac(auditKey, alarm))
  const row = isGenuine ? alarm : { last_id: 0, hash: genesisHash(tenant_id), policy_version: 0 }
  // Includes this process's alarm, since the row may have been replaced, and for a new head everything that is proven.
  watch.held.weigh(auditKey)
  const known = fault && watch.held.proven
  const named = (await readServedHere(sql, tenant_id)).ends.get(tenant_id)
  const lost = named && !(await isThere(sql, { tenant_id, auditKey, named })) ? named : undefined
  const told = latest([row, watch.alarm?.witness ?? own, known, lost && witnessOf(lost)])
  assertShown(shown, { head, told, fault })
  const found = told.last_id === 0 ? undefined : await findEntryHash(sql, tenant_id, told.last_id)
  const isContinued = found !== undefined && equalBytes(found, told.hash)
  // The alarm contradicts none of the entries from which the head was made.
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
  const time = clock.read() // even if the log is ahead, since the command for that requires a log without an alarm
  const next = extendChain(head, [draft], { auditKey, now: time, policy_version })
  await appendToLocked(sql, clock, { previous: head, next: next.head, entries: next.entries, time })
  await deleteAlarm(sql, tenant_id)
  const seen = isContinued ? await readAuthenticEntry(sql, { tenant_id, auditKey, id: told.last_id }) : undefined
  return {
    tenant_id,
    entry_id: next.head.last_id,
    ...metadata,
    compared: seen ? { id: seen.id, created_at: seen.created_at } : null,
    last: { id: head.last_id, created_at: head.created_at },
    entry_hash: encodeHex(next.head.hash),
    head: next.head,
  }
}

function assertShown(
  shown: Shown | undefined,
  { head, told, fault }: { head: Head; told: Witness; fault: HeadFault | undefined },
): void {
  if (!shown) return
  const end = Math.max(shown.last_id, shown.agrees_through)
  // A head that is made again may include later entries, which the diff did not check.
  const isOther = fault ? head.last_id < end : head.last_id !== end
  if (!isOther && told.last_id <= shown.witnessed_through) return
  const what = isOther
    ? `the log ends with entry ${head.last_id}, and the diff shows ${end}`
    : `a server saw entry ${told.last_id}, and the diff knows of ${shown.witnessed_through} at most`
  throw new Refusal('E_STATE', `${what}: make the diff again`)
}

function latest([first, ...others]: [Witness, ...(Witness | undefined)[]]): Witness {
  return others.reduce<Witness>((most, other) => (other && other.last_id > most.last_id ? other : most), first)
}

// Releases this process's alarms first, so that the next anchor covers the rest of the logs.
async function recordAcceptances(
  services: Services,
  sql: Transaction,
  all: readonly (Accepted & { entry_hash: string })[],
): Promise<Head | undefined> {
  for (const { tenant_id } of all) watchesOf(services.committer).get(tenant_id).release()
  if (all.some(({ tenant_id }) => tenant_id === INSTALLATION_ID)) return anchorHeads(services, sql, { afresh: true })
  const notes = all.map(({ compared: _, last: __, ...metadata }) => ({
    action: 'installation.rollback_accepted' as const,
    metadata: metadata as Record<string, string | number>,
  }))
  return anchorHeads(services, sql, { notes, accepted: new Set(all.map(({ tenant_id }) => tenant_id)) })
}

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

/** Also thrown if the loss was already accepted. */
export class NoAlarm extends Refusal {
  override readonly name = 'NoAlarm'
}

function noAlarm({ committer }: Services, { tenant }: TenantState): Refusal {
  const log = tenant.tenant_id === INSTALLATION_ID ? "the installation's log" : `tenant ${tenant.name}`
  const { alarm } = watchesOf(committer).get(tenant.tenant_id)
  if (alarm) return unwrittenAlarm(log, alarm.reason)
  return new NoAlarm('E_STATE', `there is no alarm about ${log}, so there is nothing to accept`)
}

// Makes the head from the verified entries, never from a copy (chain.md 10). Its policy version is the highest known
// one; the acceptance raises it above that of any lost head. @throws Refusal E_STATE if the log has grown since,
// TamperedRowError if there are several heads
async function makeHead(
  sql: Transaction,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
  { last_id, hash, created_at }: Pick<Head, 'last_id' | 'hash' | 'created_at'>,
): Promise<Head> {
  const found = await lockHead(sql, tenant_id)
  const last = await findEntryHash(sql, tenant_id, last_id)
  if (!last || !equalBytes(last, hash) || (await findLastId(sql, tenant_id)) !== last_id) {
    throw new Refusal('E_STATE', 'the log changed while it was verified: repeat the command')
  }
  const anchored = (await listAnchoredHeads(sql)).find((head) => head.tenant_id === tenant_id)
  const policy_version = Math.max(
    1,
    found && isHeadAuthentic(auditKey, found) ? found.policy_version : 0,
    anchored && isKeptHeadAuthentic(auditKey, tenant_id, anchored) ? anchored.policy_version : 0,
    (await findNewestAcceptance(sql, { tenant_id, auditKey })).policy_version,
  )
  const made = { tenant_id, last_id, hash, policy_version, created_at }
  const head = { ...made, mac: headMac(auditKey, made) }
  await putHead(sql, head)
  return head
}

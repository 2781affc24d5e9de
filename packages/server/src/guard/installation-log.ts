// The installation's own log (anchor.md), under an id that no tenant has.
//
// Transactions lock in this order, so that none waits for another that waits for it: the head of a tenant's log, the
// tenant's peppers, its other rows, and last the head of this log. Only what another transaction cannot have locked
// comes later, such as the rows of a tenant that is created, or a store key that seals nothing.
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Clock } from '../core/audit/append/clock.js'
import { appendToLocked } from '../core/audit/append/send-appends.js'
import { AuditWriteError, explainObstacle, RECOVERY_PAGE } from '../core/audit/append-errors.js'
import { openAuditKey } from '../core/audit/audit-key.js'
import { type AuditKey, extendChain, genesisHead, type Head, isHeadAuthentic } from '../core/audit/formats/chain.js'
import { type StoreKeys, sealNewSecret } from '../core/crypto/key-hierarchy.js'
import { draftEntry } from '../core/runner/entry-drafts.js'
import type { Caller, EntryNote, Services } from '../core/runner/operation.js'
import { systemCaller } from '../core/runner/perform.js'
import { Refusal } from '../core/runner/refusal.js'
import { insertHead, lockHead } from '../core/store/audit.js'
import type { Transaction } from '../core/store/db.js'
import { setInstallationKey } from '../core/store/instance.js'
import { watchesOf } from './watch/head-watch.js'

/** Call it in the transaction that creates the installation, or migrates its schema to the version that has the log. */
export async function beginInstallationLog(
  sql: Transaction,
  { storeKeys, clock, actor, version }: { storeKeys: StoreKeys; clock: Clock; actor: string; version: string },
): Promise<void> {
  const tenant_id = INSTALLATION_ID
  const wrapped_audit_key = sealNewSecret(storeKeys, { purpose: 'audit-key', tenant_id })
  const auditKey = openAuditKey(storeKeys, { tenant_id, wrapped_audit_key })
  const time = clock.read()
  const genesis = genesisHead(auditKey, tenant_id, new Date(time).toISOString())
  await setInstallationKey(sql, wrapped_audit_key)
  await insertHead(sql, genesis)
  const note: EntryNote = { action: 'installation.create', metadata: { version } }
  await append(sql, genesis, { auditKey, clock, time, caller: systemCaller({ actor }), notes: [note] })
}

/** Even if the log is ahead of the clock, since the command that resolves that also migrates. @throws AuditWriteError */
export async function recordMigration(
  sql: Transaction,
  { auditKey, clock, actor, note }: { auditKey: AuditKey; clock: Clock; actor: string; note: EntryNote },
): Promise<void> {
  const head = await lockHead(sql, INSTALLATION_ID)
  if (!head || !isHeadAuthentic(auditKey, head)) {
    throw new AuditWriteError(`the head of the installation's log is missing or forged. ${RECOVERY_PAGE}`)
  }
  await append(sql, head, { auditKey, clock, time: clock.read(), caller: systemCaller({ actor }), notes: [note] })
}

type Recording = Pick<Services, 'committer' | 'installationKey'>

/** @throws Refusal E_STATE while the installation's log has an alarm, since it could not record anything */
export function assertRecordable({ committer }: Pick<Services, 'committer'>): void {
  const { alarm } = watchesOf(committer).get(INSTALLATION_ID)
  if (!alarm) return
  throw new Refusal(
    'E_STATE',
    `the installation's own log is not the one that was written: ${alarm.reason}. If that log verifies (eaas audit verify --installation), see first: eaas accept rollback --installation --help. If it does not: ${RECOVERY_PAGE}`,
  )
}

/** Records in a transaction of its own; returns the new head. @throws Refusal, ChainAlarmError, AuditWriteError */
export async function recordAlone(
  services: Recording & Pick<Services, 'sql' | 'actor'>,
  notes: readonly EntryNote[],
): Promise<Head> {
  const head = await services.sql.begin((sql) => recordForInstallation(services, sql, systemCaller(services), notes))
  services.committer.guard.committed(head)
  return head
}

/** Records in the transaction of the change; returns the new head. @throws as `recordAlone` */
export async function recordForInstallation(
  recording: Recording,
  sql: Transaction,
  caller: Caller,
  notes: readonly EntryNote[],
): Promise<Head> {
  const head = await lockInstallationHead(recording, sql)
  const { committer, installationKey: auditKey } = recording
  const { clock } = committer
  return append(sql, head, { auditKey, clock, time: clock.read(head), caller, notes })
}

/** Before work that only one process may do at a time, call this first. @throws Refusal, ChainAlarmError */
export async function lockInstallationHead({ committer, installationKey }: Recording, sql: Transaction): Promise<Head> {
  assertRecordable({ committer })
  return committer.guard.readHead(sql, { tenant_id: INSTALLATION_ID, auditKey: installationKey }, lockHead)
}

/** The transaction has locked or made the head. */
async function append(
  sql: Transaction,
  head: Head,
  at: { auditKey: AuditKey; clock: Clock; time: number; caller: Caller; notes: readonly EntryNote[] },
): Promise<Head> {
  const { auditKey, clock, time } = at
  const drafts = at.notes.map((note) => draftEntry(note, at.caller))
  const { entries, head: next } = extendChain(head, drafts, { auditKey, now: time })
  try {
    await appendToLocked(sql, clock, { previous: head, next, entries, time })
  } catch (error) {
    throw explainObstacle(error)
  }
  return next
}

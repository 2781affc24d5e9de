/**
 * Moves a tenant to another installation, where its log continues. Called by the operator; has no route.
 *
 * 1. The peppers of its API keys are written there, so that every process there has read them before the tenant arrives.
 * 2. The entries of its log are copied while it is served here. Each is verified on the way.
 * 3. It is closed here, by an entry with the status `moving`: calls get 503.
 * 4. Under the lock of its head here, the rest is copied. One transaction there writes all rows, the entry with the status
 *    `moved`, and two entries under an audit key of its own, since this installation knows the former one. Calls are
 *    answered there from its commit on.
 * 5. The entry `moved` is appended here too, so that both logs agree up to it. Calls get 421.
 *
 * A crash before 4 is committed leaves the tenant here, open or closed: `moveTenant` continues, and `undoMove` reopens
 * it. After a crash between 4 and 5 it is served there only, and `moveTenant` does 5.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainedEntry, entryHash, readMetadata } from '@eaas/audit/formats'
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { appendToLocked } from '../../../core/audit/append/send-appends.js'
import { extendLocked } from '../../../core/audit/append/tenant-log.js'
import { openAuditKey } from '../../../core/audit/audit-key.js'
import { entryMac, equalBytes, extendChain, type Head, headMac } from '../../../core/audit/formats/chain.js'
import { assertWritten, tenantMac, withMac } from '../../../core/audit/formats/row-mac.js'
import { readAuthenticEntry } from '../../../core/audit/read-entry.js'
import { draftEntry, recordChanges } from '../../../core/runner/entry-drafts.js'
import type { EntryNote, Services } from '../../../core/runner/operation.js'
import { performAsSystem, systemCaller } from '../../../core/runner/perform.js'
import { Refusal } from '../../../core/runner/refusal.js'
import { isMovedAway, readForChange } from '../../../core/runner/tenant-state.js'
import { findHead, findLastId } from '../../../core/store/audit.js'
import type { Queryable, Transaction } from '../../../core/store/db.js'
import { withoutDeadlines } from '../../../core/store/deadline.js'
import { LEARN_SECONDS } from '../../../core/store/store-keys.js'
import { TamperedRowError } from '../../../core/store/tampered-row.js'
import { findTenant, type TenantRow, updateTenant } from '../../../core/store/tenants.js'
import { recordForInstallation } from '../../../guard/installation-log.js'
import { listAlarms } from '../../../guard/store/alarms.js'
import { authenticTenant, closeForMove } from '../../../operators/tenants.js'
import { arePeppersKnown, deleteCopied, lockPeppersOf, withoutTimeouts } from '../../store/moved-rows.js'
import { assertMayDelete } from '../delete-moved.js'
import { copyWhileServed, getState, type Move, type MoveOptions, type Reading } from './copy-log.js'
import { stagePeppers } from './stage-peppers.js'
import {
  type Arriving,
  arrive,
  assertAbsent,
  assertNameIsFree,
  describeStatus,
  keyOf,
  notTheLog,
  rowKeyOf,
  signMove,
} from './write-arrival.js'

/** In milliseconds, between two checks whether processes have read the peppers. */
const LOOK_MS = 500

const NEEDS_OWNER = 'the file of the other database must name the role that owns the tables there'

/**
 * Moves a tenant, or continues an interrupted move. Returns for how many milliseconds calls were refused, those before
 * an interruption included; 0 if the move had already ended.
 *
 * @throws Refusal E_STATE, E_NOT_FOUND, E_NAME_TAKEN; TamperedRowError, ChainAlarmError
 */
export async function moveTenant(move: Move, options: MoveOptions = {}): Promise<number> {
  const { from, to, tenant_id } = move
  const { learnSeconds = LEARN_SECONDS, onStep, onClosing } = options
  const { tenant } = await getState(move)
  await assertTarget(move, from.sql, tenant)
  await assertMayDelete(to.sql, NEEDS_OWNER)
  if (tenant.status === 'moved') {
    await assertThere(move, tenant)
    return 0
  }
  if (tenant.status === 'moving') onClosing?.()
  if (await assertMovable(move, tenant)) return switchOver(move, options)
  let peppers = await stagePeppers(move)
  const copied = await copyWhileServed(move, options)
  onStep?.('waiting until its API keys are known there')
  for (;;) {
    peppers = await stagePeppers(move, peppers) // again, since a rotation may have replaced one meanwhile
    if (await arePeppersKnown(to.sql, tenant_id, learnSeconds)) break
    await sleep(LOOK_MS)
  }
  onClosing?.()
  if (tenant.status !== 'moving') await performAsSystem(from, tenant_id, closeForMove(keyOf(to)))
  onStep?.('closed here, copying the rest')
  return switchOver(move, { ...options, peppers, copied })
}

/** Undoes a move of a tenant that has not arrived: deletes the copies, and serves the tenant here again. @throws Refusal E_STATE */
export async function undoMove(move: Move, { onClosing }: Pick<MoveOptions, 'onClosing'> = {}): Promise<void> {
  const { from, to, tenant_id } = move
  await assertMayDelete(to.sql, NEEDS_OWNER)
  const { auditKey } = await getState(move)
  const noted = noteInstallation(from)
  await extendLocked(from, { tenant_id, auditKey }, async (lock, head) => {
    await withoutTimeouts(lock)
    const tenant = await readForChange(lock, from.storeKeys, head)
    if (tenant.status === 'moved') throw arrived(tenant)
    await assertTarget(move, lock, tenant)
    if (tenant.status === 'moving') onClosing?.()
    await withoutDeadlines(to.sql).begin(async (there) => {
      await withoutTimeouts(there)
      // This waits for a transaction in which the tenant arrives. Without the peppers, no later one can commit.
      await lockPeppersOf(there, tenant_id)
      if (await findArrival(move, { on: there, head, auditKey })) throw arrived(tenant)
      // A purge or a restored backup may hide that it arrived.
      if (tenant.status === 'moving') await assertNoAlarm(move, there)
      await assertAbsent(move, there, { tenant, head })
      await deleteCopied(there, tenant_id)
    })
    return tenant.status === 'moving' ? reopen(from, lock, { tenant, head, auditKey, to: keyOf(to), noted }) : undefined
  })
  noted.commit()
  from.states.forget(tenant_id)
}

/**
 * Serves a tenant that is `moving` here again, because its target is lost. Only the operator can know that the target
 * never served the tenant, and never will. Both logs record that. @throws Refusal E_STATE
 */
export async function undoWithoutTarget({ from, tenant_id }: Pick<Move, 'from' | 'tenant_id'>): Promise<void> {
  const { auditKey } = await getState({ from, tenant_id })
  const noted = noteInstallation(from)
  await extendLocked(from, { tenant_id, auditKey }, async (lock, head) => {
    const tenant = await readForChange(lock, from.storeKeys, head)
    if (tenant.status !== 'moving')
      throw new Refusal('E_STATE', `tenant ${tenant.name} is ${tenant.status}, not moving`)
    const closed = await readAuthenticEntry(lock, { tenant_id, id: tenant.entry_id, auditKey })
    const { to } = readMetadata(closed ?? { metadata: null })
    if (typeof to !== 'string')
      throw new TamperedRowError(`entry ${tenant.entry_id} of tenant ${tenant.name} is not there`)
    return reopen(from, lock, { tenant, head, auditKey, to, noted, told: { without_target: true } })
  })
  noted.commit()
  from.states.forget(tenant_id)
}

async function reopen(
  from: Services,
  lock: Transaction,
  {
    tenant,
    head,
    auditKey,
    told = {},
    ...change
  }: Pick<Arriving, 'tenant' | 'head' | 'auditKey'> & Pick<StatusChange, 'to' | 'told' | 'noted'>,
): Promise<Head> {
  const metadata = { ...describeStatus(tenant, 'active'), ...told }
  const { clock } = from.committer
  const time = clock.read(head)
  const policy_version = head.policy_version + 1
  const draft = draftEntry({ action: 'tenant.update', metadata }, systemCaller(from))
  const { entries, head: next } = extendChain(head, [draft], { auditKey, now: time, policy_version })
  await appendToLocked(lock, clock, { previous: head, next, entries, time })
  await writeStatus(from, lock, { ...change, told, tenant, status: 'active', entry: entries[0] })
  return next
}

function arrived({ name }: TenantRow): Refusal {
  return new Refusal(
    'E_STATE',
    `tenant ${name} has arrived in the other installation: repeat the move without --undo, which ends it, and then move the tenant back from there`,
  )
}

/**
 * Refuses a target that is this installation, or not the one of this move. Returns the entry that names the target.
 * @throws Refusal E_STATE
 */
async function assertTarget(
  { from, to, tenant_id }: Move,
  on: Queryable,
  tenant: TenantRow,
): Promise<ChainedEntry | undefined> {
  if (keyOf(from) === keyOf(to))
    throw new Refusal('E_STATE', 'this is the same installation, or a copy of it: its signing key is the same')
  if (!isMovedAway(tenant)) return undefined
  const { name, status, entry_id: id } = tenant
  const entry = await readAuthenticEntry(on, { tenant_id, id, auditKey: openAuditKey(from.storeKeys, tenant) })
  const { to: told } = readMetadata(entry ?? { metadata: null })
  if (to.signingKey.publicKeys.some((key) => key === told)) return entry
  const [is, todo] = status === 'moved' ? ['was', ''] : ['is being', ': end or undo that']
  throw new Refusal('E_STATE', `tenant ${name} ${is} moved to another installation, with the public key ${told}${todo}`)
}

/** Checks that the target still has the tenant, before the tenant is called moved. @throws Refusal E_STATE */
async function assertThere({ from, to, tenant_id }: Move, { name }: TenantRow): Promise<void> {
  const [left, head] = [await findHead(from.sql, tenant_id), await findHead(to.sql, tenant_id)]
  if (left && head && head.last_id > left.last_id && (await findTenant(to.sql, tenant_id))) return
  throw new Refusal(
    'E_STATE',
    `tenant ${name} arrived in the other installation, whose database lacks it or its newest entries: somebody put an older state there. Restore a newer one, or a backup of this database from before the move elsewhere, and move the tenant from that`,
  )
}

/** Returns whether the tenant has arrived, so that only the end of the move is left. @throws Refusal E_STATE, E_NAME_TAKEN */
async function assertMovable(move: Move, tenant: TenantRow): Promise<boolean> {
  const { from, to, tenant_id } = move
  const { name, status } = tenant
  if (status !== 'active' && status !== 'moving')
    throw new Refusal('E_STATE', `tenant ${name} is ${status}: only an active one is moved`)
  const copied_id = await findLastId(to.sql, tenant_id) // before the head, up to which another command may be copying
  const head = await findHead(from.sql, tenant_id)
  if (!head) throw new Refusal('E_STATE', `the head of the log of tenant ${name} is missing: see eaas doctor`)
  const { auditKey } = await getState(move)
  if (await findArrival(move, { on: to.sql, head, auditKey })) return true
  await assertAbsent(move, to.sql, { tenant, head })
  await signMove(move, from.sql)
  if (copied_id > head.last_id) throw notTheLog()
  await assertNameIsFree(move, to.sql, name)
  // Once the tenant is closed, an alarm there would keep it from arriving or from being served.
  await assertNoAlarm(move, to.sql)
  await assertClock(move, head)
  return false
}

/** @throws Refusal E_STATE if the target, where the log continues by this machine's clock, could not write an entry */
async function assertClock({ to: { sql, committer, databaseNow } }: Move, head: Head): Promise<void> {
  const { clock } = committer
  const fault = await clock.findFault(() => databaseNow(sql))
  if (fault !== undefined) throw new Refusal('E_STATE', `with the database of the other installation, ${fault}`)
  const ahead = [head, await findHead(sql, INSTALLATION_ID)].find((each) => each && clock.isAhead(each))
  if (!ahead) return
  const log = ahead === head ? 'this tenant' : "the other installation's own log"
  throw new Refusal('E_STATE', `the last entry of ${log} is ahead of the clock: eaas accept clock`)
}

async function assertNoAlarm({ tenant_id }: Move, there: Queryable): Promise<void> {
  const alarm = (await listAlarms(there)).find((each) => [tenant_id, INSTALLATION_ID].includes(each.tenant_id))
  if (!alarm) return
  const log = alarm.tenant_id === tenant_id ? 'this tenant' : 'its own log'
  throw new Refusal('E_STATE', `the other installation has an alarm about ${log}: end that first (eaas doctor there)`)
}

/**
 * Finds the entry `moved` there, after the end of the log here. Its MAC is under the audit key, so the administrator of
 * that database cannot forge it.
 */
async function findArrival(
  { to, tenant_id }: Move,
  { on, head, auditKey }: Reading & { head: Head },
): Promise<ChainedEntry | undefined> {
  const row = await findTenant(on, tenant_id)
  if (!row) return undefined
  const theirs = openAuditKey(to.storeKeys, authenticTenant(to, row))
  const entry = await readAuthenticEntry(on, { tenant_id, id: head.last_id + 1, auditKey: theirs }, head.hash)
  if (!entry || readMetadata(entry).status !== 'moved') return undefined
  const hash = entryHash(head.hash, entry)
  const isNext = equalBytes(entry.hash, hash) && equalBytes(entry.mac, entryMac(auditKey, entry.id, hash))
  return isNext ? entry : undefined
}

/** Returns for how many milliseconds the tenant was closed. */
async function switchOver(move: Move, options: MoveOptions & Pick<Arriving, 'peppers' | 'copied'>): Promise<number> {
  const { from, to, tenant_id } = move
  const { auditKey } = await getState(move)
  const noted = noteInstallation(from)
  let closedMs = 0
  await extendLocked(from, { tenant_id, auditKey }, async (lock, head) => {
    await withoutTimeouts(lock)
    const tenant = await readForChange(lock, from.storeKeys, head)
    if (tenant.status !== 'moving')
      throw new Refusal('E_STATE', `tenant ${tenant.name} is ${tenant.status}: another command ended or undid its move`)
    const closed = await assertTarget(move, lock, tenant) // after an undo and a move elsewhere, it is `moving` too
    const found = await findArrival(move, { on: to.sql, head, auditKey })
    const entry = found ?? (await arrive(move, { lock, head, tenant, auditKey, ...options }))
    const { id: last_id, hash, created_at } = entry
    closedMs = (found ? Date.parse(created_at) : from.now()) - Date.parse(closed?.created_at ?? created_at)
    const sealed = { tenant_id, last_id, hash, policy_version: head.policy_version + 1, created_at }
    const next = { ...sealed, mac: headMac(auditKey, sealed) }
    const { clock } = from.committer
    await appendToLocked(lock, clock, { previous: head, next, entries: [entry], time: clock.read(head) })
    await writeStatus(from, lock, { tenant, status: 'moved', entry, to: keyOf(to), noted })
    return next
  })
  noted.commit()
  from.states.forget(tenant_id)
  options.onStep?.('arrived there')
  return Math.max(0, closedMs)
}

/** Notes the head of the installation's log, which counts once its transaction is committed. */
function noteInstallation({ committer: { guard } }: Services) {
  let head: Head | undefined
  return {
    set: (next: Head) => {
      head = next
    },
    commit: () => head && guard.committed(head),
  }
}

type StatusChange = {
  tenant: TenantRow
  status: TenantRow['status']
  entry: ChainedEntry | undefined
  to: string
  told?: NonNullable<EntryNote['metadata']>
  noted: ReturnType<typeof noteInstallation>
}

/** Writes the tenant's status here, with an entry in its log, and records it in the installation's log. */
async function writeStatus(
  from: Services,
  lock: Transaction,
  { tenant, status, entry, to, told, noted }: StatusChange,
): Promise<void> {
  if (!entry) throw new Error('a change has no entry')
  const row = withMac(
    { ...tenant, status, entry_id: entry.id },
    tenantMac,
    rowKeyOf(openAuditKey(from.storeKeys, tenant)),
  )
  assertWritten(await updateTenant(lock, row), row)
  const named = { tenant_id: tenant.tenant_id, entry_id: entry.id, entry_hash: encodeHex(entry.hash), to }
  const metadata = { ...named, ...recordChanges(tenant, { status }), ...told }
  noted.set(
    await recordForInstallation(from, lock, systemCaller(from), [{ action: 'installation.tenant_move', metadata }]),
  )
}

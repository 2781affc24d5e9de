/**
 * Shares alarms among the processes of one database, see chain.md 10: each process writes its own as rows,
 * adopts those of others, and checks whether the chains in the database still contain what it witnessed, even
 * while there are no calls.
 */

import type { KeyObject } from 'node:crypto'
import { type ChainedEntry, genesisHash } from '@eaas/audit'
import { INSTALLATION_ID } from '@eaas/protocol'
import {
  type ComparedHead,
  compareWitnesses,
  deleteAlarmRow,
  listAlarms,
  lockAlarm,
  MAX_REASON,
  replaceAlarm,
  writeAlarm,
} from '../../store/alarms.js'
import { findEntryHash, findHead, listHeadsWithKeys, listTenantsWithHeads } from '../../store/audit.js'
import type { Sql } from '../../store/db.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { assertFormats } from '../../store/text-formats.js'
import { ChainAlarmError, UnfollowedLogError } from '../append-errors.js'
import { alarmMac, type ChainAlarm, equalBytes, type Head, type Witness } from '../formats/chain.js'
import { isLossAccepted } from '../recorded-tenants.js'
import { findAcceptedRollback, findNewestAcceptance } from './acceptances.js'
import { LATER_AT_ONCE, type Later, readLater } from './follow.js'
import type { Alarm, HeadWatch, HeadWatches } from './head-watch.js'
import { isAtLeast, laterOf } from './points.js'

/** Tenants whose witnessed entry is compared with the database in one run; more tenants take turns. */
const COMPARED_AT_ONCE = LATER_AT_ONCE
/**
 * How long one run follows logs that it could not follow in one statement, in milliseconds; the next ones go
 * on.
 */
const FOLLOW_MS = 1_000
/** Before every tenant's id, and that of the installation's log. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** What one run compares, and whether it begins or ends a round over all tenants. */
interface Turn {
  compared: (Witness & { tenant_id: string })[]
  begins: boolean
  ends: boolean
}

export interface SharedAlarmsOptions {
  sql: Sql
  watches: HeadWatches
  /** @throws ChangedSessionError if a session is not as it began */
  assertSessions: () => Promise<void>
  /** of the installation's own log */
  installationKey: KeyObject
  /** undefined if there is no such tenant */
  findAuditKey: (tenant_id: string) => Promise<KeyObject | undefined>
  /** opens the audit key of a tenant's row. @throws TamperedRowError */
  openKey: (row: { tenant_id: string; wrapped_audit_key: Uint8Array }) => KeyObject
  /** reads whether the database has no row of the tenant any more, and if so drops the cached state */
  isGone: (tenant_id: string) => Promise<boolean>
  /** called after the alarm about a tenant that is gone has ended */
  onGoneAccepted?: ((tenant_id: string) => void) | undefined
  /** called after the row of an alarm was deleted whose loss an operator had accepted before */
  onAcceptedRow?: ((tenant_id: string) => void) | undefined
  /** milliseconds since 1970 */
  now: () => number
}

export interface SharedAlarms {
  /**
   * Reads the alarms, compares the chains with what was witnessed, and writes or ends this process's alarms.
   * A tenant that fails does not stop the others: returns the errors. A server, which lives long, also finds
   * the heads of tenants that it has not served.
   *
   * @throws the database's own error when the alarms or the logs can't be read
   */
  compare(options?: { findsUnseen?: boolean }): Promise<unknown[]>
}

/** The reason of an alarm about a tenant that is missing from the database. */
export const TENANT_GONE =
  'the tenant is missing from the database: a backup from before its creation was restored, or the database was tampered with'

/**
 * The reason of an alarm about a tenant whose chain can't be compared, because its audit key does not open.
 */
export const KEY_CHANGED = 'the audit key of the tenant was changed outside the server'

/** One a process. */
export function createSharedAlarms({
  sql,
  watches,
  assertSessions,
  installationKey,
  findAuditKey,
  openKey,
  isGone,
  onGoneAccepted,
  onAcceptedRow,
  now,
}: SharedAlarmsOptions): SharedAlarms {
  let turn = 0
  /** the tenant up to which the database was searched for those of which this process has seen no head */
  let searchedThrough = FIRST_ID
  /** the tenants that an operator accepted as gone: compared again as soon as the database has them */
  const acceptedGone = new Set<string>()
  /**
   * of alarms without a witness: the newest rollback that was accepted before the alarm, which does not
   * settle it
   */
  const acceptedBefore = new WeakMap<Alarm, number>()

  async function compare({ findsUnseen = false } = {}): Promise<unknown[]> {
    const errors: unknown[] = []
    const unread: unknown[] = []
    const note = (list: unknown[]) => (error: unknown) => {
      list.push(error)
      watches.comparisons.failed() // at once: the rest of a run may take long where each statement waits for a lock
      return undefined
    }
    await assertSession().catch((error: unknown) => {
      watches.comparisons.failed()
      throw error
    })
    const rows = await readRows().catch(note(unread))
    for (const row of rows?.values() ?? []) await learn(row, findsUnseen).catch(note(errors))
    // Also without the alarms: whoever locks them must not keep this process from raising its own.
    const round = nextWitnesses()
    const compared = (await compareTurn(round).catch(note(unread))) ?? []
    const contradicted = new Set(compared.flatMap((each) => (each.is_contradicted ? [each.tenant_id] : [])))
    for (const tenant_id of contradicted) await examine(watches.get(tenant_id)).catch(note(errors))
    const found = findLater(round, compared).filter(({ head }) => !contradicted.has(head.tenant_id))
    const until = performance.now() + FOLLOW_MS
    for (const later of (await readLater(sql, found).catch(note(unread))) ?? [])
      await follow(later, until).catch(note(errors))
    const unseen = findsUnseen ? await learnUnseen().catch(note(unread)) : undefined
    for (const watch of unseen ?? []) await examine(watch).catch(note(errors))
    if (unread.length + errors.length === 0) watches.comparisons.succeeded(round)
    for (const watch of rows ? watches.alarmed() : []) {
      await share(watch, rows?.get(watch.tenant_id)).catch((error: unknown) => void errors.push(error))
    }
    if (unread.length > 0) throw unread[0]
    return errors
  }

  async function assertSession(): Promise<void> {
    await assertSessions()
    await assertFormats(sql)
  }

  async function readRows(): Promise<Map<string, ChainAlarm>> {
    return new Map((await listAlarms(sql)).map((row) => [row.tenant_id, row]))
  }

  async function compareTurn({ compared }: Turn): Promise<ComparedHead[]> {
    return compared.length > 0 ? compareWitnesses(sql, compared) : []
  }

  /** The heads that a command or another server wrote after the witnessed ones. */
  function findLater(round: Turn, compared: readonly ComparedHead[]): Later[] {
    const witnesses = new Map(round.compared.map((witness) => [witness.tenant_id, witness]))
    const heads = new Map(compared.map(({ tenant_id, head }) => [tenant_id, head]))
    return [...heads].flatMap(([tenant_id, head]) => {
      const witness = witnesses.get(tenant_id)
      const { witnessed, held } = watches.get(tenant_id)
      // What this process has written meanwhile it knows.
      const isKnown = head && witnessed && held.all.length === 1 && isAtLeast(witnessed, head)
      return head && witness && !isKnown ? [{ witness, head }] : []
    })
  }

  /** Adopts a later head: from now on the log must not go back behind it. */
  async function follow({ head: found, stretch }: Later & { stretch: ChainedEntry[] }, until: number): Promise<void> {
    const { wrapped_audit_key, ...head } = found
    const watch = watches.get(head.tenant_id)
    const auditKey = keyOf(head.tenant_id, wrapped_audit_key)
    const followed = auditKey && watch.follow({ head, stretch }, auditKey)
    if (!followed || followed === 'broken' || (followed === 'in part' && performance.now() < until))
      await examine(watch)
  }

  /**
   * Adopts heads of tenants of which this process has seen none yet; returns the watches of those whose head
   * is not authentic.
   */
  async function learnUnseen(): Promise<HeadWatch[]> {
    const page = await listTenantsWithHeads(sql, searchedThrough, COMPARED_AT_ONCE)
    const isUnseen = ({ held, alarm }: HeadWatch) => held.all.length === 0 && !alarm
    const unseen = page.filter((tenant_id) => isUnseen(watches.get(tenant_id)))
    const heads = unseen.length > 0 ? await listHeadsWithKeys(sql, unseen) : []
    searchedThrough = page.length < COMPARED_AT_ONCE ? FIRST_ID : (page.at(-1) ?? FIRST_ID)
    return heads.flatMap(({ wrapped_audit_key, ...head }) => {
      const watch = watches.get(head.tenant_id)
      const auditKey = keyOf(head.tenant_id, wrapped_audit_key)
      return watch.held.all.length > 0 || (auditKey && watch.adopt(head, auditKey)) ? [] : [watch]
    })
  }

  function keyOf(tenant_id: string, wrapped_audit_key: Uint8Array | null): KeyObject | undefined {
    if (tenant_id === INSTALLATION_ID) return installationKey
    try {
      return wrapped_audit_key ? openKey({ tenant_id, wrapped_audit_key }) : undefined
    } catch (error) {
      if (!(error instanceof TamperedRowError)) throw error
      return undefined
    }
  }

  // A row that no server wrote is an alarm too; but its witness is not believed.
  async function learn(row: ChainAlarm, isServing: boolean): Promise<void> {
    const watch = watches.get(row.tenant_id)
    if (watch.alarm && row.last_id <= (watch.alarm.witness?.last_id ?? 0)) return
    if (await isGone(row.tenant_id)) {
      watch.learn({ reason: TENANT_GONE, witness: watch.held.proven })
      return
    }
    const auditKey = await findAuditKey(row.tenant_id).catch(unlessTampered)
    if (!auditKey || auditKey === 'tampered' || !isGenuine(row, auditKey)) {
      watch.learn({ reason: 'the database contains an alarm that no server wrote', witness: watch.held.proven })
      return
    }
    if (await wasAccepted(row, auditKey)) {
      if (await deleteAlarmRow(sql, row)) onAcceptedRow?.(row.tenant_id)
      return
    }
    const { reason, last_id, hash, policy_version } = row
    const witness = last_id === 0 ? undefined : { last_id, hash, policy_version }
    if (watch.alarm) return watch.learnWitness(witness)
    // What this process witnessed may be later than what the row says: then its own alarm replaces the row.
    // Taken before the log is read, which may have been cut off by now; a process that opens, such as a
    // command, has read it already.
    const own = isServing ? watch.held.proven : watch.held.provenKept
    await raiseOwn(watch, auditKey)
    watch.learn({ reason, witness: laterOf(witness, own) })
  }

  /**
   * Whether an operator accepted the loss that this alarm is about, and the log is the one that was left
   * then. Somebody put such a row back. One without a witness, or whose policy version is not proven, may be
   * about a later loss.
   */
  async function wasAccepted(row: ChainAlarm, auditKey: KeyObject): Promise<boolean> {
    const { tenant_id, last_id, policy_version } = row
    if (policy_version === 0) return false
    const accepted = await findAcceptedRollback(sql, { tenant_id, auditKey }, row)
    if (!accepted || last_id > accepted.agrees_through) return accepted !== undefined
    const found = await findEntryHash(sql, tenant_id, last_id)
    return found !== undefined && equalBytes(found, row.hash)
  }

  async function examine(watch: HeadWatch): Promise<void> {
    const { tenant_id } = watch
    if (watch.alarm) return
    if (acceptedGone.has(tenant_id)) {
      if (await isGone(tenant_id)) return
      acceptedGone.delete(tenant_id)
    }
    const auditKey = await findAuditKey(tenant_id).catch(unlessTampered)
    if (auditKey === 'tampered') return watch.learn({ reason: KEY_CHANGED, witness: watch.held.proven })
    if (!auditKey) return
    const head = await raiseOwn(watch, auditKey)
    if (head) watch.witness(head) // a purge took the entry: from now on the head is compared
  }

  /**
   * Compares the chain with what this process witnessed; returns the head, or undefined after an alarm or if
   * the next run has to go on.
   */
  async function raiseOwn(watch: HeadWatch, auditKey: KeyObject): Promise<Head | undefined> {
    try {
      return await watch.read(sql, auditKey, findHead, { isEntryRead: true })
    } catch (error) {
      if (!(error instanceof ChainAlarmError || error instanceof UnfollowedLogError)) throw error
      return undefined
    }
  }

  // If the row of the alarm is gone, either an operator settled the alarm, which a log records, or somebody
  // deleted the row: then it is written again. For a tenant that is gone, that is the installation's log, and
  // the installation's key makes the MAC.
  async function share(watch: HeadWatch, row: ChainAlarm | undefined): Promise<void> {
    const { tenant_id, alarm } = watch
    if (!alarm) return
    if (!row && (await isGone(tenant_id)) && (await isAccepted(tenant_id, alarm))) {
      watch.release()
      acceptedGone.add(tenant_id)
      onGoneAccepted?.(tenant_id)
      return
    }
    const auditKey = await findAuditKey(tenant_id)
    const key = auditKey ?? installationKey
    if (auditKey && !alarm.witness && !acceptedBefore.has(alarm)) {
      acceptedBefore.set(alarm, await findNewestAcceptance(sql, { tenant_id, auditKey }))
    }
    // Without the tenant's key, a row that another process wrote with it can't be judged.
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

  // The row is judged again under its lock: meanwhile an operator may have accepted the loss, or another
  // process have written what it knows.
  function replace(alarm: ChainAlarm, isKept: (found: ChainAlarm) => boolean): Promise<unknown> {
    return sql.begin(async (transaction) => {
      const found = await lockAlarm(transaction, alarm.tenant_id)
      if (found && !isKept(found)) await replaceAlarm(transaction, alarm)
    })
  }

  function isAccepted(tenant_id: string, { witness }: Alarm): Promise<boolean> {
    return isLossAccepted(sql, { installationKey, tenant_id, witness })
  }

  function alarmRow(alarm: Alarm, tenant_id: string, key: KeyObject): ChainAlarm {
    const { last_id, hash, policy_version } = alarm.witness ?? NOTHING
    const raised_at = new Date(now()).toISOString()
    const withoutMac = {
      tenant_id,
      reason: alarm.reason.slice(0, MAX_REASON),
      last_id,
      hash: last_id === 0 ? genesisHash(tenant_id) : hash,
      policy_version,
      raised_at,
    }
    return { ...withoutMac, mac: alarmMac(key, withoutMac) }
  }

  async function isSettled(tenant_id: string, auditKey: KeyObject, alarm: Alarm): Promise<boolean> {
    const log = { tenant_id, auditKey }
    if (alarm.witness) return (await findAcceptedRollback(sql, log, alarm.witness)) !== undefined
    const before = acceptedBefore.get(alarm)
    return before !== undefined && (await findNewestAcceptance(sql, log)) > before
  }

  // Also of the alarmed ones, which another process that does not know of the alarm may still write.
  function nextWitnesses(): Turn {
    // Of several of a tenant the earliest one last: from that one the log is followed.
    const all = [...watches.all()].flatMap(({ tenant_id, held }) =>
      held.all.toSorted((a, b) => b.last_id - a.last_id).map((witness) => ({ tenant_id, ...witness })),
    )
    if (turn >= all.length) turn = 0
    const from = turn
    turn += COMPARED_AT_ONCE
    return { compared: all.slice(from, turn), begins: from === 0, ends: turn >= all.length }
  }

  return { compare }
}

// With a tenant's audit key that was exchanged no alarm about it can be checked.
function unlessTampered(error: unknown): 'tampered' {
  if (!(error instanceof TamperedRowError)) throw error
  return 'tampered'
}

function isGenuine(row: ChainAlarm, auditKey: KeyObject): boolean {
  return equalBytes(row.mac, alarmMac(auditKey, row))
}

const NOTHING: Witness = { last_id: 0, hash: new Uint8Array(32), policy_version: 0 }

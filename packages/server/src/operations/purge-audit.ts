/**
 * audit.purge: retention. The rows that grant rights are restated before it (`restate-rights.ts`). First the mark and its entry are written in one short transaction: from then on the entries up to the mark
 * count as deleted. A log with many kinds of entries gets several marks, one after another, each in a short transaction. Then the
 * entries are deleted in small batches, which lock nothing that an append needs. A crash in between leaves rows below the mark, which
 * nothing reads and the next purge deletes.
 */
import {
  type ChainedEntry,
  equalBytes,
  isPurgeMarkAuthentic,
  NO_MARK_MAC,
  type PurgeMark,
  purgeMarkMac,
} from '../audit/formats/chain.js'
import { TamperedRowError } from '../audit/formats/row-mac.js'
import { readAuthenticEntry } from '../audit/read-entry.js'
import type { ValidLog } from '../audit/verify/verify.js'
import { recordForInstallation } from '../runner/installation-log.js'
import type { Decision, EntryNote, Operation, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { findHead } from '../store/audit.js'
import {
  countKinds,
  countPurged,
  findLastIdBefore,
  findLastMark,
  hasEntryBetween,
  insertMark,
  type KindCount,
} from '../store/audit-purge.js'
import type { Queryable } from '../store/db.js'

const MS_PER_DAY = 86_400_000
/** If the clocks differ by more, in milliseconds, one of them is assumed to be wrong. */
const CLOCKS_APART_MS = 3_600_000
/** A clock that leapt ahead by as much, in milliseconds, is assumed to be wrong. */
const IMPLAUSIBLE_LEAP_MS = 366 * MS_PER_DAY
/** Entries from so long before now, in milliseconds, do not prove the clock right: the same clock may have dated them. */
const UNPROVEN_MS = 28 * MS_PER_DAY
/** The share of a tenant's entries that one purge may take by default. */
export const DEFAULT_MAX_SHARE = 0.5
/** Writing the count of a kind takes some 20 µs. Each statement counts that many entries, so a mark has less than twice that many kinds. */
const MARK_KINDS = 10_000

export interface PurgeOptions {
  retentionMonths: number
  /** share of the entries that may be purged, 0 to 1 */
  maxShare?: number
  /** only return what would be purged */
  dryRun?: boolean
  /** no entry after this one is purged, however old it is */
  through_id?: number
  /** approximate number of kinds of entries (by day, action and key) in one mark: each is a row that is written while the head is locked */
  markKinds?: number
  /** verifies the log before anything is marked; by default each operation does once, in which several operations can share a verification */
  verify?: VerifyOnce
}

/** Verifies a log; called again, returns the same. @throws Refusal E_STATE if it is not valid */
export type VerifyOnce = (services: Services, state: TenantState) => Promise<ValidLog>

export interface PurgePlan {
  /** the last entry that is purged; 0 if none is */
  purged_through: number
  entries: number
  /** rows that grant rights and whose last entry goes: they are restated before */
  restates: number
  cutoff: string
}

/**
 * Marks entries that are older than the retention as purged, or only the oldest of them if they are of very many kinds: to be called
 * until it marks none. Returns what it marked, a dry run all that would be marked. @throws Refusal E_STATE if the purge is implausible
 */
export function purgeAudit({
  retentionMonths,
  maxShare = DEFAULT_MAX_SHARE,
  dryRun = false,
  through_id = Number.POSITIVE_INFINITY,
  markKinds = MARK_KINDS,
  verify = verifyOnce(),
}: PurgeOptions): Operation<PurgePlan> {
  let planned: { mark: PurgeMark | undefined; decision: Decision<PurgePlan> } | undefined
  return async ({ state, services, sql, caller }) => {
    const { tenant_id } = state.tenant
    const mark = await findLastMark(sql, tenant_id)
    // Counting takes seconds and does not depend on keys or API keys: it is done once, before the head is locked.
    if (planned && isSameMark(planned.mark, mark)) return planned.decision
    if (mark && !isPurgeMarkAuthentic(state.auditKey, mark)) throw notVerified('mark_forged', 1)
    const now = await agreedTime(services, sql)
    const cutoff = monthsBefore(now, retentionMonths)
    const after_id = mark?.purged_through ?? 0
    const last_id = Math.min(through_id, await findLastIdBefore(sql, tenant_id, cutoff))
    if (last_id <= after_id) {
      return { entries: [], release: () => ({ purged_through: after_id, entries: 0, restates: 0, cutoff }) }
    }
    const whole = { purged_through: last_id, entries: last_id - after_id, cutoff }
    await assertPlausibleTime(sql, now)
    await assertShare(sql, { tenant_id, after_id, entries: whole.entries, maxShare })
    // Not read again when the decision is made under the lock of the head: what was verified once stays as it was written.
    const valid = await verify(services, state)
    if (dryRun) return { entries: [], release: () => ({ ...whole, restates: countThrough(valid, last_id) }) }
    // Entries that were appended after the verification are left for the next purge.
    const verified_id = Math.min(last_id, valid.last_id)
    if (verified_id <= after_id)
      return { entries: [], release: () => ({ purged_through: after_id, entries: 0, restates: 0, cutoff }) }
    const { counts, purged_through } = await countFirst(
      sql,
      { tenant_id, after_id, through_id: verified_id },
      markKinds,
    )
    const plan = { purged_through, entries: purged_through - after_id, cutoff }
    const entry = await readAuthenticEntry(sql, { tenant_id, id: purged_through, auditKey: state.auditKey }, mark?.hash)
    if (!entry) throw notVerified('entry_altered', purged_through)
    if (entry.created_at >= cutoff) throw notOld(entry, cutoff)
    const unstated = countThrough(valid, purged_through)
    if (unstated > 0)
      throw new Error(`the purge would take the last entry about ${unstated} rows of tenant ${tenant_id}`)
    const decision: Decision<PurgePlan> = {
      entries: [{ action: 'audit.purge', metadata: { ...plan } }],
      async change(transaction, { created_at }) {
        const previous_mac = mark?.mac ?? NO_MARK_MAC
        const withoutMac: Omit<PurgeMark, 'mac'> = { tenant_id, ...plan, hash: entry.hash, created_at, previous_mac }
        await insertMark(transaction, { ...withoutMac, mac: purgeMarkMac(state.auditKey, withoutMac) })
        await countPurged(transaction, tenant_id, counts)
        const note: EntryNote = { action: 'installation.purge', metadata: { tenant_id, ...plan } }
        await recordForInstallation(services, transaction, caller, [note])
        return { purged_through }
      },
      release: () => ({ ...plan, restates: 0 }),
    }
    planned = { mark, decision }
    return decision
  }
}

/** Makes a verification that several operations share. */
export function verifyOnce(onProgress?: (entries: number) => void): VerifyOnce {
  let verified: Promise<ValidLog> | undefined
  return (services, state) => {
    verified ??= verifyWhole(services, state, onProgress)
    return verified
  }
}

// A log that was tampered with must stay as it is: after a purge nobody could tell any more.
async function verifyWhole(
  { verifyLog }: Services,
  { tenant, auditKey, rowKey }: TenantState,
  onProgress: ((entries: number) => void) | undefined,
): Promise<ValidLog> {
  let valid: ValidLog | undefined
  const onValid = (found: ValidLog) => {
    valid = found
  }
  const { tenant_id } = tenant
  const { reason, broken_at } = await verifyLog({ tenant_id, auditKey, rowKey, onValid, onProgress })
  if (!valid) throw notVerified(reason, broken_at)
  return valid
}

/** How many rows that grant rights name an entry up to an id, by the verification. */
function countThrough({ writtenBy }: ValidLog, id: number): number {
  return [...writtenBy.values()].filter((entry_id) => entry_id <= id).length
}

// The times by which the entries were chosen are only proven now.
function notOld({ tenant_id, id, created_at }: ChainedEntry, cutoff: string): TamperedRowError {
  return new TamperedRowError(
    `nothing is purged: entry ${id} of tenant ${tenant_id} is of ${created_at}, not older than ${cutoff}, and was shown with another time`,
  )
}

function notVerified(reason: string | undefined, broken_at: number | undefined): Refusal {
  return new Refusal(
    'E_STATE',
    `nothing is purged: the log does not verify (${reason}, entry ${broken_at}), so somebody tampered with it. Keep it as it is, ` +
      'and find out why: eaas audit verify',
  )
}

function isSameMark(planned: PurgeMark | undefined, found: PurgeMark | undefined): boolean {
  return planned && found ? equalBytes(planned.mac, found.mac) : planned === found
}

/** Counts entries by kinds, from the first one until there are many kinds; returns how far it came. */
async function countFirst(
  sql: Queryable,
  { tenant_id, after_id, through_id }: { tenant_id: string; after_id: number; through_id: number },
  markKinds: number,
): Promise<{ counts: KindCount[]; purged_through: number }> {
  const counts = new Map<string, KindCount>()
  let counted = after_id
  while (counted < through_id && counts.size < markKinds) {
    const part = { tenant_id, after_id: counted, through_id: Math.min(through_id, counted + markKinds) }
    for (const kind of await countKinds(sql, part)) {
      const name = `${kind.day} ${kind.action} ${kind.key_id}`
      counts.set(name, { ...kind, entries: kind.entries + (counts.get(name)?.entries ?? 0) })
    }
    counted = part.through_id
  }
  return { counts: [...counts.values()], purged_through: counted }
}

/** The earlier of this clock and the database's, in milliseconds. @throws Refusal E_STATE where they are far apart */
async function agreedTime({ now, databaseNow }: Services, sql: Queryable): Promise<number> {
  const [ours, theirs] = [now(), await databaseNow(sql)]
  if (Math.abs(ours - theirs) > CLOCKS_APART_MS) {
    const [here, there] = [ours, theirs].map((time) => new Date(time).toISOString())
    throw new Refusal(
      'E_STATE',
      `nothing is purged: it is ${here} by this machine's clock and ${there} by the database's. Run NTP on both`,
    )
  }
  return Math.min(ours, theirs)
}

// A clock that leapt ahead would make every entry too old at once. It also dates the entries of current calls, so these prove nothing until
// an operator has had four weeks to notice. Only older entries are purged, so a log in use always has entries that prove the clock right.
async function assertPlausibleTime(sql: Queryable, now: number): Promise<void> {
  const from = new Date(now - IMPLAUSIBLE_LEAP_MS).toISOString()
  const to = new Date(now - UNPROVEN_MS).toISOString()
  if (!(await hasEntryBetween(sql, from, to))) {
    throw new Refusal(
      'E_STATE',
      `nothing is purged: no audit entry of any tenant is between ${from} and ${to}. Check the clock. If it is correct, and no call ` +
        'was made for over a year, purges resume four weeks after the first call',
    )
  }
}

async function assertShare(
  sql: Queryable,
  {
    tenant_id,
    after_id,
    entries,
    maxShare,
  }: { tenant_id: string; after_id: number; entries: number; maxShare: number },
): Promise<void> {
  const all = ((await findHead(sql, tenant_id))?.last_id ?? 0) - after_id
  if (entries > all * maxShare) {
    throw new Refusal(
      'E_STATE',
      `nothing is purged: ${entries} of ${all} entries would be deleted, a larger share than ${maxShare}. ` +
        'If that is intended, allow a larger share: eaas purge --max-share',
    )
  }
}

/** The same time of day some months before, on the last day of a shorter month. */
function monthsBefore(now: number, months: number): string {
  const date = new Date(now)
  const day = date.getUTCDate()
  date.setUTCDate(1)
  date.setUTCMonth(date.getUTCMonth() - months)
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
  date.setUTCDate(Math.min(day, lastDay))
  return date.toISOString()
}

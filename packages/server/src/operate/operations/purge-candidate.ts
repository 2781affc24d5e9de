/** Which entries are old enough for a purge, and why they are held back: no purge trusts a clock that may be wrong. */
import { counted } from '@eaas/protocol'
import { isPurgeMarkAuthentic, type PurgeMark } from '../../core/audit/formats/chain.js'
import type { Operation, Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import { findHead } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { findLastMark } from '../../core/store/purge-marks.js'
import { findLastIdBefore, hasEntryBetween, hasEntryThrough } from '../store/purge.js'

const MS_PER_DAY = 86_400_000
const CLOCKS_APART_MS = 3_600_000 // in milliseconds; if the clocks differ by more, one of them is assumed to be wrong
/** In milliseconds; a clock that leapt ahead by more is assumed to be wrong. */
const IMPLAUSIBLE_LEAP_MS = 366 * MS_PER_DAY
/** More recent entries do not prove the clock right, since the same clock may have dated them. */
const UNPROVEN_MS = 28 * MS_PER_DAY
export const DEFAULT_MAX_SHARE = 0.5 // the share of a tenant's entries that one purge may delete by default

/** The earlier of this clock and the database's, in milliseconds. @throws Refusal E_STATE if they are far apart */
export async function getAgreedTime({ now, databaseNow }: Services, sql: Queryable): Promise<number> {
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

/**
 * Why the clock is not known to be right. A clock that leapt ahead makes every entry too old at once. Since it dates
 * current entries, these prove nothing until an operator has had four weeks to notice; those of the year before that do.
 */
async function findUnprovenTime(sql: Queryable, now: number): Promise<string | undefined> {
  const from = new Date(now - IMPLAUSIBLE_LEAP_MS).toISOString()
  const to = new Date(now - UNPROVEN_MS).toISOString()
  if (await hasEntryBetween(sql, from, to)) return undefined
  return (
    `no entry of any log is between ${from} and ${to}, so nothing shows that the clock is right: check it. If it is, purges resume four weeks after ` +
    'the first call or the next start of a server'
  )
}

/** The same time of day `months` earlier, on the last day of a shorter month. */
function monthsBefore(now: number, months: number): string {
  const date = new Date(now)
  const day = date.getUTCDate()
  date.setUTCDate(1)
  date.setUTCMonth(date.getUTCMonth() - months)
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
  date.setUTCDate(Math.min(day, lastDay))
  return date.toISOString()
}

export interface Candidate {
  tenant_id: string
  after_id: number // the last entry that is already purged
  through_id: number
  cutoff: string
}

/** Finds, in a few look-ups, entries that are due, or marked but not deleted. @throws Refusal E_STATE */
export async function findLeft(
  log: PurgedLog,
  options: { retentionMonths: number; now: number },
): Promise<Candidate | undefined> {
  const mark = await findLastMark(log.sql, log.state.tenant.tenant_id)
  const candidate = await findCandidate(log, mark, options)
  const { tenant_id, after_id, through_id } = candidate
  return through_id > after_id || (await hasEntryThrough(log.sql, tenant_id, after_id)) ? candidate : undefined
}

/** As `findLeft`, by the time that purges use. Writes nothing. */
export function reviewLeft(options: { retentionMonths: number }): Operation<boolean> {
  return async ({ services, state, sql }) => {
    const now = await getAgreedTime(services, sql)
    const left = await findLeft({ sql, state }, { ...options, now })
    return { entries: [], release: () => left !== undefined }
  }
}

type PurgedLog = { sql: Queryable; state: { tenant: { tenant_id: string }; auditKey: TenantState['auditKey'] } }

export async function findCandidate(
  { state, sql }: PurgedLog,
  mark: PurgeMark | undefined,
  options: { retentionMonths: number; through_id?: number; now: number },
): Promise<Candidate> {
  const { retentionMonths, through_id = Number.POSITIVE_INFINITY, now } = options
  const { tenant_id } = state.tenant
  if (mark && !isPurgeMarkAuthentic(state.auditKey, mark)) throw notVerified('mark_forged', 1)
  const cutoff = monthsBefore(now, retentionMonths)
  const last_id = Math.min(through_id, await findLastIdBefore(sql, tenant_id, cutoff))
  return { tenant_id, after_id: mark?.purged_through ?? 0, through_id: last_id, cutoff }
}

/** Why these entries are held back for an operator although they are due; undefined if they are not held back. */
export async function findHold(
  sql: Queryable,
  { tenant_id, after_id, through_id }: Candidate,
  { maxShare = DEFAULT_MAX_SHARE, now }: { maxShare?: number; now: number },
): Promise<string | undefined> {
  const unproven = await findUnprovenTime(sql, now)
  if (unproven !== undefined) return unproven
  const entries = through_id - after_id
  const all = ((await findHead(sql, tenant_id))?.last_id ?? 0) - after_id
  if (entries > all * maxShare) {
    return `${entries} of ${counted(all, 'entry', 'entries')} ${entries === 1 ? 'is' : 'are'} due at once, a larger share than ${maxShare}: the clock or the retention may be wrong`
  }
  return undefined
}

export function notVerified(reason: string | undefined, broken_at: number | undefined): Refusal {
  return new Refusal(
    'E_STATE',
    `nothing is purged: the log does not verify (${reason}, entry ${broken_at}), so somebody tampered with it. Keep it as it is, ` +
      'and find out why: eaas audit verify',
  )
}

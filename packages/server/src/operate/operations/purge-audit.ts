// audit.purge. The job (jobs/purge-tenants.ts) first restates the rows that grant rights (restate-rights.ts). This operation
// then writes a mark and its entry in one short transaction, or in several if there are many kinds of entries. From then on,
// the entries up to the mark count as deleted. Last, the job deletes them in small batches, which lock nothing that an append
// needs. A crash before that leaves rows below the mark, which nothing reads and the next purge deletes.
import type { ChainedEntry } from '@eaas/audit/formats'
import { counted } from '@eaas/protocol'
import { equalBytes, NO_MARK_MAC, type PurgeMark, purgeMarkMac } from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import type { NotedEntries, ValidLog } from '../../core/audit/verify/verify.js'
import { readValidLog } from '../../core/audit/verify/verify.js'
import type { Context, Decision, EntryNote, Operation, Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import type { Queryable } from '../../core/store/db.js'
import { findLastMark } from '../../core/store/purge-marks.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { recordForInstallation } from '../../guard/installation-log.js'
import { countKinds, countPurged, insertMark, type KindCount } from '../store/purge.js'
import {
  type Candidate,
  DEFAULT_MAX_SHARE,
  findCandidate,
  findHold,
  getAgreedTime,
  notVerified,
} from './purge-candidate.js'

/** The kinds of entries in a mark, each of which takes some 20 µs to count, and the entries that one statement counts. */
const MARK_KINDS = 10_000

export interface PurgeOptions {
  retentionMonths: number
  maxShare?: number // the share of the entries that may be purged, 0 to 1
  /** also purge entries that are held back because of the clock or the share; the entry of the purge states this reason */
  resume?: string | undefined
  isReview?: boolean // a dry run that returns the held-back entries, and why, instead of refusing
  dryRun?: boolean // only return what it would purge
  through_id?: number // no entry after this one is purged, however old it is
  /** the hash that the verification must find for this entry, as in the plan of the purge and in the archive */
  through_hash?: Uint8Array | undefined
  /** about how many kinds of entries one mark covers; each is a row that is written while the head is locked */
  markKinds?: number
  verify?: VerifyOnce // verifies the log before anything is marked; several operations may share one `verifyOnce()`
}

/** Notes the hashes of these entries; later calls return the same result. @throws Refusal E_STATE */
type VerifyOnce = (services: Services, state: TenantState, noted: NotedEntries) => Promise<ValidLog>

export interface PurgePlan {
  purged_through: number // the last purged entry; 0 if there is none
  entries: number
  restates: number // rows that grant rights and whose last entry is to be purged, so they are restated first
  cutoff: string
  held?: string // why a server does not purge these entries; only in a review
}

/** The entries to purge and, if anything was verified, the verified hash of the last one. */
type VerifiedPlan = PurgePlan & { hash?: Uint8Array | undefined }

/** The archive is not of this log. */
export class OtherEntriesRefusal extends Refusal {
  override readonly name = 'OtherEntriesRefusal'

  constructor(id: number) {
    super(
      'E_STATE',
      `nothing is purged: entry ${id} was another one when the purge was planned, so somebody exchanged entries meanwhile. Keep the log as it ` +
        'is, and find out why: eaas audit verify',
    )
  }
}

interface MarkPlan extends Omit<PurgePlan, 'restates'> {
  hash: Uint8Array // of the last entry to purge
  counts: KindCount[]
}

/**
 * If the entries are of very many kinds, marks only the oldest: call it until it marks none. Returns the marked entries
 * or, in a dry run, those it would mark. @throws Refusal E_STATE if the purge is implausible
 */
export function purgeAudit({ verify = verifyOnce(), ...options }: PurgeOptions): Operation<VerifiedPlan> {
  let planned: { mark: PurgeMark | undefined; decision: Decision<VerifiedPlan> } | undefined
  return async (context) => {
    const mark = await findLastMark(context.sql, context.state.tenant.tenant_id)
    // Counting takes seconds and does not depend on keys or API keys, so it is done once, before the head is locked.
    if (planned && isSameMark(planned.mark, mark)) return planned.decision
    const decision = await decide(context, mark, { ...options, verify })
    planned = { mark, decision }
    return decision
  }
}

async function decide(
  context: Context,
  mark: PurgeMark | undefined,
  {
    maxShare = DEFAULT_MAX_SHARE,
    resume,
    isReview = false,
    dryRun = false,
    markKinds = MARK_KINDS,
    verify,
    through_hash,
    ...options
  }: PurgeOptions & { verify: VerifyOnce },
): Promise<Decision<VerifiedPlan>> {
  const { state, services, sql } = context
  const now = await getAgreedTime(services, sql)
  const candidate = await findCandidate(context, mark, { ...options, now })
  const { after_id, through_id, cutoff } = candidate
  if (through_id <= after_id) return nothing(after_id, cutoff)
  const held = resume === undefined ? await findHold(sql, candidate, { maxShare, now }) : undefined
  if (held !== undefined && !isReview) throw heldBack(held)
  const end_id = options.through_id ?? through_id
  // The decision under the lock of the head does not verify again: entries that were verified once stay as they were written.
  const valid = await verify(services, state, { id: end_id, every: markKinds })
  const hash = valid.noted.get(end_id)
  if (!hash) {
    // The verification began after a later mark was written.
    const later = await findLastMark(sql, candidate.tenant_id)
    if (isSameMark(mark, later)) throw overtaken()
    const again = { ...options, maxShare, resume, isReview, dryRun, markKinds, verify, through_hash }
    return decide(context, later, again)
  }
  if (through_hash && !equalBytes(hash, through_hash)) throw new OtherEntriesRefusal(end_id)
  if (dryRun) {
    const entries = through_id - after_id
    const plan = { purged_through: through_id, entries, restates: countThrough(valid, through_id), cutoff, hash }
    return answer(held === undefined ? plan : { ...plan, held })
  }
  // Entries after the verified ones are left for the next purge.
  const verified = { ...candidate, through_id: Math.min(through_id, valid.last_id) }
  if (verified.through_id <= after_id) return nothing(after_id, cutoff)
  const plan = await planMark(context, mark, { candidate: verified, markKinds, noted: valid.noted })
  const unstated = countThrough(valid, plan.purged_through)
  const rows = `${counted(unstated, 'row')} of tenant ${candidate.tenant_id}`
  if (unstated > 0) throw new Error(`the purge would take the last entry about ${rows}`)
  return writeMark(context, mark, plan, resume === undefined ? {} : { reason: resume })
}

function heldBack(held: string): Refusal {
  return new Refusal(
    'E_STATE',
    `nothing is purged: ${held}. Until then these entries are kept: review them with eaas purge --dry-run, and purge them with eaas purge --resume REASON`,
  )
}

/** Plans the mark of the candidate's entries, or of the oldest. @throws Refusal E_STATE, TamperedRowError */
async function planMark(
  { state, sql }: Context,
  mark: PurgeMark | undefined,
  { candidate, markKinds, noted }: { candidate: Candidate; markKinds: number; noted: ValidLog['noted'] },
): Promise<MarkPlan> {
  const { tenant_id, after_id, cutoff } = candidate
  const { counts, purged_through } = await countFirst(sql, candidate, markKinds)
  const entry = await readAuthenticEntry(sql, { tenant_id, id: purged_through, auditKey: state.auditKey }, mark?.hash)
  const hash = noted.get(purged_through)
  if (!hash) throw overtaken()
  // The entry's own MAC does not prove the entries after it: an attacker may show another history for a moment.
  if (!entry || !equalBytes(entry.hash, hash)) throw notVerified('entry_altered', purged_through)
  if (entry.created_at >= cutoff) throw notOld(entry, cutoff)
  return { purged_through, entries: purged_through - after_id, cutoff, hash: entry.hash, counts }
}

async function countFirst(
  sql: Queryable,
  { tenant_id, after_id, through_id }: Candidate,
  markKinds: number,
): Promise<{ counts: KindCount[]; purged_through: number }> {
  const counts = new Map<string, KindCount>()
  let counted = after_id
  while (counted < through_id && counts.size < markKinds) {
    const part = { tenant_id, after_id: counted, through_id: Math.min(through_id, counted + markKinds) }
    for (const kind of await countKinds(sql, part)) {
      const name = `${kind.day} ${kind.action} ${kind.key_id} ${kind.key_version}`
      counts.set(name, { ...kind, entries: kind.entries + (counts.get(name)?.entries ?? 0) })
    }
    counted = part.through_id
  }
  return { counts: [...counts.values()], purged_through: counted }
}

function writeMark(
  { state, services, caller }: Context,
  previous: PurgeMark | undefined,
  { hash, counts, ...plan }: MarkPlan,
  more: { reason?: string },
): Decision<PurgePlan> {
  const { tenant_id } = state.tenant
  return {
    entries: [{ action: 'audit.purge', metadata: { ...plan, ...more } }],
    async change(sql, { created_at }) {
      const previous_mac = previous?.mac ?? NO_MARK_MAC
      const withoutMac: Omit<PurgeMark, 'mac'> = { tenant_id, ...plan, hash, created_at, previous_mac }
      await insertMark(sql, { ...withoutMac, mac: purgeMarkMac(state.auditKey, withoutMac) })
      await countPurged(sql, tenant_id, counts)
      const note: EntryNote = { action: 'installation.purge', metadata: { tenant_id, ...plan, ...more } }
      const installationHead = await recordForInstallation(services, sql, caller, [note])
      return { purged_through: plan.purged_through, installationHead }
    },
    release: () => ({ ...plan, restates: 0 }),
  }
}

function nothing(after_id: number, cutoff: string): Decision<PurgePlan> {
  return answer({ purged_through: after_id, entries: 0, restates: 0, cutoff })
}

function answer(plan: VerifiedPlan): Decision<VerifiedPlan> {
  return { entries: [], release: () => plan }
}

export function verifyOnce(): VerifyOnce {
  let verified: Promise<ValidLog> | undefined
  return (services, state, noted) => {
    verified ??= verifyWhole(services, state, noted)
    return verified
  }
}

// A log that was tampered with must stay as it is: after a purge, the tampering could no longer be found.
async function verifyWhole(services: Services, state: TenantState, noted: NotedEntries): Promise<ValidLog> {
  const log = await readValidLog(services, state, { noted })
  if (!log.valid) throw notVerified(log.reason, log.broken_at)
  return log.valid
}

function countThrough({ writtenBy }: ValidLog, id: number): number {
  return [...writtenBy.values()].filter((entry_id) => entry_id <= id).length
}

// The times by which the entries were chosen are proven only now.
function notOld({ tenant_id, id, created_at }: ChainedEntry, cutoff: string): TamperedRowError {
  return new TamperedRowError(
    `nothing is purged: entry ${id} of tenant ${tenant_id} is of ${created_at}, not older than ${cutoff}, and was shown with another time`,
  )
}

// Another process's purge ended with an entry whose hash this verification did not note, or the clock was corrected.
function overtaken(): Refusal {
  return new Refusal(
    'E_STATE',
    'nothing more is purged now: the entries to purge are not those of the plan any more, as after a purge by another process. Run the purge again',
  )
}

function isSameMark(planned: PurgeMark | undefined, found: PurgeMark | undefined): boolean {
  return planned && found ? equalBytes(planned.mac, found.mac) : planned === found
}

// Decides whether a log continues from the heads that servers saw (README.md). Reads no database and no clock:
// head-watch.ts, follow.ts and acceptances.ts read the evidence.
import { type AuditEntry, type ChainedEntry, entryHash } from '@eaas/audit/formats'
import { encodeHex } from '@eaas/protocol'
import * as z from 'zod/mini'
import {
  type AuditKey,
  entryMac,
  equalBytes,
  type Head,
  isKeptHeadAuthentic,
  type KeptHead,
  type PurgeMark,
  type Witness,
} from '../../core/audit/formats/chain.js'

export interface Point {
  head: KeptHead
  // `process`: committed or read here; `file`: in the checkpoint file; `copy`: the copy of an anchored head, with a
  // server's MAC; `entry`: named by another entry of the installation's log
  by: 'process' | 'file' | 'copy' | 'entry'
}

/** An authentic head, and the entries from a point to it, or the first of them. */
export type Shown = { auditKey: AuditKey; head: Head; stretch: readonly ChainedEntry[] }

/** What is known about a log that is followed from one of its points; undefined members are not yet read. */
export interface Evidence extends Omit<Shown, 'stretch'>, Partial<Pick<Shown, 'stretch'>> {
  tenant_id: string
  from: KeptHead
  points: readonly KeptHead[]
  isEntryRead: boolean // whether the entry of `from` must be read to count, even if the head is of the same entry
  /** whether its entries led to `from` after `head` was read, since a point on the way may state later rights */
  isFollowed?: boolean
  mark?: PurgeMark | 'none' // authentic; read after the entries, since a purge writes its mark before it deletes
  acceptances?: readonly AcceptedRollback[] // authentic, newest first
}

export type Loss = { witness: KeptHead; fault: string }

export type Verdict =
  /** up to the head or the last entry of the stretch; the points in `passed` are in the log */
  | { kind: 'continues'; reached: KeptHead; passed: KeptHead[] }
  /** a purge or an accepted rollback explains why the log does not continue */
  | { kind: 'explained' }
  | { kind: 'lost'; loss: Loss }
  /** no decision is possible before this is read */
  | { kind: 'open'; needs: 'stretch' | 'mark' | 'acceptances' }

/** Judges a log by one stretch of it. A loss is one that neither a purge nor an accepted rollback explains. */
export function judge(evidence: Evidence): Verdict {
  const { from, points, stretch, mark, acceptances } = evidence
  const reached = reach(evidence)
  if (reached === undefined) return { kind: 'open', needs: 'stretch' }
  if (!('kind' in reached))
    return { kind: 'continues', reached, passed: stretch ? passedBy(stretch, from, points) : [from] }
  if (reached.kind === 'missing') {
    if (mark === undefined) return { kind: 'open', needs: 'mark' }
    if (mark !== 'none' && isPurged(reached, mark, evidence)) return { kind: 'explained' }
  }
  if (acceptances === undefined) return { kind: 'open', needs: 'acceptances' }
  const accepted = acceptances.find((each) => explains(each, from))
  // An operator accepted the loss of the entries after `agrees_through`.
  if (accepted && from.last_id > accepted.agrees_through) return { kind: 'explained' }
  return { kind: 'lost', loss: { witness: from, fault: faultOf(reached, evidence) } }
}

/** The loss of the latest point, which an alarm states. */
export function latestLoss(losses: readonly Loss[]): Loss | undefined {
  const latest = latestOf(losses.map(({ witness }) => witness))
  return losses.find(({ witness }) => witness === latest)
}

/** For a forged copy of an anchored head. With the log's present policy version, no earlier acceptance explains it. */
export function changedAnchored({ last_id, hash }: KeptHead, policy_version: number): Loss {
  return { fault: 'the anchored head was changed outside the server', witness: { last_id, hash, policy_version } }
}

/** The first entry after a point that does not continue the log. */
interface Break {
  id: number
  /** the head is `behind` the point or `differs` from it; `forked`: it does not follow from its predecessors */
  kind: 'behind' | 'missing' | 'repeated' | 'differs' | 'forked'
}

function reach({ from, head, isEntryRead, isFollowed, stretch, auditKey }: Evidence): Break | KeptHead | undefined {
  const { last_id: id } = from
  if (!isFollowed && !isPast(head, from)) return { id, kind: 'behind' }
  if (head.last_id === id && (!isEntryRead || id === 0)) return isSame(head, from) ? head : { id, kind: 'differs' }
  return stretch && followStretch(from, { head, stretch, auditKey })
}

/**
 * Returns where the log breaks after a point, or what it reaches: `head`, or the last entry of the stretch with the
 * lowest possible policy version. Computes the hashes, since stored ones prove nothing: the database administrator can
 * show the right one for a moment.
 */
export function followStretch(point: KeptHead, { head, stretch, auditKey }: Shown): Break | KeptHead {
  let { last_id: id, hash } = point
  const [first] = stretch
  const isFirst = first?.id === id
  if (!isFirst && id > 0) return { id, kind: 'missing' } // there is no entry 0
  if (isFirst && !equalBytes(first.hash, hash)) return { id, kind: 'differs' }
  const later = stretch.slice(isFirst ? 1 : 0)
  for (const entry of later) {
    if (entry.id === id) return { id, kind: 'repeated' }
    if (entry.id !== id + 1) return { id: id + 1, kind: 'missing' }
    hash = entryHash(hash, entry)
    id = entry.id
    if (!equalBytes(entry.hash, hash)) return { id, kind: 'forked' } // only names the entry; the checks below detect any fork
  }
  if (id === head.last_id) return equalBytes(hash, head.hash) ? head : { id, kind: 'forked' }
  const last = later.at(-1)
  if (!last) return { id: id + 1, kind: 'missing' }
  if (!equalBytes(last.mac, entryMac(auditKey, id, hash))) return { id, kind: 'forked' }
  // An entry after an accepted rollback must not count as one that the rollback lost.
  const policy_version = Math.max(
    point.policy_version,
    ...later.map((entry) => readAcceptance(entry)?.policy_version ?? 0),
  )
  return { last_id: id, hash, policy_version, created_at: last.created_at, sealed: sealedOf(point) }
}

/** The fast path: follows a log past all of its points. Undefined if anything is wrong, which `judge` then finds. */
export function followAll(
  points: readonly KeptHead[],
  shown: Shown,
): { reached: KeptHead; passed: KeptHead[] } | undefined {
  const { head, stretch } = shown
  const from = earliestOf(points)
  if (!from) return { reached: head, passed: [] }
  if (points.some((point) => !isPast(head, point))) return undefined
  const reached = followStretch(from, shown)
  if ('kind' in reached) return undefined
  const passed = passedBy(stretch, from, points)
  const isMissed = (point: KeptHead) => point.last_id <= reached.last_id && !passed.includes(point)
  return points.some(isMissed) ? undefined : { reached, passed }
}

/** The points that a stretch passes; the stretch follows from the first of them. */
function passedBy(stretch: readonly ChainedEntry[], from: KeptHead, points: readonly KeptHead[]): KeptHead[] {
  const isOneOf = ({ last_id, hash }: Witness) =>
    stretch.some((entry) => entry.id === last_id && equalBytes(entry.hash, hash))
  return points.filter((point) => point === from || isOneOf(point))
}

// An attacker who hides an entry can add a mark, but its MAC is valid only if a server purged another log here. All
// entries that a purge deletes, `from` included, are older than the mark's cutoff (chain.md 8).
function isPurged({ id }: Break, mark: PurgeMark, { tenant_id, auditKey, from }: Evidence): boolean {
  if (mark.purged_through < id) return false
  // A head has the time of its last entry (chain.md 5). Only a head that this process computed has a time but no MAC.
  const isKnown = (head: KeptHead) => head.mac === undefined || isKeptHeadAuthentic(auditKey, tenant_id, head)
  const times = [from, from.sealed].map((head) => head && isKnown(head) && head.created_at)
  return times.every((time) => !time || time < mark.cutoff)
}

function faultOf({ id, kind }: Break, { head, from }: Evidence): string {
  switch (kind) {
    case 'behind': {
      const where =
        head.last_id < id
          ? `from entry ${id} to ${head.last_id}`
          : `to before a change of rights (policy version ${from.policy_version}, now ${head.policy_version})`
      return `the audit chain went back ${where}: the database was restored or tampered with`
    }
    case 'missing':
      return `entry ${id} of the audit chain is missing, and no purge deleted it`
    case 'repeated':
      return `there are several entries ${id} of the audit chain`
    case 'differs':
      return `entry ${id} of the audit chain differs from the one that was written`
    case 'forked':
      return `entry ${id} of the audit chain does not follow from those that were written`
  }
}

const integer = z.int().check(z.gte(0))
const acceptedMetadata = z.looseObject({
  witnessed_id: integer,
  witnessed_hash: z.string(),
  agrees_through: integer,
  policy_version: integer,
  reason: z.string(),
  head_fault: z.optional(z.string()),
  named_id: z.optional(integer),
})

/** A rollback that an operator accepted: after which entry the log lost others (chain.md 10). */
export type AcceptedRollback = z.infer<typeof acceptedMetadata>

export function readAcceptance({
  action,
  metadata,
}: Pick<AuditEntry, 'action' | 'metadata'>): AcceptedRollback | undefined {
  if (action !== 'audit.rollback_accepted') return undefined
  return acceptedMetadata.safeParse(JSON.parse(metadata ?? '{}')).data
}

/** A rollback explains what it lost; a witness from after the acceptance has a higher policy version. */
export function explains(accepted: AcceptedRollback, { last_id, policy_version }: Witness): boolean {
  return policy_version < accepted.policy_version && last_id <= accepted.witnessed_id
}

/**
 * Whether an accepted rollback explains that a log lacks a head that was kept elsewhere (chain.md 10). A later loss
 * must not pass for an accepted one, so the head must be proven to be earlier, or be the one that the acceptance names.
 */
export function explainsKept(
  accepted: AcceptedRollback,
  kept: KeptHead,
  log: { tenant_id: string; auditKey: AuditKey },
) {
  const { witnessed_id, witnessed_hash, agrees_through } = accepted
  if (kept.last_id <= agrees_through) return false
  const isNamed = kept.last_id === witnessed_id && encodeHex(kept.hash) === witnessed_hash
  return isNamed || (explains(accepted, kept) && isKeptHeadAuthentic(log.auditKey, log.tenant_id, kept))
}

/**
 * A policy version without an authentic MAC may have been edited, so it counts as that of the last earlier head with a
 * MAC. Without such a head, a point from the file counts as 0, since no acceptance could end the alarm of a raised
 * version. A point from the installation's log counts as `known`, since any earlier acceptance would explain a 0.
 * `isForged`: the copy of an anchored head has another MAC.
 */
export function weighPoint(
  { head, by }: Point,
  { tenant_id, auditKey, known }: { tenant_id: string; auditKey: AuditKey; known: KeptHead | undefined },
): { head: KeptHead; isForged: boolean } {
  const sealed = [head, head.sealed].find((each) => each && isKeptHeadAuthentic(auditKey, tenant_id, each))
  if (sealed === head) return { head, isForged: false }
  const unproven = by === 'file' ? 0 : (known?.policy_version ?? 0)
  const policy_version = sealed?.policy_version ?? unproven
  return { head: { ...head, policy_version, sealed }, isForged: by === 'copy' }
}

/**
 * Judges a tenant in the database by the installation's log. `present_id`: the entry after which it must exist, or 0; `gone_id`: the entry
 * in which an operator accepted that it is gone, or 0; `anchor_id`: the newest anchor, which covers all tenants on record before it.
 */
export function judgeTenant({
  present_id,
  gone_id,
  anchor_id,
  isCovered,
}: {
  present_id: number
  gone_id: number
  anchor_id: number | undefined
  isCovered: boolean
}): 'on record' | 'uncovered' | 'unknown' | 'gone' {
  if (present_id === 0) return gone_id === 0 ? 'unknown' : 'gone'
  // The entries before the anchor are not verified, so the entry that says that the tenant is gone may be hidden.
  return anchor_id === undefined || present_id > anchor_id || isCovered ? 'on record' : 'uncovered'
}

/** By entry and policy version: `head` is at `other` or after it. */
export function isPast(head: Witness, other: Witness): boolean {
  return head.last_id >= other.last_id && head.policy_version >= other.policy_version
}

export function isSame(head: Witness, other: Witness): boolean {
  return head.last_id === other.last_id && equalBytes(head.hash, other.hash)
}

export function earliestOf<Kept extends Witness>(heads: readonly Kept[]): Kept | undefined {
  return heads.toSorted((one, other) => one.last_id - other.last_id)[0]
}

/** For the same entry, the head with the higher policy version, or else the first. */
export function laterOf(one: KeptHead | undefined, other: KeptHead | undefined): KeptHead | undefined {
  if (!one || !other) return one ?? other
  if (one.last_id !== other.last_id) return one.last_id > other.last_id ? one : other
  return other.policy_version > one.policy_version ? other : one
}

export function latestOf(heads: readonly (KeptHead | undefined)[]): KeptHead | undefined {
  return heads.reduce(laterOf, undefined)
}

/** Proves a point to another process: its MAC, or that of the last head before it that has one. */
export function sealedOf(point: KeptHead): KeptHead | undefined {
  return point.mac ? point : point.sealed
}

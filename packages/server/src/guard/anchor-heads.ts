/** Writes anchors: entries of the installation's log that cover the heads of all tenants (anchor.md 3). */
import { anchorMetadata } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import { ChainAlarmError, RECOVERY_PAGE, UnfollowedLogError, untilFollowed } from '../core/audit/append-errors.js'
import { isUnopened, openAuditKey } from '../core/audit/audit-key.js'
import {
  type AuditKey,
  type Head,
  isHeadAuthentic,
  isKeptHeadAuthentic,
  type Witness,
} from '../core/audit/formats/chain.js'
import { readRecordedTenants } from '../core/audit/recorded-tenants.js'
import { UnknownStoreKeyError } from '../core/crypto/key-hierarchy.js'
import type { EntryNote, Services } from '../core/runner/operation.js'
import { systemCaller } from '../core/runner/perform.js'
import { lockHead } from '../core/store/audit.js'
import type { Transaction } from '../core/store/db.js'
import { listTenantIds } from '../core/store/tenants.js'
import { recordForInstallation } from './installation-log.js'
import {
  type AnchoredHead,
  type CurrentHead,
  clearAnchoredHeads,
  listCurrentHeads,
  replaceAnchoredHeads,
} from './store/anchors.js'
import { followHeads, LATER_AT_ONCE, readLater } from './watch/follow.js'
import { watchesOf } from './watch/head-watch.js'
import { changedAnchored, earliestOf, followAll, isSame } from './watch/judge.js'
import { AnchorFault, readAnchorIn } from './watch/newest-anchor.js'

export interface AnchorOptions {
  notes?: readonly EntryNote[] // entries to write before the anchor
  without?: string // a tenant whose loss was accepted, which the anchor no longer covers
  accepted?: ReadonlySet<string> // tenants whose rollback is being accepted, regardless of their anchored heads
  evenIfSame?: boolean // write an anchor even if the newest one covers every head
  afresh?: boolean // cover the present heads of the database, after a rollback of the installation's own log was accepted
  mayLeave?: boolean // whether tenants may stay covered as before: while one loss is accepted, other losses may still be open
  // called with each tenant that stays covered as before, because of its head or an alarm; by default, no anchor is written then
  onLeft?: (tenant_id: string, what: string) => void
  followMs?: number // milliseconds for which logs are followed before the transaction; by default until the end of all
}

/**
 * Writes an anchor in a transaction of its own; false if the newest one covers every head. Refuses if a tenant would
 * have to stay covered as before, since such an anchor would prove less than it seems to. @throws ChainAlarmError,
 * Refusal, AuditWriteError
 */
export async function anchorNow(services: Services, options?: AnchorOptions): Promise<boolean> {
  if (!options?.afresh) await followChanged(services, options?.followMs ?? Number.POSITIVE_INFINITY)
  const head = await services.sql.begin((sql) => anchorHeads(services, sql, { mayLeave: false, ...options }))
  if (head) services.committer.guard.committed(head)
  return head !== undefined
}

/**
 * Returns the new head of the installation's log; undefined if the newest anchor covers every head. A tenant whose head
 * is forged, missing or behind stays covered as before, so that no anchor hides what an earlier one shows. @throws
 * AuditWriteError, ChainAlarmError, also if the anchored heads are not those of the newest anchor
 */
export async function anchorHeads(
  services: Services,
  sql: Transaction,
  { notes = [], without, accepted, evenIfSame = false, afresh = false, mayLeave = true, onLeft }: AnchorOptions = {},
): Promise<Head | undefined> {
  // Proves them again: heads that were edited since the last comparison must not be covered.
  const before = afresh ? await clearHeads(sql) : await lockAnchored(services, sql)
  const anchored = new Map(before.map((head) => [head.tenant_id, head]))
  const { changed, left } = await judgeHeads(services, sql, anchored, { accepted, mayLeave })
  if (!mayLeave) reportLeft(left, onLeft)
  const removed = without !== undefined && anchored.delete(without) ? [without] : []
  if (changed.length + removed.length + notes.length === 0 && !evenIfSame && !afresh) return undefined
  const covered = new Map<string, Head>([...anchored, ...changed.map((head) => [head.tenant_id, head] as const)])
  const leaves = [...covered.values()].sort((a, b) => (a.tenant_id < b.tenant_id ? -1 : 1))
  const anchor: EntryNote = { action: 'installation.anchor', metadata: anchorMetadata(leaves) }
  const head = await recordForInstallation(services, sql, systemCaller(services), [...notes, anchor])
  await replaceAnchoredHeads(sql, { changed, removed })
  return head
}

async function clearHeads(sql: Transaction): Promise<AnchoredHead[]> {
  await lockHead(sql, INSTALLATION_ID) // anchors take turns
  await clearAnchoredHeads(sql)
  return []
}

/** Locks the installation's head against other anchors; an unproven anchor is an alarm. @throws ChainAlarmError */
export async function lockAnchored(
  { committer, installationKey }: Pick<Services, 'committer' | 'installationKey'>,
  sql: Transaction,
): Promise<AnchoredHead[]> {
  try {
    await lockHead(sql, INSTALLATION_ID)
    return (await readAnchorIn(sql, installationKey))?.heads ?? []
  } catch (error) {
    if (!(error instanceof AnchorFault)) throw error
    const own = watchesOf(committer).get(INSTALLATION_ID)
    await own.raise(sql, error.message)
    throw new ChainAlarmError(`no anchor is written: ${error.message}. ${RECOVERY_PAGE}`)
  }
}

// Leaves little to read while the installation's head is locked. The transaction itself reports faults.
async function followChanged(services: Services, ms: number): Promise<void> {
  const { sql, committer, storeKeys, installationKey } = services
  const until = performance.now() + ms
  const heads = (await listCurrentHeads(sql)).filter(({ tenant_id, is_changed }) => {
    const { held, alarm } = watchesOf(committer).get(tenant_id)
    return is_changed && held.all.length > 0 && !alarm
  })
  for (let at = 0; at < heads.length && performance.now() < until; at += LATER_AT_ONCE) {
    const some = heads.slice(at, at + LATER_AT_ONCE).map(({ is_changed: _, last_entry: __, ...head }) => head)
    const unreached = await followHeads(sql, some, {
      watches: watchesOf(committer),
      installationKey,
      openKey: (row) => openAuditKey(storeKeys, row),
    })
    for (const { watch, head } of unreached) {
      try {
        const auditKey = openAuditKey(storeKeys, head as CurrentHead)
        await untilFollowed(async () => (performance.now() < until ? watch.read(sql, auditKey) : undefined))
      } catch (error) {
        faultOf(head.tenant_id, error)
      }
    }
  }
}

/** If so, nothing needs to be read. */
function isEnd([only, ...others]: readonly Witness[], head: Head): boolean {
  return only !== undefined && others.length === 0 && isSame(only, head) && only.policy_version === head.policy_version
}

// The heads that the anchor newly covers, and why others stay as before; complete only if no tenant may stay.
async function judgeHeads(
  services: Services,
  sql: Transaction,
  anchored: ReadonlyMap<string, AnchoredHead>,
  { accepted, mayLeave }: { accepted: ReadonlySet<string> | undefined; mayLeave: boolean },
): Promise<{ changed: Head[]; left: Map<string, string> }> {
  // Read before the heads, which may lack entries that are committed meanwhile.
  const watches = watchesOf(services.committer)
  const known = new Map(
    [...watches.all()].map(({ tenant_id, witnessed, held: { all } }) => [tenant_id, { witnessed, held: all }]),
  )
  const alarmed = new Set(watches.alarmed().map(({ tenant_id }) => tenant_id))
  const listed = await listCurrentHeads(sql)
  const left = new Map<string, string>()
  const judged: Judged[] = []
  for (const head of listed) {
    const { witnessed, held = [] } = known.get(head.tenant_id) ?? {}
    const found = anchored.get(head.tenant_id)
    const isExplained = mayLeave || found?.is_contradicted || alarmed.has(head.tenant_id)
    const fault = isExplained ? undefined : findBehind(head, witnessed?.last_id)
    if (fault !== undefined) left.set(head.tenant_id, fault)
    else if (head.is_changed) {
      judged.push({ head, anchored: found, held, isAccepted: accepted?.has(head.tenant_id) === true })
    }
  }
  const changed: Head[] = []
  for (const { tenant_id, proven } of await proveHeads(services, sql, judged)) {
    if (typeof proven === 'string') left.set(tenant_id, proven)
    else changed.push(proven)
  }
  if (mayLeave) return { changed, left }
  for (const tenant_id of await findUnlisted(sql, [...anchored.keys()], listed))
    left.set(tenant_id, `tenant ${tenant_id} or its head is missing`)
  for (const { tenant_id, alarm } of watches.alarmed()) {
    if (tenant_id !== INSTALLATION_ID)
      left.set(tenant_id, `there is an alarm about tenant ${tenant_id}: ${alarm?.reason}`)
  }
  return { changed, left }
}

function reportLeft(left: ReadonlyMap<string, string>, onLeft: AnchorOptions['onLeft']): void {
  for (const [tenant_id, what] of left) {
    if (!onLeft) throw new ChainAlarmError(`no anchor is written: ${what}. ${RECOVERY_PAGE}`)
    onLeft(tenant_id, what)
  }
}

// An attacker may restore an older head for the moment of writing the anchor.
function findBehind({ tenant_id, last_id, last_entry }: CurrentHead, witnessed = 0): string | undefined {
  const known = Math.max(last_entry, witnessed)
  if (last_id >= known) return undefined
  return `the head of tenant ${tenant_id} is of entry ${last_id}, and entry ${known} was written`
}

// Tenants without a head that should have one according to the anchored heads, the installation's log or their rows.
async function findUnlisted(
  sql: Transaction,
  anchored: readonly string[],
  listed: readonly CurrentHead[],
): Promise<string[]> {
  const { present } = await readRecordedTenants(sql)
  const expected = new Set([...anchored, ...present.keys(), ...(await listTenantIds(sql))])
  for (const { tenant_id } of listed) expected.delete(tenant_id)
  return [...expected]
}

interface Judged {
  head: CurrentHead
  anchored: AnchoredHead | undefined
  held: readonly Witness[] // the heads that this process knew before the head was read
  isAccepted: boolean // its rollback is being accepted
}

// The head to cover, or why it cannot be: a stored hash proves nothing, so each log is followed to exactly that head.
async function proveHeads(
  services: Services,
  sql: Transaction,
  judged: readonly Judged[],
): Promise<{ tenant_id: string; proven: Head | string }[]> {
  const answers: { tenant_id: string; proven: Head | string }[] = []
  const open: (Judged & { auditKey: AuditKey; all: Witness[] })[] = []
  for (const each of judged) {
    const { tenant_id } = each.head
    const found = openHead(services, each)
    if (typeof found === 'string') answers.push({ tenant_id, proven: found })
    else if (found.all.length === 0 || isEnd(found.all, each.head)) answers.push({ tenant_id, proven: each.head })
    else open.push({ ...each, ...found })
  }
  for (let at = 0; at < open.length; at += LATER_AT_ONCE) {
    const some = open.slice(at, at + LATER_AT_ONCE)
    const later = some.map(({ head, all }) => ({ head, point: earliestOf(all) as Witness }))
    const read = await readLater(sql, later)
    for (const each of some) {
      const { head, all, auditKey } = each
      const followed = followAll(all, { head, stretch: read.get(head.tenant_id) ?? [], auditKey })
      const isProven = followed?.reached === head
      answers.push({ tenant_id: head.tenant_id, proven: isProven ? head : await readProven(services, sql, each) })
    }
  }
  return answers
}

// The audit key and the heads from which the log must continue, or why its head can't be covered.
function openHead(
  { committer, storeKeys }: Services,
  { head, anchored, held, isAccepted }: Judged,
): { auditKey: AuditKey; all: Witness[] } | string {
  const { tenant_id } = head
  const watch = watchesOf(committer).get(tenant_id)
  try {
    watch.assertNoAlarm()
    const auditKey = openAuditKey(storeKeys, head)
    if (!isHeadAuthentic(auditKey, head)) return `the head of tenant ${tenant_id} was not written by a server`
    if (isAccepted) return { auditKey, all: [] }
    if (anchored && !isKeptHeadAuthentic(auditKey, tenant_id, anchored)) {
      const policy_version = Math.max(watch.held.current?.policy_version ?? 0, head.policy_version)
      const { fault: reason, witness } = changedAnchored(anchored, policy_version)
      watch.learn({ reason, witness })
      watch.assertNoAlarm()
    }
    if (!anchored || held.some((witness) => isSame(witness, anchored))) return { auditKey, all: [...held] }
    watch.held.rememberAnchored(anchored, { isContradicted: anchored.is_contradicted })
    // If this process has seen a later head, `rememberAnchored` has added nothing.
    const isNeeded = watch.held.all.some((witness) => isSame(witness, anchored))
    return { auditKey, all: isNeeded ? [...held, anchored] : [...held] }
  } catch (error) {
    // A tenant that no anchor covers yet would later be taken for one that was put back.
    if (error instanceof UnknownStoreKeyError && !anchored) throw error
    return faultOf(tenant_id, error)
  }
}

// Raises the alarm, unless a purge, an accepted rollback or growth of the log explains the difference.
async function readProven(
  { committer }: Services,
  sql: Transaction,
  { head: { tenant_id }, auditKey }: { head: CurrentHead; auditKey: AuditKey },
): Promise<Head | string> {
  try {
    return await watchesOf(committer).get(tenant_id).read(sql, auditKey)
  } catch (error) {
    return faultOf(tenant_id, error)
  }
}

/** @throws any error that is not about this tenant alone */
function faultOf(tenant_id: string, error: unknown): string {
  const isOfTenant = isUnopened(error) || error instanceof ChainAlarmError || error instanceof UnfollowedLogError
  if (!isOfTenant) throw error
  return `tenant ${tenant_id}: ${error.message}`
}

/** Writes anchors: entries of the installation's log that cover the heads of all tenants (audit/formats/anchor.md 3). */
import { INSTALLATION_ID } from '@eaas/protocol'
import { ChainAlarmError } from '../audit/append-errors.js'
import { openAuditKey } from '../audit/audit-key.js'
import { anchorMetadata } from '../audit/formats/anchor.js'
import { type Head, isHeadAuthentic, isKeptHeadAuthentic } from '../audit/formats/chain.js'
import { readRecordedTenants } from '../audit/recorded-tenants.js'
import { readAnchorHeads } from '../audit/watch/newest-anchor.js'
import { RECOVERY_PAGE } from '../recovery-page.js'
import {
  type AnchoredHead,
  type CurrentHead,
  clearAnchoredHeads,
  listCurrentHeads,
  replaceAnchoredHeads,
} from '../store/anchors.js'
import { lockHead } from '../store/audit.js'
import type { Transaction } from '../store/db.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { listTenantIds } from '../store/tenants.js'
import { recordForInstallation } from './installation-log.js'
import type { EntryNote, Services } from './operation.js'
import { systemCaller } from './perform.js'

export interface AnchorOptions {
  /** entries to write before the anchor */
  notes?: readonly EntryNote[]
  /** a tenant whose loss was accepted: it is no longer covered */
  without?: string
  /** a tenant whose rollback is being accepted, whatever was anchored of it */
  accepted?: string
  /** write an anchor even if every head is covered already */
  evenIfSame?: boolean
  /** cover what the database has now, whatever was anchored: after a rollback of the installation's own log was accepted */
  afresh?: boolean
  /** whether tenants may stay covered as they were: while a loss is accepted, beside which others may have to be */
  mayLeave?: boolean
  /** called with a tenant that stays covered as it was, because of its head or an alarm; without it no anchor is written then */
  onLeft?: (tenant_id: string, what: string) => void
}

/**
 * Writes an anchor in a transaction of its own; false if every head is covered already. Refuses it if the head of a tenant is missing, forged,
 * or behind its entries or what this process witnessed, or if there is an alarm about the tenant: such an anchor would say less than it
 * seems to.
 *
 * @throws ChainAlarmError then too, Refusal, AuditWriteError
 */
export async function anchorNow(services: Services, options?: AnchorOptions): Promise<boolean> {
  const head = await services.sql.begin((sql) => anchorHeads(services, sql, { mayLeave: false, ...options }))
  if (head) services.committer.watches.get(INSTALLATION_ID).commit(head)
  return head !== undefined
}

/**
 * Writes an anchor over the heads that the server wrote; returns the new head of the installation's log, undefined if every head is
 * covered already. A tenant whose head is forged, missing or behind what was anchored stays covered as it was, so that an anchor never
 * hides what an earlier one shows.
 *
 * @throws AnchorFault if the anchored heads are not those of the newest anchor, ChainAlarmError, AuditWriteError
 */
export async function anchorHeads(
  services: Services,
  sql: Transaction,
  { notes = [], without, accepted, evenIfSame = false, afresh = false, mayLeave = true, onLeft }: AnchorOptions = {},
): Promise<Head | undefined> {
  await lockHead(sql, INSTALLATION_ID) // anchors take turns
  if (afresh) await clearAnchoredHeads(sql)
  // Proven here too, although each server compares before it anchors: heads that somebody edits in between must not be covered.
  const before = afresh ? [] : await readAnchorHeads(sql, services.installationKey)
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

// The heads that the anchor covers newly, and by tenant what is wrong with those that it leaves as they were: all of them only where none
// may be left.
async function judgeHeads(
  services: Services,
  sql: Transaction,
  anchored: ReadonlyMap<string, AnchoredHead>,
  { accepted, mayLeave }: { accepted: string | undefined; mayLeave: boolean },
): Promise<{ changed: Head[]; left: Map<string, string> }> {
  // Taken before the heads are read, which need not show what is committed meanwhile.
  const { watches } = services.committer
  const witnessed = new Map([...watches.all()].map((watch) => [watch.tenant_id, watch.witnessed?.last_id ?? 0]))
  const alarmed = new Set(watches.alarmed().map(({ tenant_id }) => tenant_id))
  const listed = await listCurrentHeads(sql)
  const changed: Head[] = []
  const left = new Map<string, string>()
  for (const head of listed) {
    const found = { head, anchored: anchored.get(head.tenant_id), isAccepted: head.tenant_id === accepted }
    const isExplained = mayLeave || found.anchored?.is_contradicted || alarmed.has(head.tenant_id)
    const fault =
      (isExplained ? undefined : findBehind(head, witnessed.get(head.tenant_id))) ??
      (head.is_changed ? await findObstacle(services, sql, found) : undefined)
    if (fault !== undefined) left.set(head.tenant_id, fault)
    else if (head.is_changed) changed.push(head)
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

// Somebody may put an older head back for the moment in which the anchor is written.
function findBehind({ tenant_id, last_id, last_entry }: CurrentHead, witnessed = 0): string | undefined {
  const known = Math.max(last_entry, witnessed)
  if (last_id >= known) return undefined
  return `the head of tenant ${tenant_id} is of entry ${last_id}, and entry ${known} was written`
}

// The tenants that should have a head, by what is anchored, by the installation's log or by their own rows, and have none.
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

// Why a head that changed can't be covered.
async function findObstacle(
  { committer, rootKey }: Services,
  sql: Transaction,
  { head, anchored, isAccepted }: { head: CurrentHead; anchored: AnchoredHead | undefined; isAccepted: boolean },
): Promise<string | undefined> {
  const { tenant_id } = head
  const watch = committer.watches.get(tenant_id)
  const forged = `the head of tenant ${tenant_id} was not written by a server`
  try {
    watch.assertNoAlarm()
    const auditKey = openAuditKey(rootKey, head)
    if (!anchored?.is_contradicted || isAccepted) return isHeadAuthentic(auditKey, head) ? undefined : forged
    if (!isKeptHeadAuthentic(auditKey, tenant_id, anchored)) return `the anchored ${forged.slice('the '.length)}`
    watch.remember(anchored)
    await watch.read(sql, auditKey) // an accepted rollback or a purge explains it
    return undefined
  } catch (error) {
    if (!(error instanceof ChainAlarmError || error instanceof TamperedRowError)) throw error
    return `tenant ${tenant_id}: ${error.message}`
  }
}

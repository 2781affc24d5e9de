// Compares logs with their points even without calls, and follows them to other processes' heads. Tenants take turns.
import { ChainAlarmError, TenantGoneError, UnfollowedLogError } from '../../core/audit/append-errors.js'
import { isUnopened } from '../../core/audit/audit-key.js'
import type { AuditKey, KeptHead } from '../../core/audit/formats/chain.js'
import { findHead } from '../../core/store/audit.js'
import { isPartUnreachable, type Queryable, type Sql } from '../../core/store/db.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { compareWitnesses } from '../store/alarms.js'
import { type HeadWithKey, listHeadsWithKeys, listTenantsWithHeads } from '../store/anchors.js'
import { followHeads, type KeysOfHeads, LATER_AT_ONCE } from './follow.js'
import type { HeadWatch, HeadWatches } from './head-watch.js'

const COMPARED_AT_ONCE = LATER_AT_ONCE // the tenants whose points one run compares
/** In milliseconds, how long one run follows logs that need more than one statement; the next run continues. */
const FOLLOW_MS = 1_000
const APART_MS = 5_000 // in milliseconds, how long one run compares logs one by one
const FIRST_ID = '00000000-0000-0000-0000-000000000000' // sorts before every tenant's id and the installation's

export const KEY_CHANGED = 'the audit key of the tenant was changed outside the server'

export interface LogComparisonOptions extends KeysOfHeads {
  sql: Sql
  watches: HeadWatches
  findAuditKey: (tenant_id: string) => Promise<AuditKey | undefined> // undefined if there is no such tenant
}

/** What one run compared. It may begin a round over all tenants, and it may end one. */
interface Portion {
  begins: boolean
  ends: boolean
  isReached: boolean // whether any log could be compared, or listed if this process has seen none
  /** whether each log of the portion could be compared; those that failed together were tried one by one */
  isWhole: boolean
}

/** Called with an error of the database, or with one of a single tenant, after which the others continue. */
type OnError = { unread: (error: unknown) => undefined; ofTenant: (tenant_id: string) => (error: unknown) => undefined }

/** One per process. With `findsUnseen`, a server also compares the heads of tenants that it has not served. */
export function createLogComparison({
  sql,
  watches,
  findAuditKey,
  ...keys
}: LogComparisonOptions): (onError: OnError, options: { findsUnseen: boolean }) => Promise<Portion> {
  const nextPoints = createPortions(watches)
  let searchedThrough = FIRST_ID

  async function listUnseen(): Promise<HeadWithKey[]> {
    const page = await listTenantsWithHeads(sql, searchedThrough, COMPARED_AT_ONCE)
    searchedThrough = page.length < COMPARED_AT_ONCE ? FIRST_ID : (page.at(-1) ?? FIRST_ID)
    const unseen = page.filter((tenant_id) => {
      const { held, alarm } = watches.get(tenant_id)
      return held.all.length === 0 && !alarm && watches.comparisons.unreachedAt(tenant_id) === undefined
    })
    return unseen.length > 0 ? listHeadsWithKeys(sql, unseen) : []
  }

  async function examine(watch: HeadWatch): Promise<void> {
    if (watch.alarm) return
    const auditKey = await findAuditKey(watch.tenant_id).catch(unlessTampered)
    if (auditKey === 'tampered') await watch.raise(sql, KEY_CHANGED)
    else if (auditKey) await compareLog(sql, watch, auditKey)
  }

  // One by one, so that an unreachable part of the database stops only its own tenants. The most recently tried come
  // last; a log without a turn counts as not compared.
  async function compareApart(
    tenant_ids: Iterable<string>,
    ofTenant: OnError['ofTenant'],
  ): Promise<Pick<Portion, 'isReached' | 'isWhole'>> {
    const { comparisons } = watches
    const until = performance.now() + APART_MS
    const triedAt = (tenant_id: string) => comparisons.unreachedAt(tenant_id) ?? -1
    let [isReached, isWhole] = [false, true]
    for (const tenant_id of [...new Set(tenant_ids)].sort((a, b) => triedAt(a) - triedAt(b))) {
      if (performance.now() >= until) {
        comparisons.failedOf(tenant_id, { isTried: false })
        isWhole = false
        continue
      }
      try {
        await examine(watches.get(tenant_id))
        comparisons.reached([tenant_id])
        isReached = true
      } catch (error) {
        if (isUnopened(error)) ofTenant(tenant_id)(error)
        else {
          comparisons.failedOf(tenant_id) // the error of the common statement is logged
          isWhole = false
        }
      }
    }
    return { isReached, isWhole }
  }

  return async ({ unread, ofTenant }, { findsUnseen }) => {
    const { points, ...round } = nextPoints()
    const { comparisons } = watches
    // Logs that failed before are tried after the others, so that one statement can read the others.
    const apart = new Set(comparisons.unreached)
    const together = points.filter(({ tenant_id }) => !apart.has(tenant_id))
    let isReached = together.length > 0
    const compared = await (isReached ? compareWitnesses(sql, together) : Promise.resolve([])).catch(
      (error: unknown) => {
        unread(error)
        isReached = false
        if (isPartUnreachable(error)) for (const { tenant_id } of together) apart.add(tenant_id)
        return undefined
      },
    )
    const tried = await compareApart(apart, ofTenant)
    if (tried.isReached) isReached = true
    const contradicted = new Set(compared?.flatMap((each) => (each.is_contradicted ? [each.tenant_id] : [])))
    for (const tenant_id of contradicted) await examine(watches.get(tenant_id)).catch(ofTenant(tenant_id))
    const later = new Map(
      compared?.map(({ tenant_id, head }) => [tenant_id, contradicted.has(tenant_id) ? undefined : head]),
    )
    const unseen = findsUnseen ? await listUnseen().catch(unread) : []
    if (points.length === 0) isReached = unseen !== undefined
    const heads = [...later.values(), ...(unseen ?? [])].filter((head) => head !== undefined)
    // From now on, these logs must not go back behind these heads.
    const unreached = await followHeads(sql, heads, { watches, ...keys }).catch(unread)
    const until = performance.now() + FOLLOW_MS
    for (const { watch, isBroken } of unreached ?? [])
      if (isBroken || performance.now() < until) await examine(watch).catch(ofTenant(watch.tenant_id))
    return { ...round, isReached, isWhole: tried.isWhole }
  }
}

/** Includes tenants with an alarm, since a process that does not know of it may still write their logs. */
export function createPortions(watches: {
  all(): Iterable<{ tenant_id: string; held: { all: readonly KeptHead[] } }>
}): () => Pick<Portion, 'begins' | 'ends'> & { points: (KeptHead & { tenant_id: string })[] } {
  let next = 0
  return () => {
    const all = [...watches.all()]
    if (next >= all.length) next = 0
    const from = next
    next += COMPARED_AT_ONCE
    const points = all
      .slice(from, next)
      .flatMap(({ tenant_id, held }) => held.all.map((point) => ({ tenant_id, ...point })))
    return { points, begins: from === 0, ends: next >= all.length }
  }
}

/** Follows the log as far as one reading leads; the next run continues. */
export async function compareLog(sql: Queryable, watch: HeadWatch, auditKey: AuditKey): Promise<void> {
  await watch.read(sql, auditKey, findHead, { isEntryRead: true }).catch((error: unknown) => {
    if (error instanceof TenantGoneError) return
    if (!(error instanceof ChainAlarmError || error instanceof UnfollowedLogError)) throw error
  })
}

/** For an audit key that was exchanged, with which nothing about the tenant can be checked. */
export function unlessTampered(error: unknown): 'tampered' {
  if (!(error instanceof TamperedRowError)) throw error
  return 'tampered'
}

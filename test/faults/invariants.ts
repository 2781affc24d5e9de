// Checks the ledger against the database after a load, whatever was killed meanwhile: the invariants I1 to I6.
import type postgres from 'postgres'
import { checkTenant } from '../independent/checker.js'
import { type Entry, entriesOf, openKeks, openLogKeys, opens } from '../independent/stored.js'
import { callsOf, type LedgerEntry, type Load } from '../support/service/load.js'

/** Wraps that are opened by the server at a time. */
const AT_ONCE = 16

export interface Findings {
  /** one sentence for each violation; empty if every invariant holds */
  violations: string[]
  entries: number
  /** entries of calls that were never answered */
  unacknowledged: number
}

/**
 * I1: every acknowledged call is logged; I2: apart from those, only calls that were under way at a kill are logged; I3: the
 * chain verifies with the server and without it; I4: ids have no gap and no duplicate; I5: every acknowledged wrap opens;
 * I6: no row is half written.
 */
export async function checkInvariants(
  sql: postgres.Sql,
  {
    tenant_id,
    rootKey,
    load,
    url,
    secret,
    mostUnacknowledged,
  }: {
    tenant_id: string
    /** base64 */
    rootKey: string
    load: Load
    url: string
    secret: string
    /** the most calls that can have been under way at the kills */
    mostUnacknowledged: number
  },
): Promise<Findings> {
  const violations: string[] = load.surprises.map((surprise) => `surprise: ${surprise}`)
  const root = Buffer.from(rootKey, 'base64')
  const keys = await openLogKeys(sql, root, tenant_id)

  // I3, I4 by the ids of the chain, I6
  const { verdict, faults } = await checkTenant(sql, { tenant_id, ...keys })
  if (!verdict.valid) violations.push(`I3: the independent checker: ${JSON.stringify(verdict)}`)
  const call = callsOf(secret)
  const { status, body } = await call(url, 'GET', '/v1/audit/verify')
  if (status !== 200 || body.valid !== true || body.verified_entries !== verdict.verified_entries) {
    violations.push(`I3: the server's verification: ${status} ${JSON.stringify(body)}`)
  }
  violations.push(...faults.map((fault) => `I6: ${fault}`))
  const [ids] = await sql`
    select count(*)::int as entries, count(distinct id)::int as distinct, coalesce(max(id), 0)::int as last
    from audit_log where tenant_id = ${tenant_id}`
  if (ids?.entries !== ids?.last || ids?.distinct !== ids?.last) violations.push(`I4: ids: ${JSON.stringify(ids)}`)

  // I1, I2
  const logged = new Map<string, Entry[]>()
  for await (const entry of entriesOf(sql, tenant_id)) {
    const log = logged.get(entry.actor)
    if (log) log.push(entry)
    else logged.set(entry.actor, [entry])
  }
  let unacknowledged = 0
  for (const [actor, ledger] of load.ledgers) {
    const log = logged.get(actor) ?? []
    const acked = ledger.filter(({ state, action }) => state === 'acked' && action !== undefined).length
    unacknowledged += log.length - acked
    const mismatch = findMismatch(ledger, log)
    if (mismatch !== undefined) violations.push(`I1/I2: the log of ${actor}: ${mismatch}`)
  }
  if (unacknowledged > mostUnacknowledged) {
    violations.push(
      `I2: ${unacknowledged} entries of calls that were not answered, at most ${mostUnacknowledged} could be`,
    )
  }

  // I5
  const keks = await openKeks(sql, root, tenant_id)
  for (const { key_id, wrapped_key, dek } of load.wraps) {
    if (opens(wrapped_key, { keks, tenant_id, key_id }) !== dek) violations.push(`I5: ${wrapped_key} does not open`)
  }
  violations.push(...(await unwrapAll(load, url, secret)))
  return { violations: summed(violations), entries: verdict.verified_entries, unacknowledged }
}

/**
 * Compares a client's part of the log with its ledger, call by call in order: the log must have each acknowledged call, may have
 * each unanswered one, and has nothing else. Returns undefined if they match.
 */
function findMismatch(ledger: readonly LedgerEntry[], log: readonly Entry[]): string | undefined {
  // The possible numbers of entries matched so far: several after unanswered calls that look alike.
  let possible = new Set([0])
  for (const [at, call] of ledger.entries()) {
    if (call.action === undefined || call.state === 'unsent') continue
    const next = new Set(call.state === 'sent' ? possible : [])
    for (const count of possible) if (isOf(log[count], call)) next.add(count + 1)
    if (next.size === 0) {
      const entry = log[Math.max(...possible)]
      return `call ${at} (${JSON.stringify(call)}) was acknowledged, there stands ${entry ? `entry ${entry.id} (${entry.action})` : 'nothing'}`
    }
    possible = next
  }
  if (possible.has(log.length)) return undefined
  const extra = log[Math.max(...possible)]
  return `entry ${extra?.id} (${extra?.action}) is of no call that was sent`
}

function isOf(entry: Entry | undefined, call: LedgerEntry): boolean {
  return (
    entry !== undefined &&
    entry.action === call.action &&
    (call.key_id === undefined || entry.key_id === call.key_id) &&
    (call.key_version === undefined || entry.key_version === call.key_version)
  )
}

async function unwrapAll({ wraps }: Load, url: string, secret: string): Promise<string[]> {
  const violations: string[] = []
  const left = wraps.values()
  const worker = async () => {
    const call = callsOf(secret)
    for (const { key_id, wrapped_key, dek } of left) {
      const { status, body } = await call(url, 'POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
      if (body?.dek !== dek) violations.push(`I5: the server unwraps ${wrapped_key} to ${status}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return violations
}

/** Keeps the first violations of thousands that a failed run can have. */
function summed(violations: string[]): string[] {
  const shown = 20
  if (violations.length <= shown) return violations
  return [...violations.slice(0, shown), `and ${violations.length - shown} more`]
}

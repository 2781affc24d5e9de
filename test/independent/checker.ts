// An independent check of everything that tables hold of a tenant: the log by the verifier beside it, the counts, and whether the log,
// read as a history, leads to the rows. It imports nothing of the project: what it and the server both accept, two programs accept.
import type postgres from 'postgres'
import { type Entry, milliseconds, type Queryable, time } from './stored.js'
import { type Finding, type Question, verifyIndependently } from './verifier.js'

export interface Report {
  verdict: Finding
  /** what is wrong beside the verdict, each a sentence; empty when all is well, and for a log that is not valid */
  faults: string[]
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000'
/** The actions that change a key, an API key or the tenant, and so raise the policy version (chain.md 6). */
const CHANGES =
  /^(?:key\.(?:create|rotate|update|enable|disable|destroy|rotation_policy|restate)|api_key\..*|tenant\..*|audit\.(?:purge|key_renew))$/
/** The status that an action, or a step of a destruction, leaves a key in. */
const STATUS = new Map([
  ['key.disable', 'disabled'],
  ['key.enable', 'active'],
  ['key.destroy scheduled', 'pending_destruction'],
  ['key.destroy cancelled', 'disabled'],
  ['key.destroy completed', 'destroyed'],
])

/** Checks everything of a tenant in one snapshot of the database. */
export async function checkTenant(sql: postgres.Sql, question: Question): Promise<Report> {
  const { tenant_id } = question
  const report = await sql.begin('isolation level repeatable read read only', async (snapshot) => {
    const history = new History()
    const verdict = await verifyIndependently(snapshot, { ...question, onEntry: (entry) => history.read(entry) })
    if (!verdict.valid) return { verdict, faults: [] }
    const counts = await checkCounts(snapshot, tenant_id, verdict)
    // After a purge the log tells of a part only: what it leads to is not known.
    if (verdict.purged_through > 0) return { verdict, faults: counts }
    return { verdict, faults: [...counts, ...history.faults, ...(await checkRows(snapshot, tenant_id, history))] }
  })
  return report as Report
}

/** Compares the counters of all API keys with the log that they sum up, less what a purge took. */
async function checkCounts(sql: Queryable, tenant_id: string, { purged_through }: Finding): Promise<string[]> {
  const wrong = await sql`
    with logged as (
      select (created_at at time zone 'UTC')::date as day, action, coalesce(key_id, ${NIL_UUID}::uuid) as key_id,
             coalesce(key_version, 0) as key_version, count(*) as entries
      from audit_log where tenant_id = ${tenant_id} and id > ${purged_through} group by 1, 2, 3, 4
    ), counted as (
      select day, action, key_id, key_version, sum(entries - purged) as entries from audit_counts
      where tenant_id = ${tenant_id} group by 1, 2, 3, 4 having sum(entries) <> sum(purged)
    )
    select day::text, action, key_id::text, key_version, logged.entries::text as logged, counted.entries::text as counted
    from logged full join counted using (day, action, key_id, key_version)
    where logged.entries is distinct from counted.entries`
  return wrong.map(
    ({ day, action, key_id, key_version, logged, counted }) =>
      `audit_counts: ${action} of key ${key_id}, version ${key_version}, on ${day} is ${counted}, the log has ${logged}`,
  )
}

interface KeyHistory {
  name: string
  status: string
  created_at: string
  updated_at: string
  /** the oldest version that opens */
  min_unwrap_version: number
  /** the newest version that was destroyed alone */
  destroyed_through: number
  /** when each version was made, at version - 1 */
  versions: string[]
}

interface ApiKeyHistory {
  name: string
  created_at: string
  revoked_at: string | null
}

/** What the entries of a whole log, which the verifier accepts, tell of the rows. */
class History {
  readonly faults: string[] = []
  readonly keys = new Map<string, KeyHistory>()
  readonly apiKeys = new Map<string, ApiKeyHistory>()
  /** The tenant's first API key comes with policy version 1; every change after it adds one. */
  policyVersion = 0
  lastTime = ''

  read(entry: Entry): void {
    const { id, action, actor, key_id, created_at, metadata } = entry
    const told = JSON.parse(metadata ?? '{}')
    if (!/^(?:system$|operator:)/.test(actor) && !this.apiKeys.has(actor)) {
      this.faults.push(`entry ${id} (${action}): its actor ${actor} was never created`)
    }
    this.lastTime = created_at
    if (CHANGES.test(action)) this.policyVersion += 1
    if (action === 'audit.rollback_accepted') this.#readAcceptedRollback(id, told.policy_version)
    if (action.startsWith('api_key.')) this.#readApiKey(entry, told)
    else if (key_id !== null) this.#readKey(entry, key_id, told)
  }

  /** chain.md 10: the policy version goes to the next multiple of 2^32, or to a later one where a later one was witnessed. */
  #readAcceptedRollback(id: number, accepted?: number): void {
    if (accepted === undefined || accepted <= this.policyVersion || accepted % 2 ** 32 !== 0) {
      this.faults.push(`entry ${id}: the policy version cannot go from ${this.policyVersion} to ${accepted}`)
    } else this.policyVersion = accepted
  }

  #readApiKey({ action, created_at }: Entry, { api_key_id, name }: { api_key_id: string; name?: string }): void {
    const before = this.apiKeys.get(api_key_id) ?? { name: '', created_at, revoked_at: null }
    const revoked_at = action === 'api_key.revoke' ? created_at : before.revoked_at
    this.apiKeys.set(api_key_id, { ...before, name: name ?? before.name, revoked_at })
  }

  #readKey({ action, created_at }: Entry, key_id: string, told: Record<string, number | string>): void {
    if (action === 'key.create') {
      const start = { status: 'active', min_unwrap_version: 1, destroyed_through: 0, versions: [created_at] }
      this.keys.set(key_id, { ...start, name: String(told.name), created_at, updated_at: created_at })
    }
    const key = this.keys.get(key_id)
    if (!key || !CHANGES.test(action)) return
    key.updated_at = created_at
    if (action === 'key.rotate') key.versions.push(created_at)
    if (action === 'key.update') key.min_unwrap_version = Number(told.min_unwrap_version)
    if (told.step === 'version') key.destroyed_through = Number(told.version)
    key.status = STATUS.get(action === 'key.destroy' ? `${action} ${told.step}` : action) ?? key.status
  }
}

/** Compares the rows with what the history of the log leads to. The verifier has checked their MACs, and that they are as many. */
async function checkRows(sql: Queryable, tenant_id: string, history: History): Promise<string[]> {
  const faults: string[] = []
  const compare = (row: string, stored: Record<string, unknown> | undefined, told: Record<string, unknown>) => {
    for (const [column, value] of Object.entries(told)) {
      if (stored?.[column] !== value) faults.push(`${row}: ${column} is ${stored?.[column]}, by the log ${value}`)
    }
  }

  const [head] = await sql`
    select policy_version::text, ${time(sql, 'created_at')} from heads where tenant_id = ${tenant_id}`
  const { policyVersion, lastTime } = history
  compare('heads', inMilliseconds(head), { policy_version: `${policyVersion}`, created_at: lastTime })

  const keys = await sql`
    select key_id::text, name, status, current_version, min_unwrap_version, destroyed_through,
           wrapped_hash_key is not null as has_hash_key, ${time(sql, 'created_at')}, ${time(sql, 'updated_at')}
    from keys where tenant_id = ${tenant_id}`
  const versions = await sql`
    select key_id::text, version, wrapped_kek is not null as has_kek, ${time(sql, 'created_at')}
    from key_versions where tenant_id = ${tenant_id}`
  const rows = new Map(keys.map((row) => [row.key_id, row]))
  const versionRows = new Map(versions.map((row) => [`${row.key_id} ${row.version}`, row]))
  for (const [key_id, { versions: made, ...told }] of history.keys) {
    const isDestroyed = told.status === 'destroyed'
    const key = { ...told, current_version: made.length, has_hash_key: !isDestroyed }
    compare(`keys ${key_id}`, inMilliseconds(rows.get(key_id)), key)
    for (const [at, created_at] of made.entries()) {
      const name = `${key_id} ${at + 1}`
      const version = { created_at, has_kek: !isDestroyed && at >= told.destroyed_through }
      compare(`key_versions ${name}`, inMilliseconds(versionRows.get(name)), version)
    }
  }

  const apiKeys = await sql`
    select api_key_id::text, name, ${time(sql, 'revoked_at')}, ${time(sql, 'created_at')}
    from api_keys where tenant_id = ${tenant_id}`
  const apiKeyRows = new Map(apiKeys.map((row) => [row.api_key_id, row]))
  for (const [id, told] of history.apiKeys) compare(`api_keys ${id}`, inMilliseconds(apiKeyRows.get(id)), { ...told })
  return faults
}

/** A row whose columns of times are as entries have them. */
function inMilliseconds(row: postgres.Row | undefined): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row ?? {}).map(([name, value]) => [
      name,
      name.endsWith('_at') && value !== null ? milliseconds(value) : value,
    ]),
  )
}

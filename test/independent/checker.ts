// An independent checker of a tenant's stored state, written from chain.md, row-mac.md, key-hierarchy.md and
// wrapped-key.md alone. It imports nothing of the project: what it and the server both accept, two programs accept.
import { createDecipheriv, createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type postgres from 'postgres'

export type Queryable = postgres.Sql | postgres.TransactionSql

/** Whether the chain is as the server wrote it; `broken_at` is the first entry that is missing or not as it was written. */
export interface Verdict {
  valid: boolean
  broken_at?: number
  reason?: string
  /** entries that were read and found good */
  entries: number
  /** the last entry that a purge took; 0 where none did */
  purged_through: number
}

/** An entry as it stands in the table, times as RFC 3339 text, bytes as they are. */
export interface Entry {
  tenant_id: string
  id: number
  action: string
  key_id: string | null
  key_version: number | null
  actor: string
  ip_address: string | null
  metadata: string | null
  created_at: string
  hash: Buffer
  mac: Buffer
}

export interface Report {
  verdict: Verdict
  /** what is wrong beside the chain, each a sentence; empty when all is well, and for a chain that proves nothing */
  faults: string[]
}

const PAGE = 2_000
const NIL_UUID = '00000000-0000-0000-0000-000000000000'
/** The actions that change a key, an API key or the tenant, and so raise the policy version (chain.md 6). */
const CHANGES =
  /^(?:key\.(?:create|rotate|update|enable|disable|destroy|rotation_policy|restate)|api_key\..*|tenant\..*|audit\.(?:purge|key_renew))$/

/** A key that a log had before, and the last id that it holds for (chain.md 14). */
export interface FormerKey {
  through: number
  key: Buffer
}

/** The key of a log, and those before it, the earliest first. */
export interface LogKeys {
  auditKey: Buffer
  former?: readonly FormerKey[]
}

/** The key of an entry. */
export function keyAt({ auditKey, former = [] }: LogKeys, id: number): Buffer {
  return former.find(({ through }) => id <= through)?.key ?? auditKey
}

/**
 * Checks everything of a tenant in one snapshot of the database: the chain, the counts, and, where nothing was purged, the
 * rows that grant rights, and whether the log, read as a history, leads to those rows.
 */
export async function checkTenant(
  sql: postgres.Sql,
  { tenant_id, ...keys }: { tenant_id: string } & LogKeys,
): Promise<Report> {
  const report = await sql.begin('isolation level repeatable read read only', async (snapshot) => {
    const history = new History()
    const verdict = await checkChain(snapshot, { tenant_id, ...keys, onEntry: (entry) => history.read(entry) })
    if (!verdict.valid) return { verdict, faults: [] }
    const counts = await checkCounts(snapshot, tenant_id, verdict)
    // After a purge the log tells of a part only: what it leads to is not known.
    if (verdict.purged_through > 0) return { verdict, faults: counts }
    const rows = await checkRows(snapshot, { tenant_id, auditKey: keys.auditKey, history })
    return { verdict, faults: [...counts, ...history.faults, ...rows] }
  })
  return report as Report
}

/** Checks the chain of a tenant from the first entry, or the last purge, to the head (chain.md). */
export async function checkChain(
  sql: Queryable,
  {
    tenant_id,
    existing,
    onEntry = () => undefined,
    ...keys
  }: LogKeys & {
    tenant_id: string
    /** all entries that there are, if the caller has read them with `entriesOf` */
    existing?: readonly Entry[] | undefined
    onEntry?: ((entry: Entry) => void) | undefined
  },
): Promise<Verdict> {
  const marks = await checkMarks(sql, { tenant_id, auditKey: keys.auditKey })
  if (!marks) return { valid: false, broken_at: 1, reason: 'mark_forged', entries: 0, purged_through: 0 }
  const { purged_through } = marks
  const [head] = await sql`
    select last_id::text, encode(hash, 'hex') as hash, policy_version::text, encode(mac, 'hex') as mac,
           coalesce(to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), created_at::text) as created_at
    from heads where tenant_id = ${tenant_id}`
  const lastId = Number(head?.last_id)
  const headTime = milliseconds(head?.created_at ?? '')
  const signed = ['eaas/audit/head/v1', tenant_id, lastId, head?.hash, Number(head?.policy_version), headTime]
  const isHeadGood =
    head !== undefined && same(hmac(keys.auditKey, JSON.stringify(signed)), Buffer.from(head.mac, 'hex'))

  const genesis = sha256('eaas/audit/genesis/v1', tenant_id)
  let previous = { id: purged_through, hash: marks.hash ?? genesis, created_at: '' }
  let entries = 0
  let purgedByLog = 0
  const beyond: Entry[] = []
  const fault = (reason: string, broken_at = previous.id + 1): Verdict => ({
    valid: false,
    broken_at,
    reason,
    entries,
    purged_through,
  })
  const read = existing?.filter(({ id }) => id > purged_through) ?? entriesOf(sql, tenant_id, purged_through)
  for await (const entry of read) {
    if (isHeadGood && previous.id === lastId) {
      beyond.push(entry)
      continue
    }
    const reason = findFault(entry, { tenant_id, previous, keys })
    if (reason) return fault(reason)
    if (entry.action === 'audit.purge') purgedByLog = JSON.parse(entry.metadata ?? '{}').purged_through
    onEntry(entry)
    entries += 1
    previous = entry
  }
  if (!head) return fault('head_missing')
  if (!isHeadGood) return fault('head_forged')
  if (previous.id < lastId) return fault('entry_missing')
  const isEnd = previous.hash.toString('hex') === head.hash && (entries === 0 || previous.created_at === headTime)
  if (!isEnd) return fault('head_mismatch')
  const follows = (entry: Entry, at: number) =>
    findFault(entry, { tenant_id, previous: beyond[at - 1] ?? previous, keys }) === undefined
  if (beyond.some(follows)) return fault('head_behind')
  if (beyond.length > 0) return fault('entry_beyond_head', beyond[0]?.id)
  const [first] = await sql`select min(id)::text as id from audit_log where tenant_id = ${tenant_id} and id < 1`
  if (first?.id) return { ...fault('entry_before_first'), broken_at: Number(first.id) }
  if (purgedByLog !== purged_through) return fault('mark_mismatch')
  return { valid: true, entries, purged_through }
}

/** Checks the purge marks (chain.md 8): the newest one's place and hash, or undefined where one of them is not genuine. */
async function checkMarks(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: Buffer },
): Promise<{ purged_through: number; hash?: Buffer } | undefined> {
  const marks = await sql`
    select purged_through::text, encode(hash, 'hex') as hash, entries::text, ${time(sql, 'cutoff')},
           ${time(sql, 'created_at')}, encode(previous_mac, 'hex') as previous_mac, encode(mac, 'hex') as mac
    from purge_marks where tenant_id = ${tenant_id} order by purge_marks.purged_through`
  let newest: { purged_through: number; hash?: Buffer } = { purged_through: 0 }
  let previousMac = '00'.repeat(32)
  for (const mark of marks) {
    const purged_through = Number(mark.purged_through)
    const times = [milliseconds(mark.cutoff), milliseconds(mark.created_at)]
    const signed = [tenant_id, purged_through, mark.hash, Number(mark.entries), ...times, mark.previous_mac]
    const mac = hmac(auditKey, JSON.stringify(['eaas/audit/purge-mark/v1', ...signed]))
    if (mark.previous_mac !== previousMac || !same(mac, Buffer.from(mark.mac, 'hex'))) return undefined
    newest = { purged_through, hash: Buffer.from(mark.hash, 'hex') }
    previousMac = mark.mac
  }
  return newest
}

function findFault(
  entry: Entry,
  {
    tenant_id,
    previous,
    keys,
  }: {
    tenant_id: string
    previous: { id: number; hash: Buffer; created_at: string }
    keys: LogKeys
  },
): string | undefined {
  if (entry.id !== previous.id + 1) return 'entry_missing'
  const bytes = JSON.stringify([
    'eaas/audit/entry/v1',
    tenant_id,
    entry.id,
    entry.action,
    entry.key_id,
    entry.key_version,
    entry.actor,
    entry.ip_address,
    entry.metadata,
    entry.created_at,
  ])
  const hash = sha256('eaas/audit/hash/v1', previous.hash, bytes)
  if (!same(hash, entry.hash)) return 'entry_altered'
  if (!same(hmac(keyAt(keys, entry.id), 'eaas/audit/mac/v1', hash), entry.mac)) return 'entry_forged'
  if (entry.created_at < previous.created_at) {
    const told = entry.action === 'audit.clock_accepted' ? JSON.parse(entry.metadata ?? '{}') : {}
    if (told.ahead_until !== previous.created_at) return 'time_went_back'
  }
  return undefined
}

/** The entries of a tenant after an id, in order, a page at a time. */
export async function* entriesOf(sql: Queryable, tenant_id: string, after_id = 0): AsyncGenerator<Entry> {
  let after = after_id
  for (;;) {
    // Ordered by the column: plain `id` would be the text that is selected.
    const page = await sql`
      select tenant_id::text, id::text, action, key_id::text, key_version, actor, ip_address, metadata,
             coalesce(to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), created_at::text) as created_at,
             encode(hash, 'hex') as hash, encode(mac, 'hex') as mac
      from audit_log where tenant_id = ${tenant_id} and id > ${after}
      order by audit_log.id limit ${PAGE}`
    for (const row of page) {
      after = Number(row.id)
      yield {
        tenant_id: row.tenant_id,
        id: after,
        action: row.action,
        key_id: row.key_id,
        key_version: row.key_version,
        actor: row.actor,
        ip_address: row.ip_address,
        metadata: row.metadata,
        created_at: milliseconds(row.created_at),
        hash: Buffer.from(row.hash, 'hex'),
        mac: Buffer.from(row.mac, 'hex'),
      }
    }
    if (page.length < PAGE) return
  }
}

/** Compares the counters of all API keys with the log that they sum up, less what a purge took. */
async function checkCounts(
  sql: Queryable,
  tenant_id: string,
  { purged_through }: Pick<Verdict, 'purged_through'>,
): Promise<string[]> {
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
  name: string | undefined
  status: string
  created_at: string
  /** the last entry that changed the key's row */
  written: Entry
  /** for each version the entry that made it, at version - 1 */
  versions: { made: Entry; retired: Entry | undefined }[]
  /** the oldest version that opens */
  least: number
  /** the entries that destroyed a version alone, at version - 1 */
  erased: Entry[]
  destroyed: Entry | undefined
}

interface ApiKeyHistory {
  name: string | undefined
  created: Entry
  written: Entry
  revoked: Entry | undefined
}

/**
 * The log read as a history: what each entry claims must have been allowed at its place. A wrap under a version that was
 * not the current one, or by an API key after its revocation, is a fault, however well it is chained.
 */
class History {
  readonly faults: string[] = []
  readonly keys = new Map<string, KeyHistory>()
  readonly apiKeys = new Map<string, ApiKeyHistory>()
  changes = 0
  /** the entry that wrote the tenant's row last; its first is written with the first entry */
  tenantWritten = 1
  #tenantBefore = 1

  read(entry: Entry): void {
    if (CHANGES.test(entry.action)) this.changes += 1
    if (entry.action === 'audit.rollback_accepted') this.#readAcceptedRollback(entry)
    if (entry.action === 'tenant.update') this.tenantWritten = entry.id
    this.#checkActor(entry)
    this.#checkReplaces(entry)
    if (entry.action.startsWith('api_key.')) this.#readApiKey(entry)
    else if (entry.action === 'key.create') this.#readCreate(entry)
    else if (entry.key_id !== null) this.#readUse(entry, this.keys.get(entry.key_id))
  }

  #fault(entry: Entry, what: string): void {
    this.faults.push(`entry ${entry.id} (${entry.action}): ${what}`)
  }

  /** chain.md 10: the policy version goes to the next multiple of 2^32, or to a later one where a later one was witnessed. */
  #readAcceptedRollback(entry: Entry): void {
    const { policy_version } = JSON.parse(entry.metadata ?? '{}') as { policy_version?: number }
    if (policy_version === undefined || policy_version <= this.changes || policy_version % 2 ** 32 !== 0) {
      this.#fault(entry, `the policy version cannot go from ${this.changes} to ${policy_version}`)
    } else this.changes = policy_version
  }

  /** chain.md 11: a change names the last entry that wrote its row. */
  #checkReplaces(entry: Entry): void {
    if (!CHANGES.test(entry.action) || /^(?:key|api_key)\.create$|^audit\./.test(entry.action)) return
    const { replaces, api_key_id } = JSON.parse(entry.metadata ?? '{}') as { replaces?: number; api_key_id?: string }
    const written =
      entry.key_id === null ? this.apiKeys.get(api_key_id ?? '')?.written : this.keys.get(entry.key_id)?.written
    const last = entry.action === 'tenant.update' ? this.#tenantBefore : written?.id
    if (replaces !== last) this.#fault(entry, `it replaces ${replaces}, and entry ${last} wrote the row last`)
    if (entry.action === 'tenant.update') this.#tenantBefore = entry.id
  }

  #checkActor(entry: Entry): void {
    if (entry.actor === 'system' || entry.actor.startsWith('operator:')) return
    const apiKey = this.apiKeys.get(entry.actor)
    if (!apiKey) this.#fault(entry, `its actor ${entry.actor} was never created`)
    else if (apiKey.revoked) this.#fault(entry, `its actor was revoked by entry ${apiKey.revoked.id}`)
  }

  #readApiKey(entry: Entry): void {
    const { api_key_id, name } = JSON.parse(entry.metadata ?? '{}') as { api_key_id?: string; name?: string }
    if (!api_key_id) {
      this.#fault(entry, 'it names no API key')
      return
    }
    const known = this.apiKeys.get(api_key_id)
    if (entry.action === 'api_key.create') {
      if (known) this.#fault(entry, `${api_key_id} was created by entry ${known.created.id} already`)
      this.apiKeys.set(api_key_id, { name, created: entry, written: entry, revoked: undefined })
      return
    }
    if (!known) {
      this.#fault(entry, `${api_key_id} was never created`)
      return
    }
    if (known.revoked) this.#fault(entry, `${api_key_id} was revoked by entry ${known.revoked.id} already`)
    known.written = entry
    known.name = name ?? known.name
    if (entry.action === 'api_key.revoke') known.revoked = entry
  }

  #readCreate(entry: Entry): void {
    if (entry.key_id === null) {
      this.#fault(entry, 'it names no key')
      return
    }
    if (this.keys.has(entry.key_id)) this.#fault(entry, 'the key was created before')
    if (entry.key_version !== 1) this.#fault(entry, `a key starts with version 1, not ${entry.key_version}`)
    this.keys.set(entry.key_id, {
      name: (JSON.parse(entry.metadata ?? '{}') as { name?: string }).name,
      status: 'active',
      created_at: entry.created_at,
      written: entry,
      versions: [{ made: entry, retired: undefined }],
      least: 1,
      erased: [],
      destroyed: undefined,
    })
  }

  #readUse(entry: Entry, key: KeyHistory | undefined): void {
    if (!key) {
      this.#fault(entry, `its key ${entry.key_id} was never created`)
      return
    }
    const current = key.versions.length
    const version = entry.key_version ?? 0
    const demand = (allowed: boolean, what: string) => {
      if (!allowed) this.#fault(entry, what)
    }
    const wasActive = () => demand(key.status === 'active', `the key was ${key.status} by entry ${key.written.id}`)
    const wasReadable = () => demand(/^(?:active|disabled)$/.test(key.status), `the key was ${key.status}`)
    switch (entry.action) {
      case 'key.wrap':
      case 'encrypt':
        wasActive()
        demand(version === current, `version ${version} was used when ${current} was the current one`)
        return
      case 'key.unwrap':
      case 'decrypt':
        wasReadable()
        demand(
          version >= key.least && version <= current,
          `version ${version} was opened, of ${key.least} to ${current}`,
        )
        return
      case 'key.export':
        wasReadable()
        demand(version === current, `it names version ${version} of ${current}`)
        return
      case 'key.rotate':
        wasActive()
        demand(version === current + 1, `version ${version} follows ${current}`)
        Object.assign(key.versions.at(-1) ?? {}, { retired: entry })
        key.versions.push({ made: entry, retired: undefined })
        break
      case 'key.disable':
        wasActive()
        key.status = 'disabled'
        break
      case 'key.enable':
        demand(key.status === 'disabled', `the key was ${key.status}`)
        key.status = 'active'
        break
      case 'key.destroy':
        this.#readDestroy(entry, key)
        break
      case 'key.rotation_policy':
        wasReadable()
        break
      case 'key.update': {
        wasReadable()
        const told = JSON.parse(entry.metadata ?? '{}') as Record<string, number>
        demand(
          told.min_unwrap_version_before === key.least,
          `it replaces ${told.min_unwrap_version_before}, not ${key.least}`,
        )
        key.least = told.min_unwrap_version ?? 0
        demand(key.least > key.erased.length && key.least <= current, `version ${key.least} of ${current} opens first`)
        break
      }
      default:
        return
    }
    key.written = entry
  }

  #readDestroy(entry: Entry, key: KeyHistory): void {
    const { step, version } = JSON.parse(entry.metadata ?? '{}') as { step?: string; version?: number }
    if (step === 'version') {
      if (!/^(?:active|disabled)$/.test(key.status)) this.#fault(entry, `the key was ${key.status}`)
      if (version !== key.erased.length + 1 || version >= key.least) this.#fault(entry, `it destroyed ${version}`)
      key.erased.push(entry)
      return
    }
    const next = { scheduled: 'pending_destruction', cancelled: 'disabled', completed: 'destroyed' }[step ?? '']
    if (!next) {
      this.#fault(entry, `unknown step ${step}`)
      return
    }
    key.status = next
    if (next === 'destroyed') key.destroyed = entry
  }
}

/**
 * Checks the rows that grant rights: their MACs (row-mac.ts), and that they are what the history of the log leads to, no
 * row more and none less, each with the id of the entry that wrote it last.
 */
async function checkRows(
  sql: Queryable,
  { tenant_id, auditKey, history }: { tenant_id: string; auditKey: Buffer; history: History },
): Promise<string[]> {
  const rowKey = hmac(auditKey, 'eaas/row-key/v1')
  const faults: string[] = []
  const check = (row: string, sound: boolean, what: string) => {
    if (!sound) faults.push(`${row}: ${what}`)
  }
  const checkMac = (row: string, table: string, columns: unknown[], mac: string) =>
    check(row, same(hmac(rowKey, JSON.stringify(['eaas/row/v1', table, columns])), Buffer.from(mac, 'hex')), 'its MAC')

  const [head] = await sql`select policy_version::text from heads where tenant_id = ${tenant_id}`
  // The tenant's first API key comes with policy version 1; every change after it adds one.
  const version = Number(head?.policy_version)
  check('heads', version === history.changes, `policy version ${version}, the log has ${history.changes} changes`)

  const tenants = await sql`
    select tenant_id::text, name, envelope_only, monthly_encrypt_quota::text, plaintext_encoding, status,
           true as wrapped_audit_key, ${time(sql, 'created_at')}, entry_id::text,
           encode(mac, 'hex') as mac
    from tenants where tenant_id = ${tenant_id}`
  check('tenants', tenants.length === 1, `${tenants.length} rows`)
  for (const row of tenants) {
    const quota = row.monthly_encrypt_quota === null ? null : Number(row.monthly_encrypt_quota)
    const columns = [row.tenant_id, row.name, row.envelope_only, quota, row.wrapped_audit_key]
    const encoding = row.plaintext_encoding === 'utf8' ? [] : [row.plaintext_encoding]
    const status = row.status === 'active' ? [] : [row.status]
    const all = [...columns, milliseconds(row.created_at), Number(row.entry_id), ...encoding, ...status]
    checkMac('tenants', 'tenants', all, row.mac)
    const { tenantWritten } = history
    check(
      'tenants',
      Number(row.entry_id) === tenantWritten,
      `entry_id ${row.entry_id}, last written by ${tenantWritten}`,
    )
  }

  const keys = await sql`
    select tenant_id::text, key_id::text, name, algorithm, status, current_version, min_unwrap_version, destroyed_through, rotation_interval_days,
           ${time(sql, 'min_unwrap_since')},
           ${time(sql, 'next_rotation_at')}, ${time(sql, 'destroy_at')}, case when wrapped_hash_key is not null then true end as wrapped_hash_key,
           ${time(sql, 'created_at')}, ${time(sql, 'updated_at')}, entry_id::text, encode(mac, 'hex') as mac
    from keys where tenant_id = ${tenant_id}`
  const keyIds = new Set(keys.map((row) => row.key_id))
  for (const [key_id, { written }] of history.keys) {
    check(`keys ${key_id}`, keyIds.has(key_id), `has no row; entry ${written.id} tells of it`)
  }
  for (const row of keys) {
    const name = `keys ${row.key_id}`
    const columns = [row.tenant_id, row.key_id, row.name, row.algorithm, row.status, row.current_version]
    const times = [row.next_rotation_at, row.destroy_at].map(millisecondsOrNull)
    const rest = [
      row.wrapped_hash_key,
      milliseconds(row.created_at),
      milliseconds(row.updated_at),
      Number(row.entry_id),
    ]
    const least = row.min_unwrap_version === 1 ? [] : [row.min_unwrap_version]
    const since = row.min_unwrap_since === null ? [] : [milliseconds(row.min_unwrap_since)]
    const through = row.destroyed_through === 0 ? [] : [`${row.destroyed_through}`]
    checkMac(
      name,
      'keys',
      [...columns, row.rotation_interval_days, ...times, ...rest, ...least, ...since, ...through],
      row.mac,
    )
    const recorded = history.keys.get(row.key_id)
    check(name, recorded !== undefined, 'no key.create entry tells of it')
    if (!recorded) continue
    check(
      name,
      Number(row.entry_id) === recorded.written.id,
      `entry_id ${row.entry_id}, last written by ${recorded.written.id}`,
    )
    check(name, row.name === recorded.name, `is named ${row.name}, by the log ${recorded.name}`)
    check(name, row.status === recorded.status, `status ${row.status}, by the log ${recorded.status}`)
    check(
      name,
      row.min_unwrap_version === recorded.least,
      `opens from ${row.min_unwrap_version}, by the log ${recorded.least}`,
    )
    check(name, row.destroyed_through === recorded.erased.length, `destroyed through ${row.destroyed_through}`)
    check(
      name,
      row.current_version === recorded.versions.length,
      `version ${row.current_version} of ${recorded.versions.length}`,
    )
    check(name, milliseconds(row.created_at) === recorded.created_at, 'its time of creation is not that of its entry')
    check(name, milliseconds(row.updated_at) === recorded.written.created_at, 'its last change is not at that entry')
    check(name, (row.wrapped_hash_key === null) === (recorded.destroyed !== undefined), 'its hash key')
  }

  const versions = await sql`
    select tenant_id::text, key_id::text, version, status, case when wrapped_kek is not null then true end as wrapped_kek,
           ${time(sql, 'created_at')}, entry_id::text, encode(mac, 'hex') as mac
    from key_versions where tenant_id = ${tenant_id}`
  const stored = new Set(versions.map((row) => `${row.key_id} ${row.version}`))
  for (const [key_id, { versions: recorded }] of history.keys) {
    recorded.forEach(({ made }, at) => {
      check(
        `key_versions ${key_id} ${at + 1}`,
        stored.has(`${key_id} ${at + 1}`),
        `has no row; entry ${made.id} made it`,
      )
    })
  }
  for (const row of versions) {
    const name = `key_versions ${row.key_id} ${row.version}`
    const columns = [row.tenant_id, row.key_id, row.version, row.status, row.wrapped_kek]
    checkMac(name, 'key_versions', [...columns, milliseconds(row.created_at), Number(row.entry_id)], row.mac)
    const key = history.keys.get(row.key_id)
    const recorded = key?.versions[row.version - 1]
    check(name, recorded !== undefined, 'no entry made it')
    if (!key || !recorded) continue
    const erased = key.erased[row.version - 1]
    const written = key.destroyed ?? erased ?? recorded.retired ?? recorded.made
    const status = (key.destroyed ?? erased) ? 'destroyed' : recorded.retired ? 'retired' : 'active'
    check(name, Number(row.entry_id) === written.id, `entry_id ${row.entry_id}, last written by ${written.id}`)
    check(name, row.status === status, `status ${row.status}, by the log ${status}`)
    check(
      name,
      milliseconds(row.created_at) === recorded.made.created_at,
      'its time of creation is not that of its entry',
    )
    check(name, (row.wrapped_kek === null) === ((key.destroyed ?? erased) !== undefined), 'its KEK')
  }

  const apiKeys = await sql`
    select tenant_id::text, api_key_id::text, digest, name, prefix, permissions, allowed_ips, keys, budgets, ${time(sql, 'expires_at')},
           ${time(sql, 'revoked_at')}, ${time(sql, 'created_at')}, entry_id::text, encode(mac, 'hex') as mac
    from api_keys where tenant_id = ${tenant_id}`
  const apiKeyIds = new Set(apiKeys.map((row) => row.api_key_id))
  for (const [id, { written }] of history.apiKeys) {
    check(`api_keys ${id}`, apiKeyIds.has(id), `has no row; entry ${written.id} tells of it`)
  }
  for (const row of apiKeys) {
    const name = `api_keys ${row.api_key_id}`
    const columns = [row.tenant_id, row.api_key_id, row.digest, row.name, row.prefix, row.permissions, row.allowed_ips]
    const times = [row.expires_at, row.revoked_at].map(millisecondsOrNull)
    const limits = [row.keys, row.budgets].filter((limit) => limit !== null)
    checkMac(
      name,
      'api_keys',
      [...columns, ...times, milliseconds(row.created_at), Number(row.entry_id), ...limits],
      row.mac,
    )
    const recorded = history.apiKeys.get(row.api_key_id)
    check(name, recorded !== undefined, 'no api_key.create entry tells of it')
    if (!recorded) continue
    check(
      name,
      Number(row.entry_id) === recorded.written.id,
      `entry_id ${row.entry_id}, last written by ${recorded.written.id}`,
    )
    check(name, row.name === recorded.name, `is named ${row.name}, by the log ${recorded.name}`)
    check(name, millisecondsOrNull(row.revoked_at) === (recorded.revoked?.created_at ?? null), 'its time of revocation')
    check(
      name,
      milliseconds(row.created_at) === recorded.created.created_at,
      'its time of creation is not that of its entry',
    )
  }
  return faults
}

/** Where a sealed secret belongs (key-hierarchy.md 3). */
export interface Place {
  purpose: 'api-key-pepper' | 'audit-key' | 'kek' | 'hash-key'
  tenant_id?: string
  id?: string
  version?: number
}

/** Opens the store keys with the root key (key-hierarchy.md 1). @throws when one is not authentic */
export async function openStoreKeys(sql: Queryable, rootKey: Buffer): Promise<Map<number, Buffer>> {
  const rows = await sql`select number, encode(wrapped, 'hex') as wrapped from store_keys`
  return new Map(
    rows.map((row) => {
      const wrapped = Buffer.from(row.wrapped, 'hex')
      const numbered = openAead(rootKey, wrapped.subarray(1), Buffer.from('eaas/root-key/v1'))
      if (wrapped[0] !== 1 || numbered.length !== 36 || numbered.readUInt32BE() !== row.number) {
        throw new Error(`store key ${row.number} is not authentic`)
      }
      return [row.number, numbered.subarray(4)]
    }),
  )
}

/** Opens a sealed secret (key-hierarchy.md 2 and 3). @throws when it is not authentic */
function openSecret(
  storeKeys: ReadonlyMap<number, Buffer>,
  { purpose, tenant_id = '', id = '', version = 0 }: Place,
  sealed: Buffer,
) {
  const number = sealed.readUInt32BE(1)
  const storeKey = storeKeys.get(number)
  if (sealed[0] !== 2 || !storeKey) throw new Error(`sealed secret: format ${sealed[0]}, store key ${number}`)
  const aad = prefixed('eaas/secret/v2', purpose, tenant_id, id, String(version), String(number))
  return openAead(storeKey, sealed.subarray(5), aad)
}

/** A tenant's audit key, from its row and the root key. */
export async function openAuditKey(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Buffer> {
  return (await openLogKeys(sql, rootKey, tenant_id)).auditKey
}

/** A tenant's audit key and those before it (key-hierarchy.md 9). */
export async function openLogKeys(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Required<LogKeys>> {
  const [row] = await sql`
    select encode(wrapped_audit_key, 'hex') as sealed from tenants where tenant_id = ${tenant_id}`
  if (!row) throw new Error(`no tenant ${tenant_id}`)
  const storeKeys = await openStoreKeys(sql, rootKey)
  const sealed = Buffer.from(row.sealed, 'hex')
  const place = { purpose: 'audit-key', tenant_id } as const
  const former: FormerKey[] = []
  for (let at = 65; at < sealed.length; at += 73) {
    const through = Number(sealed.readBigUInt64BE(at))
    const key = openSecret(storeKeys, { ...place, version: through }, sealed.subarray(at + 8, at + 73))
    former.push({ through, key })
  }
  return { auditKey: openSecret(storeKeys, place, sealed.subarray(0, 65)), former }
}

/** The KEKs of a tenant's key versions, as `key_id version`. */
export async function openKeks(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Map<string, Buffer>> {
  const rows = await sql`
    select key_id::text, version, encode(wrapped_kek, 'hex') as sealed from key_versions
    where tenant_id = ${tenant_id} and wrapped_kek is not null`
  const storeKeys = await openStoreKeys(sql, rootKey)
  return new Map(
    rows.map(({ key_id, version, sealed }) => [
      `${key_id} ${version}`,
      openSecret(storeKeys, { purpose: 'kek', tenant_id, id: key_id, version }, Buffer.from(sealed, 'hex')),
    ]),
  )
}

/**
 * Unwraps a wrapped key (wrapped-key.md) with the KEKs of `openKeks`: the DEK in base64, or undefined where it does not
 * open as this tenant's and this key's.
 */
export function opens(
  wrapped_key: string,
  { keks, tenant_id, key_id }: { keks: ReadonlyMap<string, Buffer>; tenant_id: string; key_id: string },
): string | undefined {
  const token = Buffer.from(wrapped_key, 'base64')
  if (token.length !== 65 || token[0] !== 1 || token.toString('base64') !== wrapped_key) return undefined
  const version = token.subarray(1, 5)
  const kek = keks.get(`${key_id} ${version.readUInt32BE()}`)
  if (!kek) return undefined
  const aad = prefixed('eaas/wrapped-key/v1', uuidBytes(tenant_id), uuidBytes(key_id), version)
  try {
    return openAead(kek, token.subarray(5), aad).toString('base64')
  } catch {
    return undefined // not authentic: that is the answer
  }
}

function openAead(key: Buffer, sealed: Buffer, aad: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12), { authTagLength: 16 })
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()])
}

/** The strings, each with its length as u32 big-endian in front. */
function prefixed(...parts: (string | Buffer)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part as string)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    }),
  )
}

function uuidBytes(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}

function sha256(...parts: (string | Buffer)[]): Buffer {
  const digest = createHash('sha256')
  for (const part of parts) digest.update(part)
  return digest.digest()
}

function hmac(key: Buffer, ...parts: (string | Buffer)[]): Buffer {
  const digest = createHmac('sha256', key)
  for (const part of parts) digest.update(part)
  return digest.digest()
}

function same(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

/** RFC 3339 with milliseconds, from microseconds: any that are not zero stay, and so never match what was signed. */
function milliseconds(text: string): string {
  return text.replace(/000Z$/, 'Z')
}

function millisecondsOrNull(text: string | null): string | null {
  return text === null ? null : milliseconds(text)
}

function time(sql: Queryable, column: string) {
  return sql`coalesce(to_char(${sql(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ${sql(column)}::text) as ${sql(column)}`
}

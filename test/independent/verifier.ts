// An independent verifier of a tenant's log, written from chain.md 9, checkpoint.md, row-mac.md and the migrations
// alone. Like the checker beside it, it imports nothing of the project: every attack must be told alike by two programs.
import { createPublicKey, verify } from 'node:crypto'
import { Rights } from './rights.js'
import {
  type Entry,
  entriesOf,
  hmac,
  keyAt,
  type LogKeys,
  milliseconds,
  openLogSecrets,
  openSecret,
  type Queryable,
  same,
  sha256,
  time,
} from './stored.js'

/** What chain.md 9 says of a log. */
export interface Finding {
  valid: boolean
  reason?: string
  broken_at?: number
  verified_entries: number
  purged_through: number
}

export interface Question extends LogKeys {
  tenant_id: string
  /** the store keys, to open the secrets in the rows; without them only the MACs are checked */
  storeKeys?: ReadonlyMap<number, Buffer>
  /** what a note that was kept states */
  checkpoint?: Statement | undefined
  /** all entries that there are, if the caller has read them with `entriesOf` */
  existing?: readonly Entry[] | undefined
  /** called with each entry that was found good */
  onEntry?: (entry: Entry) => void
}

/** What a checkpoint states (checkpoint.md 1). */
export interface Statement {
  tenant_id: string
  last_id: number
  hash: Buffer
}

type Row = Record<string, string | number | boolean | string[] | null>

/** The columns of a row's MAC in their order, each as its JSON value: row-mac.ts. `hex` and `time` are SQL's forms of them. */
const ROWS = {
  tenants: {
    name: () => 'tenant',
    columns:
      'tenant_id name envelope_only monthly_encrypt_quota:int wrapped_audit_key:present created_at:time entry_id:int ' +
      'plaintext_encoding status',
  },
  keys: {
    name: (row: Row) => `key ${row.key_id}`,
    columns:
      'tenant_id key_id name algorithm status current_version rotation_interval_days next_rotation_at:time destroy_at:time ' +
      'wrapped_hash_key:present created_at:time updated_at:time entry_id:int min_unwrap_version min_unwrap_since:time ' +
      'destroyed_through',
  },
  key_versions: {
    name: (row: Row) => `version ${row.version} of key ${row.key_id}`,
    columns: 'tenant_id key_id version status wrapped_kek:present created_at:time entry_id:int',
  },
  api_keys: {
    name: (row: Row) => `API key ${row.api_key_id}`,
    columns:
      'tenant_id api_key_id digest name prefix permissions allowed_ips expires_at:time revoked_at:time created_at:time ' +
      'entry_id:int keys budgets',
  },
} as const

/** Verifies a log in the order of chain.md 9; to be called within one snapshot while others write. */
export async function verifyIndependently(sql: Queryable, question: Question): Promise<Finding> {
  const { tenant_id, checkpoint } = question
  const mark = await newestMark(sql, question)
  if (mark === 'forged') {
    return { valid: false, reason: 'mark_forged', broken_at: 1, verified_entries: 0, purged_through: 0 }
  }
  const head = await headOf(sql, question)
  const [ends] = await sql`
    select min(id)::text as first, max(id)::text as last from audit_log where tenant_id = ${tenant_id}`
  const firstRow = Number(ends?.first ?? 1)
  const lastRow = Number(ends?.last ?? 0)
  const end = head && head !== 'forged' ? head.last_id : lastRow
  const purged_through = mark?.purged_through ?? 0
  let at = { id: purged_through, hash: mark?.hash ?? sha256('eaas/audit/genesis/v1', tenant_id), created_at: '' }
  let verified_entries = 0
  let purgedByLog = 0
  const beyond: Entry[] = []
  const writers = new Map<string, number>()
  const rights = new Rights(purged_through)
  const fault = (reason: string, broken_at = at.id + 1): Finding => ({
    valid: false,
    reason,
    broken_at,
    verified_entries,
    purged_through,
  })
  const contradicts = () => checkpoint?.last_id === at.id && !checkpoint.hash.equals(at.hash)

  if (contradicts()) return fault('checkpoint_mismatch', at.id)
  for await (const entry of question.existing ?? entriesOf(sql, tenant_id)) {
    if (entry.id <= purged_through) continue
    if (entry.id > end) {
      beyond.push(entry)
      continue
    }
    const hash = sha256('eaas/audit/hash/v1', at.hash, bytesOf(entry))
    if (entry.id !== at.id + 1) return fault('entry_missing')
    if (!entry.hash.equals(hash)) return fault('entry_altered')
    if (!same(entry.mac, hmac(keyAt(question, entry.id), 'eaas/audit/mac/v1', hash))) return fault('entry_forged')
    if (wentBack(at, entry)) return fault('time_went_back')
    const wrong = rights.read(entry)
    if (wrong) return fault(wrong)
    const told = JSON.parse(entry.metadata ?? '{}')
    for (const name of rowsToldOf(entry)) writers.set(name, entry.id)
    if (entry.action === 'audit.purge') purgedByLog = told.purged_through
    question.onEntry?.(entry)
    verified_entries += 1
    at = entry
    if (contradicts()) return fault('checkpoint_mismatch', at.id)
  }
  if (at.id < end) return fault('entry_missing')
  if (!head) return fault('head_missing')
  if (head === 'forged') return fault('head_forged')
  if (!head.hash.equals(at.hash)) return fault('head_mismatch')
  const follows = (entry: Entry, index: number) => {
    const before = beyond[index - 1] ?? at
    const hash = sha256('eaas/audit/hash/v1', before.hash, bytesOf(entry))
    return same(entry.mac, hmac(keyAt(question, entry.id), 'eaas/audit/mac/v1', hash))
  }
  if (beyond.some(follows)) return fault('head_behind')
  if (beyond.length > 0) return fault('entry_beyond_head', beyond[0]?.id)
  if (firstRow < 1) return fault('entry_before_first', firstRow)
  if (checkpoint && checkpoint.last_id > end) return fault('behind_checkpoint')
  const unfinished = rights.end()
  if (unfinished) return fault(unfinished, at.id)
  if (purgedByLog !== purged_through) return fault('mark_mismatch', Math.min(purgedByLog, purged_through) + 1)
  const wrong = await findWrongRow(sql, question, { writers, purged_through, end })
  if (wrong) return fault(wrong.reason, wrong.broken_at)
  return { valid: true, verified_entries, purged_through }
}

/**
 * Whether the chain alone is in order: each entry follows from the one before, and the server wrote it. Looks at no head, no mark and
 * no other row. `start` is what the first entry follows from; an entry that stands first without following it is taken as it is.
 */
export async function isChainSound(
  sql: Queryable,
  { existing, ...question }: Question,
  start: { id: number; hash: Buffer },
): Promise<boolean> {
  let before: Entry | undefined
  for await (const entry of existing ?? entriesOf(sql, question.tenant_id, Number.MIN_SAFE_INTEGER)) {
    if (before && (entry.id !== before.id + 1 || wentBack(before, entry))) return false
    const known = before ?? (entry.id === start.id + 1 ? start : undefined)
    if (known && !entry.hash.equals(sha256('eaas/audit/hash/v1', known.hash, bytesOf(entry)))) return false
    if (!same(entry.mac, hmac(keyAt(question, entry.id), 'eaas/audit/mac/v1', entry.hash))) return false
    before = entry
  }
  return true
}

// chain.md 4
function wentBack(before: { created_at: string }, { action, metadata, created_at }: Entry): boolean {
  const isAccepted = action === 'audit.clock_accepted' && JSON.parse(metadata ?? '{}').ahead_until === before.created_at
  return created_at < before.created_at && !isAccepted
}

function bytesOf(entry: Entry): string {
  const { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at } = entry
  const columns = [tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at]
  return JSON.stringify(['eaas/audit/entry/v1', ...columns])
}

async function newestMark(sql: Queryable, { tenant_id, auditKey }: Question) {
  const marks = await sql`
    select purged_through::text, encode(hash, 'hex') as hash, entries::text, ${time(sql, 'cutoff')},
           ${time(sql, 'created_at')}, encode(previous_mac, 'hex') as previous_mac, encode(mac, 'hex') as mac
    from purge_marks where tenant_id = ${tenant_id} order by purge_marks.purged_through`
  let newest: { purged_through: number; hash: Buffer } | undefined
  let before = '00'.repeat(32)
  for (const mark of marks) {
    const purged_through = Number(mark.purged_through)
    const numbers = [purged_through, mark.hash, Number(mark.entries)]
    const text = [
      'eaas/audit/purge-mark/v1',
      tenant_id,
      ...numbers,
      milliseconds(mark.cutoff),
      milliseconds(mark.created_at),
    ]
    const mac = hmac(auditKey, JSON.stringify([...text, mark.previous_mac]))
    if (mark.previous_mac !== before || !same(mac, Buffer.from(mark.mac, 'hex'))) return 'forged'
    before = mark.mac
    newest = { purged_through, hash: Buffer.from(mark.hash, 'hex') }
  }
  return newest
}

async function headOf(sql: Queryable, { tenant_id, auditKey }: Question) {
  const [head] = await sql`
    select last_id::text, encode(hash, 'hex') as hash, policy_version::text, ${time(sql, 'created_at')},
           encode(mac, 'hex') as mac
    from heads where tenant_id = ${tenant_id}`
  if (!head) return undefined
  const last_id = Number(head.last_id)
  const text = [
    'eaas/audit/head/v1',
    tenant_id,
    last_id,
    head.hash,
    Number(head.policy_version),
    milliseconds(head.created_at),
  ]
  const isGood = same(hmac(auditKey, JSON.stringify(text)), Buffer.from(head.mac, 'hex'))
  return isGood ? { last_id, hash: Buffer.from(head.hash, 'hex') } : 'forged'
}

/** The second table of chain.md 9. */
function rowsToldOf({ action, id, key_id, key_version, metadata }: Entry): string[] {
  const told = (metadata === null ? {} : JSON.parse(metadata)) as Record<string, unknown>
  const key = `key ${key_id}`
  const version = (number: number) => `version ${number} of ${key}`
  if (action === 'tenant.update' || action === 'tenant.restate') return ['tenant']
  if (action.startsWith('api_key.')) return [`API key ${told.api_key_id}`, ...(id === 1 ? ['tenant'] : [])]
  if (action === 'key.create') return [key, version(1)]
  if (action === 'key.rotate') return [key, version(Number(key_version)), version(Number(key_version) - 1)]
  if (action === 'key.destroy') {
    const names = [key]
    if (told.step === 'version') names.push(version(Number(told.version)))
    if (told.step === 'completed') for (let at = 1; at <= Number(told.versions); at++) names.push(version(at))
    return names
  }
  return ['key.update', 'key.enable', 'key.disable', 'key.rotation_policy', 'key.restate'].includes(action) ? [key] : []
}

async function findWrongRow(
  sql: Queryable,
  { tenant_id, auditKey, storeKeys }: Question,
  { writers, purged_through, end }: { writers: Map<string, number>; purged_through: number; end: number },
): Promise<{ reason: string; broken_at: number } | undefined> {
  const rowKey = hmac(auditKey, 'eaas/row-key/v1')
  const wrong: { reason: string; broken_at: number }[] = []
  const absent = new Map(writers)
  const good = new Map<string, Row>()
  const seen = new Set<string>()
  for (const [table, { name, columns }] of Object.entries(ROWS)) {
    for (const { values, row, mac } of await readRows(sql, { table, columns, tenant_id })) {
      const writer = writers.get(name(row))
      absent.delete(name(row))
      seen.add(name(row))
      const entry_id = Number(row.entry_id)
      const isGood =
        same(mac, hmac(rowKey, JSON.stringify(['eaas/row/v1', table, values]))) &&
        (!storeKeys || secretOpens(table, row, storeKeys))
      if (!isGood) wrong.push({ reason: 'row_forged', broken_at: writer ?? end + 1 })
      else if (writer === undefined ? table !== 'key_versions' || entry_id > purged_through : entry_id !== writer) {
        wrong.push({ reason: 'row_replaced', broken_at: writer ?? Math.min(entry_id, end + 1) })
      } else good.set(name(row), row)
    }
  }
  for (const writer of absent.values()) wrong.push({ reason: 'row_missing', broken_at: writer })
  // The versions of a key are the ones that its own row tells.
  for (const [name, key] of good) {
    if (!name.startsWith('key ')) continue
    const current = Number(key.current_version)
    for (let number = 1; number <= current; number++) {
      const version = `version ${number} of ${name}`
      if (!absent.has(version) && !seen.has(version))
        wrong.push({ reason: 'row_missing', broken_at: writers.get(name) ?? end + 1 })
    }
    for (const [version, row] of good) {
      if (!version.endsWith(` of ${name}`)) continue
      const number = Number(row.version)
      const live = number === current ? 'active' : 'retired'
      const isGone = key.status === 'destroyed' || number <= Number(key.destroyed_through)
      const due = isGone ? 'destroyed' : live
      if (number >= 1 && number <= current && row.status === due) continue
      wrong.push({ reason: 'row_replaced', broken_at: writers.get(version) ?? Math.min(Number(row.entry_id), end + 1) })
    }
  }
  return wrong.sort((a, b) => a.broken_at - b.broken_at)[0]
}

async function readRows(
  sql: Queryable,
  { table, columns, tenant_id }: { table: string; columns: string; tenant_id: string },
): Promise<{ values: unknown[]; row: Row; mac: Buffer }[]> {
  const forms = columns.split(' ').map((column) => column.split(':') as [string, string?])
  const selected = forms.map(([column, form]) => {
    if (form === 'present') return `encode(${column}, 'hex') as ${column}`
    if (form === 'time') {
      return `coalesce(to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ${column}::text) as ${column}`
    }
    return /_id$/.test(column) || form === 'int' ? `${column}::text` : column
  })
  const rows = await sql.unsafe(
    `select ${selected.join(', ')}, encode(mac, 'hex') as mac from ${table} where tenant_id = $1`,
    [tenant_id],
  )
  return rows.map((row) => ({
    row: row as unknown as Row,
    mac: Buffer.from(row.mac, 'hex'),
    values: forms.map(([column, form]) => {
      const value = row[column]
      if (value === null) return null
      if (form === 'present') return true
      if (form === 'time') return milliseconds(value)
      return form === 'int' ? Number(value) : value
    }),
  }))
}

/** Whether the secret in a row opens in its place (key-hierarchy.md 2 and 3). */
function secretOpens(table: string, row: Row, storeKeys: ReadonlyMap<number, Buffer>): boolean {
  const tenant_id = String(row.tenant_id)
  const id = String(row.key_id)
  const bytes = (hex: Row[string] | undefined) => Buffer.from(String(hex), 'hex')
  try {
    if (table === 'tenants') openLogSecrets(storeKeys, tenant_id, bytes(row.wrapped_audit_key))
    if (table === 'keys' && row.wrapped_hash_key !== null) {
      openSecret(storeKeys, { purpose: 'hash-key', tenant_id, id }, bytes(row.wrapped_hash_key))
    }
    if (table === 'key_versions' && row.wrapped_kek !== null) {
      openSecret(storeKeys, { purpose: 'kek', tenant_id, id, version: Number(row.version) }, bytes(row.wrapped_kek))
    }
    return true
  } catch {
    return false
  }
}

/** Reads a note (checkpoint.md 1 to 4). @throws when it is not one that the key signed */
export function readNote(note: string, publicKey: string): Statement {
  const [text = '', signature = '', ...rest] = note.split(/(?<=\n)\n/)
  const lines = text.split('\n')
  const [origin, tenant_id = '', last_id = '', hash = '', , end] = lines
  const isStatement = lines.length === 6 && origin === 'eaas/audit/checkpoint/v1' && end === ''
  const signed = /^\u2014 eaas-audit (\S+)\n$/.exec(signature)?.[1]
  if (!isStatement || rest.length > 0 || signed === undefined) throw new Error('this is not a checkpoint')
  const [, id = '', encoded = ''] = /^eaas-audit\+([0-9a-f]{8})\+(.+)$/.exec(publicKey) ?? []
  const key = Buffer.from(encoded, 'base64').subarray(1)
  const keyId = sha256('eaas-audit\n\u0001', key).subarray(0, 4)
  const bytes = Buffer.from(signed, 'base64')
  if (keyId.toString('hex') !== id || !bytes.subarray(0, 4).equals(keyId)) throw new Error('another key signed it')
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key])
  const verifier = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  if (!verify(null, Buffer.from(text), verifier, bytes.subarray(4))) throw new Error('its signature does not verify')
  return { tenant_id, last_id: Number(last_id), hash: Buffer.from(hash, 'base64') }
}

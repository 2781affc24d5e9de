/**
 * What the installation's log says about tenants: which ones must exist, which entries their logs must have, and which
 * entries the logs of tenants that are gone had (anchor.md 4).
 */
import { type ChainedEntry, readMetadata } from '@eaas/audit/formats'
import { decodeHex, INSTALLATION_ACTIONS, INSTALLATION_ID, isUuid, type LogAction } from '@eaas/protocol'
import { listEntriesOf, type ToldEntry } from '../store/audit.js'
import type { Queryable } from '../store/db.js'

/** After these actions, the tenant must exist. */
const PRESENT_ACTIONS: readonly string[] = [
  'installation.tenant_create',
  'installation.tenant_arrive',
  'installation.rollback_accepted',
]

export const TENANT_ACTIONS: readonly LogAction[] = INSTALLATION_ACTIONS.filter((action) =>
  /^installation\.(?:tenant_|rollback_accepted)/.test(action),
)

export interface RecordedTenants {
  /** tenants that were created, or accepted by an operator after a loss, and still exist; with the entry that says so */
  present: ReadonlyMap<string, number>
  /** gone tenants, with the entry by which an operator accepted that */
  gone: ReadonlyMap<string, number>
  /** those gone tenants that had not moved away: no move left the remains of their logs */
  lost: ReadonlySet<string>
  /** the last entry of the tenant's own log that this log names; after an accepted rollback, earlier ones may be lost */
  ends: ReadonlyMap<string, NamedEntry>
  /** the status that the last such entry gave the tenant, if any did since its creation or an accepted rollback */
  statuses: ReadonlyMap<string, string>
}

export type NamedEntry = Pick<ChainedEntry, 'id' | 'hash'>

const MOVES: readonly string[] = ['installation.tenant_move', 'installation.tenant_arrive']

const STATUSES: Readonly<Record<string, string>> = {
  'installation.tenant_suspend': 'suspended',
  'installation.tenant_resume': 'active',
  'installation.tenant_delete': 'deleted',
}

/** Read at a time: at most 80 MB even if an attacker edited the entries. */
const PAGE_ENTRIES = 5_000

/**
 * Reads the log's entries about all tenants, or about one; they are not authenticated. `altered_id` is the first entry
 * whose metadata is missing or longer than any that a server writes.
 */
export async function readRecordedTenants(
  sql: Queryable,
  tenant_id?: string,
): Promise<RecordedTenants & { altered_id: number | undefined }> {
  const record = createRecord()
  let altered_id: number | undefined
  let after_id = 0 // no server writes an id below 1
  while (true) {
    const where = { actions: TENANT_ACTIONS, text: tenant_id, after_id, limit: PAGE_ENTRIES }
    const page = await listEntriesOf(sql, INSTALLATION_ID, where)
    for (const entry of page) {
      if (entry.metadata === null) altered_id ??= entry.id
      record.read(entry)
      after_id = entry.id
    }
    if (page.length < PAGE_ENTRIES) return { ...record.tenants, altered_id }
  }
}

export async function findNamedEnd(sql: Queryable, tenant_id: string): Promise<NamedEntry | undefined> {
  return (await readRecordedTenants(sql, tenant_id)).ends.get(tenant_id)
}

export function recordedTenants(entries: readonly ToldEntry[]): RecordedTenants {
  const record = createRecord()
  for (const entry of entries) record.read(entry)
  return record.tenants
}

function createRecord(): { tenants: RecordedTenants; read: (entry: ToldEntry) => void } {
  const present = new Map<string, number>()
  const gone = new Map<string, number>()
  const lost = new Set<string>()
  const ends = new Map<string, NamedEntry>()
  const statuses = new Map<string, string>()
  const read = ({ id, action, ...entry }: ToldEntry) => {
    const told = readMetadata(entry)
    const { tenant_id } = told
    if (typeof tenant_id !== 'string' || !isUuid(tenant_id)) return // an edited entry, which a verification names
    const named = readNamed(told)
    const end = action === 'installation.rollback_accepted' ? 0 : (ends.get(tenant_id)?.id ?? 0)
    if (named && named.id >= end) ends.set(tenant_id, named)
    const isGone = action === 'installation.tenant_gone'
    const isMoved = isGone && told.status_before === 'moved' // another installation continues its log, whatever was deleted here
    const status = isMoved ? 'moved' : MOVES.includes(action) ? String(told.status) : STATUSES[action]
    if (status !== undefined) statuses.set(tenant_id, status)
    else if (action !== 'installation.tenant_update') statuses.delete(tenant_id)
    if (isGone) {
      present.delete(tenant_id)
      ends.delete(tenant_id)
      gone.set(tenant_id, id)
      if (!isMoved) lost.add(tenant_id)
    } else if (PRESENT_ACTIONS.includes(action)) {
      present.set(tenant_id, id)
      gone.delete(tenant_id)
      lost.delete(tenant_id)
    }
  }
  return { tenants: { present, gone, lost, ends, statuses }, read }
}

function readNamed({ entry_id: id, entry_hash }: Partial<Record<string, unknown>>): NamedEntry | undefined {
  if (typeof id !== 'number' || !Number.isSafeInteger(id)) return undefined
  const isHash = typeof entry_hash === 'string' && /^[0-9a-f]{64}$/.test(entry_hash)
  return isHash ? { id, hash: decodeHex(entry_hash) } : undefined
}

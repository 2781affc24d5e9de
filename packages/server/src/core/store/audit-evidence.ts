/** Everything that a verification compares the chain with, read in one snapshot. */
import type { Head, PurgeMark } from '../audit/formats/chain.js'
import { type ApiKeyRow, listApiKeys } from './api-keys.js'
import { findFirstId, findLastId, listTenantHeads } from './audit.js'
import type { Sql } from './db.js'
import { type KeyRow, type KeyVersionRow, listKeys, listTenantKeyVersions } from './keys.js'
import { listMarks } from './purge-marks.js'
import { listTenantRows, type TenantRow } from './tenants.js'

export interface RightsRows {
  tenant: TenantRow | undefined
  keys: KeyRow[]
  versions: KeyVersionRow[]
  apiKeys: ApiKeyRow[]
}

export interface Evidence {
  head: Head | undefined
  /** whether there are several heads, of which `head` is one */
  hasSeveralHeads: boolean
  marks: PurgeMark[]
  last_id: number
  /** the first entry that exists, if its id is below 1, which no server writes; otherwise 1 */
  first_id: number
  rows: RightsRows
  /** if rows share a primary key: the newest entry that each such group names, and of these the smallest */
  repeated: number | undefined
}

/** One snapshot: it contains a concurrent change completely or not at all. */
export async function readEvidence(sql: Sql, tenant_id: string, { withRows = true } = {}): Promise<Evidence> {
  return sql.begin('isolation level repeatable read read only', async (snapshot) => {
    const [head, ...otherHeads] = await listTenantHeads(snapshot, tenant_id)
    const tenants = withRows ? await listTenantRows(snapshot, tenant_id) : []
    const rows = {
      tenant: tenants[0],
      keys: withRows ? await listKeys(snapshot, tenant_id, {}) : [],
      versions: withRows ? await listTenantKeyVersions(snapshot, tenant_id) : [],
      apiKeys: withRows ? await listApiKeys(snapshot, tenant_id) : [],
    }
    const repeated = [
      ...repeatedIn(tenants, () => tenant_id),
      ...repeatedIn(rows.keys, ({ key_id }) => key_id),
      ...repeatedIn(rows.versions, ({ key_id, version }) => `${key_id} ${version}`),
      ...repeatedIn(rows.apiKeys, ({ api_key_id }) => api_key_id),
    ]
    return {
      head,
      hasSeveralHeads: otherHeads.length > 0,
      marks: await listMarks(snapshot, tenant_id),
      last_id: await findLastId(snapshot, tenant_id),
      first_id: await findFirstId(snapshot, tenant_id),
      rows,
      repeated: repeated.length > 0 ? Math.min(...repeated) : undefined,
    }
  })
}

function repeatedIn<Row extends { entry_id: number }>(rows: readonly Row[], nameOf: (row: Row) => string): number[] {
  const newest = new Map<string, number>()
  const repeated = new Set<string>()
  for (const row of rows) {
    const name = nameOf(row)
    const other = newest.get(name)
    if (other !== undefined) repeated.add(name)
    newest.set(name, Math.max(other ?? 0, row.entry_id))
  }
  return [...repeated].map((name) => newest.get(name) ?? 0)
}

/** Everything that a verification compares the chain with, read in one snapshot. */
import type { Head, PurgeMark } from '../audit/formats/chain.js'
import { type ApiKeyRow, listApiKeys } from './api-keys.js'
import { findHead } from './audit.js'
import { listMarks } from './audit-retention.js'
import type { Sql } from './db.js'
import { type KeyRow, type KeyVersionRow, listKeys, listTenantKeyVersions } from './keys.js'
import { findTenant, type TenantRow } from './tenants.js'

/** The rows that grant rights. */
export interface RightsRows {
  tenant: TenantRow | undefined
  keys: KeyRow[]
  versions: KeyVersionRow[]
  apiKeys: ApiKeyRow[]
}

export interface Evidence {
  head: Head | undefined
  /** in order */
  marks: PurgeMark[]
  /** the last entry that exists; 0 if there is none */
  last_id: number
  rows: RightsRows
}

/** Reads the evidence in one snapshot, so that a concurrent change is in it completely or not at all. */
export async function readEvidence(sql: Sql, tenant_id: string): Promise<Evidence> {
  return sql.begin('isolation level repeatable read read only', async (snapshot) => {
    const [last] = await snapshot<{ id: number }[]>`
      select id from audit_log where tenant_id = ${tenant_id} order by id desc limit 1`
    return {
      head: await findHead(snapshot, tenant_id),
      marks: await listMarks(snapshot, tenant_id),
      last_id: last?.id ?? 0,
      rows: {
        tenant: await findTenant(snapshot, tenant_id),
        keys: await listKeys(snapshot, tenant_id, {}),
        versions: await listTenantKeyVersions(snapshot, tenant_id),
        apiKeys: await listApiKeys(snapshot, tenant_id),
      },
    }
  })
}

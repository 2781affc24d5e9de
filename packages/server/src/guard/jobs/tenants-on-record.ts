// Lists all tenants, including those in the installation's log: the database administrator can hide a row from one statement.
import { INSTALLATION_ID } from '@eaas/protocol'
import { readValidLog } from '../../core/audit/verify/verify.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { findMissingTenants, listTenants, type TenantRow } from '../../core/store/tenants.js'
import { TENANT_GONE } from '../watch/shared-alarms.js'

const TENANT_LEFT_OUT =
  "the list of tenants left out this tenant, which the installation's log has: its row was hidden while the tenants were listed"

export type LeftOut = { tenant_id: string; reason: string }

/** Oldest first. The caller checks the MACs, and has read which tenants are on record. */
export async function listTenantsOnRecord(
  { sql }: Pick<Services, 'sql'>,
  recorded: Iterable<string>,
): Promise<{ tenants: TenantRow[]; leftOut: LeftOut[] }> {
  const tenants = await listTenants(sql)
  const listed = new Set(tenants.map(({ tenant_id }) => tenant_id))
  const unlisted = [...new Set(recorded)].filter((tenant_id) => !listed.has(tenant_id))
  const gone = new Set(await findMissingTenants(sql, unlisted))
  const leftOut = unlisted.map((tenant_id) => ({
    tenant_id,
    reason: gone.has(tenant_id) ? TENANT_GONE : TENANT_LEFT_OUT,
  }))
  return { tenants, leftOut }
}

/** `unread`: why the installation's log could not be used. The list may then lack a tenant unnoticed. */
export async function listTenantsByVerifiedRecord(
  services: Pick<Services, 'sql' | 'verifyLog' | 'states'>,
  signal?: AbortSignal,
): Promise<{ tenants: TenantRow[]; leftOut: LeftOut[]; unread?: unknown }> {
  try {
    const state = await services.states.find(INSTALLATION_ID)
    if (!state) throw new Error("the installation's own log is gone")
    const log = await readValidLog(services, state, { signal })
    if (log.valid) return await listTenantsOnRecord(services, log.valid.recorded.present.keys())
    throw new Refusal(
      'E_STATE',
      `the installation's own log does not verify (${log.reason}, entry ${log.broken_at}), so a tenant may be left out unseen`,
    )
  } catch (unread) {
    return { tenants: await listTenants(services.sql), leftOut: [], unread }
  }
}

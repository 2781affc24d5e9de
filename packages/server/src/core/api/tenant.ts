/** The tenant's settings and usage. Neither call writes an entry. */
import { MAX_LISTED_COUNTS, type wire } from '@eaas/protocol'
import type { Operation, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { countMonth } from '../store/audit.js'
import type { TenantRow } from '../store/tenants.js'
import { listApiKeyUsage, listUnrecordedCalls } from '../store/unrecorded-calls.js'
import { bindRoutes } from './route.js'

const readTenant: Operation<wire.Tenant> = ({ state: { tenant } }) => ({
  entries: [],
  release: () => viewTenant(tenant),
})

export const tenantRoutes = bindRoutes({
  getTenant: { summary: 'Read the tenant that the API key belongs to', operation: () => readTenant },
  getUsage: {
    summary: 'Count what the tenant did in a month',
    operation: ({ query, signal }) => readUsage(query, signal?.()),
  },
})

/**
 * Counts the tenant's entries by action in a month, `YYYY-MM` in UTC, by default the current one. Also lists the calls
 * without an entry, with some seconds' delay for those of other processes, and the use by each API key today. Covers
 * the whole tenant, whatever keys the caller is limited to. Takes turns with searches of the log. @throws OverloadError
 */
export function readUsage({ month }: wire.Queries['getUsage'], signal?: AbortSignal): Operation<wire.Usage> {
  return async ({ state: { tenant }, services }) => {
    const { tenant_id } = tenant
    const sum = () => sumUsage(services, tenant_id, month)
    return { entries: [], release: () => services.inSearchPlace({ tenant_id, signal }, sum) }
  }
}

async function sumUsage(
  { sql, now, unrecordedCalls }: Services,
  tenant_id: string,
  month: string | undefined,
): Promise<wire.Usage> {
  const day = new Date(now()).toISOString().slice(0, 10)
  const counted = month ?? day.slice(0, 7)
  await unrecordedCalls.flush().catch(() => undefined) // the periodic flush logs the error; the counts are kept
  const counts = await countMonth(sql, tenant_id, counted)
  const usage = await listApiKeyUsage(sql, { tenant_id, day, limit: MAX_LISTED_COUNTS })
  return {
    month: counted,
    operations: Object.fromEntries(counts.map(({ action, entries }) => [action, entries])),
    unrecorded: await listUnrecordedCalls(sql, tenant_id, counted),
    by_api_key: usage.map(({ tenant_id: _, ...one }) => one),
  }
}

export function viewTenant(row: TenantRow): wire.Tenant {
  const { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota, plaintext_encoding } = row
  const shown = { tenant_id, name, envelope_only, created_at, monthly_encrypt_quota }
  return plaintext_encoding === 'utf8' ? shown : { ...shown, plaintext_encoding }
}

/** @throws Refusal E_STATE if the tenant is deleted, since nothing can be created or set in it any more */
export function assertNotDeleted({ tenant }: TenantState): void {
  if (tenant.status === 'deleted') throw new Refusal('E_STATE', `tenant ${tenant.name} is deleted, and that is final`)
}

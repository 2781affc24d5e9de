/** Opens the installation for the operator's commands, beside a running server, and finds tenants by name or id. */
import { isUuid } from '@eaas/protocol'
import type { Config } from '../config.js'
import { openInstallation } from '../installation.js'
import type { Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { findTenantByName } from '../store/tenants.js'

/**
 * Opens the installation, beside a server if one runs, does the work and closes it. Creates an installation only with `mayCreate`: a
 * command in the wrong directory should fail and leave nothing there.
 */
export async function withServices<T>(
  config: Config,
  work: (services: Services) => Promise<T>,
  { mayCreate = false } = {},
): Promise<T> {
  const installation = await openInstallation({
    config,
    beside: true,
    mayCreate,
    onAlarm: (message, details) => process.stderr.write(`eaas: ${message} ${JSON.stringify(details)}\n`),
  })
  try {
    return await work(installation.services)
  } finally {
    await installation.close()
  }
}

/** The message of an error and its causes, in one sentence. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`
}

/** The id of a tenant given by its name or id. @throws Refusal E_NOT_FOUND */
export async function getTenantId(services: Services, tenant: string): Promise<string> {
  const found = await findTenantId(services, tenant)
  if (found !== undefined) return found
  throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant}; see: eaas tenant list`)
}

/** The id of a tenant given by its name or id. An id is tried first, because another tenant may have it as its name. */
export async function findTenantId({ sql, states }: Services, tenant: string): Promise<string | undefined> {
  if (isUuid(tenant) && (await states.find(tenant))) return tenant
  return (await findTenantByName(sql, tenant))?.tenant_id
}

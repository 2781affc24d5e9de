/** `eaas tenant`: the operator's hand on tenants, beside a running server or without one. */
import type { wire } from '@eaas/protocol'
import { authentic, tenantMac } from '../audit/row-mac.js'
import type { Config } from '../config.js'
import { deriveRowKey, openSecret } from '../crypto/key-hierarchy.js'
import { createTenant, type NewTenant } from '../operations/create-tenant.js'
import type { Services } from '../operations/operation.js'
import { performAsSystem } from '../operations/perform.js'
import { readTenant } from '../operations/read-tenant.js'
import { Refusal } from '../operations/refusal.js'
import { type TenantChanges, updateTenant, viewTenant } from '../operations/update-tenant.js'
import { DatabaseDeadlineError, withDeadline } from '../store/deadline.js'
import { lockInstance } from '../store/instance.js'
import { listTenants, type TenantRow } from '../store/tenants.js'
import { print, printable, printJson, table } from './output.js'
import { getTenantId, messageOf, withServices } from './with-services.js'

/** How long the database may take to create a tenant, in milliseconds. */
const CREATE_DEADLINE_MS = 10_000

interface Format {
  json: boolean
}

/** Creates a tenant and prints it with its first API key, which is shown only here. */
export async function tenantCreate(
  config: Config,
  { name, envelopeOnly, json }: Format & { name: string; envelopeOnly: boolean },
): Promise<void> {
  const create = ({ sql, ...services }: Services) => {
    const created = sql.begin(async (transaction) => {
      await lockInstance(transaction) // one at a time: the name is looked for before it is taken
      return createTenant(services, transaction, { name, envelope_only: envelopeOnly })
    })
    return withDeadline(created, CREATE_DEADLINE_MS).catch((error: unknown) => {
      if (!(error instanceof DatabaseDeadlineError)) throw error
      throw new Refusal(
        'E_UNAVAILABLE',
        `the database did not acknowledge the tenant within ${CREATE_DEADLINE_MS / 1_000} s; a synchronous standby may be missing ` +
          '(eaas doctor). See eaas tenant list before you repeat it; a tenant that is there gets an API key by eaas api-key create',
      )
    })
  }
  const tenant = await withServices(config, create, { mayCreate: true })
  if (json) printJson(tenant)
  else print(...describeNewTenant(tenant))
}

/** Prints every tenant; returns whether all of their rows are as the server wrote them. One that is not is told of by its id alone. */
export async function tenantList(config: Config, { json }: Format): Promise<boolean> {
  const tenants: wire.Tenant[] = []
  const failed: { tenant_id: string; error: string }[] = []
  await withServices(config, async (services) => {
    for (const row of await listTenants(services.sql)) {
      try {
        tenants.push(viewTenant(authenticTenant(services, row)))
      } catch (error) {
        failed.push({ tenant_id: row.tenant_id, error: messageOf(error) })
      }
    }
  })
  if (json) printJson({ tenants, count: tenants.length, ...(failed.length > 0 && { failed }) })
  else {
    const cells = (tenant: wire.Tenant) => [
      tenant.name,
      tenant.tenant_id,
      mode(tenant),
      quota(tenant),
      tenant.created_at,
    ]
    print(...table(['NAME', 'ID', 'MODE', 'ENCRYPTS A MONTH', 'CREATED'], tenants.map(cells)))
    for (const { tenant_id, error } of failed) process.stderr.write(`eaas: tenant ${tenant_id}: ${printable(error)}\n`)
  }
  return failed.length === 0
}

/** Prints one tenant. */
export async function tenantShow(config: Config, tenant: string, { json }: Format): Promise<void> {
  const shown = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), readTenant()),
  )
  printTenant(shown, json)
}

/** Changes a tenant's settings; what changed is written into that tenant's own log. */
export async function tenantSet(
  config: Config,
  tenant: string,
  changes: TenantChanges,
  { json }: Format,
): Promise<void> {
  const changed = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), updateTenant(changes)),
  )
  printTenant(changed, json)
}

function authenticTenant({ rootKey }: Services, row: TenantRow): TenantRow {
  const place = { purpose: 'audit-key' as const, tenant_id: row.tenant_id }
  return authentic(row, tenantMac, deriveRowKey(openSecret(rootKey, place, row.wrapped_audit_key)))
}

function printTenant(tenant: wire.Tenant, json: boolean): void {
  if (json) printJson(tenant)
  else print(...describeTenant(tenant))
}

function describeTenant(tenant: wire.Tenant): string[] {
  return [
    `name              ${tenant.name}`,
    `id                ${tenant.tenant_id}`,
    `mode              ${mode(tenant)}`,
    `encrypts a month  ${quota(tenant)}`,
    ...(tenant.plaintext_encoding ? [`plaintext         ${tenant.plaintext_encoding} where a call does not say`] : []),
    `created           ${tenant.created_at}`,
  ]
}

function mode({ envelope_only }: wire.Tenant): string {
  return envelope_only ? 'envelope only' : 'server mode open'
}

function quota({ monthly_encrypt_quota }: wire.Tenant): string {
  return monthly_encrypt_quota === null ? 'no limit' : String(monthly_encrypt_quota)
}

function describeNewTenant({ tenant_id, name, envelope_only, api_key }: NewTenant): string[] {
  return [
    `Tenant ${name} (${tenant_id}) was created${envelope_only ? '' : ', with server mode open'}.`,
    'Its API key, shown only now:',
    '',
    `  ${api_key.secret}`,
    '',
  ]
}

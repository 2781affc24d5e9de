/** `eaas tenant list`: lists the tenants of one installation, or of all installations in a file. */
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { INSTALLATION_ID, readJson, visible, visibleLine } from '@eaas/protocol'
import { type Config, ConfigError, readConfig } from '../../core/config.js'
import { listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import { authenticTenant, type OperatorTenant, viewForOperator } from '../../operators/tenants.js'
import type { Format } from './command.js'
import { print, printJson, table } from './output.js'
import { messageOf, withServices } from './with-services.js'

type Listed = OperatorTenant & { installation?: string }

interface Found {
  tenants: Listed[]
  failed: { installation?: string; tenant_id?: string; error: string }[] // for a tampered row, only the id is reported
}

/** Returns true if every row is as the server wrote it, and no tenant in the installation's log is missing. */
export async function tenantList(config: Config, format: Format): Promise<boolean> {
  return printFound(await findIn(config), format)
}

/**
 * As `tenantList`; also returns false if an installation could not be read, if two serve the same tenant, or if a tenant
 * moved to an installation that does not have it.
 */
export async function tenantListAll(file: string, format: Format): Promise<boolean> {
  const all: Found = { tenants: [], failed: [] }
  const serving = new Map<string, string>()
  for (const [installation, path] of readInstallations(file)) {
    try {
      const { tenants, failed } = await findIn(readConfig({ EAAS_CONFIG: path }))
      all.tenants.push(...tenants.map((tenant) => ({ installation, ...tenant })))
      all.failed.push(...failed.map((each) => ({ installation, ...each })))
      for (const { tenant_id } of tenants.filter(({ status }) => status === 'active')) {
        const other = serving.get(tenant_id)
        serving.set(tenant_id, installation)
        if (other === undefined) continue
        const error = `${other} serves it too: an older state of one of them was restored, or its database copied`
        all.failed.push({ installation, tenant_id, error })
      }
    } catch (error) {
      all.failed.push({ installation, error: messageOf(error) })
    }
  }
  const kept = new Set(all.tenants.flatMap(({ tenant_id, status }) => (status === 'moved' ? [] : tenant_id)))
  const error =
    'it moved, but no installation that could be read here has it. In this one, eaas tenant show says where it moved'
  for (const { installation = '', tenant_id } of all.tenants)
    if (!kept.has(tenant_id)) all.failed.push({ installation, tenant_id, error })
  return printFound(all, format)
}

function readInstallations(file: string): [string, string][] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new ConfigError(`the file of --all cannot be read (${(error as NodeJS.ErrnoException).code}): ${file}`)
  }
  const named = readJson(text)
  const isObject = typeof named === 'object' && named !== null && !Array.isArray(named)
  const members: [string, unknown][] = isObject ? Object.entries(named) : []
  if (members.length === 0 || !members.every(([, path]) => typeof path === 'string'))
    throw new ConfigError(`${file} must be a JSON object: the name of each installation, with its configuration file`)
  return members.map(([name, path]) => [name, resolve(dirname(file), String(path))])
}

async function findIn(config: Config): Promise<Found> {
  const found: Found = { tenants: [], failed: [] }
  await withServices(config, async (services) => {
    const { tenants: rows, leftOut, unread } = await listTenantsByVerifiedRecord(services)
    if (unread !== undefined) found.failed.push({ tenant_id: INSTALLATION_ID, error: messageOf(unread) })
    found.failed.push(...leftOut.map(({ tenant_id, reason }) => ({ tenant_id, error: reason })))
    for (const row of rows) {
      try {
        found.tenants.push(viewForOperator(authenticTenant(services, row)))
      } catch (error) {
        found.failed.push({ tenant_id: row.tenant_id, error: messageOf(error) })
      }
    }
  })
  return found
}

function printFound({ tenants, failed }: Found, { json }: Format): boolean {
  if (json) printJson({ tenants, count: tenants.length, ...(failed.length > 0 && { failed }) })
  else {
    const isOfAll = [...tenants, ...failed].some(({ installation }) => installation !== undefined)
    const cells = (tenant: Listed) => [
      ...(isOfAll ? [visible(tenant.installation ?? '')] : []),
      tenant.name,
      tenant.tenant_id,
      tenant.status,
      mode(tenant),
      quota(tenant),
      tenant.created_at,
    ]
    const titles = ['NAME', 'ID', 'STATUS', 'MODE', 'ENCRYPTS A MONTH', 'CREATED']
    print(...table(isOfAll ? ['INSTALLATION', ...titles] : titles, tenants.map(cells)))
    for (const { installation, tenant_id, error } of failed) {
      const where = [
        ...(installation === undefined ? [] : [`installation ${visible(installation)}`]),
        ...(tenant_id === undefined ? [] : [`tenant ${tenant_id}`]),
      ]
      process.stderr.write(`eaas: ${where.join(', ')}: ${visibleLine(error)}\n`)
    }
  }
  return failed.length === 0
}

export function mode({ envelope_only }: OperatorTenant): string {
  return envelope_only ? 'envelope only' : 'server mode open'
}

export function quota({ monthly_encrypt_quota }: OperatorTenant): string {
  return monthly_encrypt_quota === null ? 'no limit' : String(monthly_encrypt_quota)
}

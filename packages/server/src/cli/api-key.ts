/**
 * `eaas api-key`: lets the operator manage API keys, for instance for a tenant that has lost its last one.
 */
import { PERMISSIONS, type Permission } from '@eaas/protocol'
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config.js'
import { createApiKey } from '../operations/create-api-key.js'
import { listApiKeys } from '../operations/list-api-keys.js'
import { revokeApiKey } from '../operations/update-api-key.js'
import { commandConfig, JSON_OPTION, readList, readName, TENANT_OPTION } from './command.js'
import { counted, print, printJson, printOnce, table } from './output.js'
import { describeTenant, performIn } from './with-services.js'

/** Adds `eaas api-key` and its subcommands. */
export function addApiKey(program: Command): void {
  const apiKey = program
    .command('api-key')
    .description("Manage a tenant's API keys. Works whether or not a server is running.")

  apiKey
    .command('create')
    .description('Create an API key and print its secret, which is shown only once.')
    .addOption(TENANT_OPTION)
    .requiredOption('--name <name>', 'name of the API key, 1 to 255 characters', readName)
    .requiredOption('--permissions <list>', `comma-separated, or all:  ${PERMISSIONS.join(',')}`, readPermissions)
    .option('--expires-at <time>', 'RFC 3339 time with an offset (default: never)')
    .option('--allowed-ips <list>', 'comma-separated addresses and CIDR ranges (default: any)', readList)
    .addOption(JSON_OPTION)
    .action((options) => apiKeyCreate(commandConfig(), options))

  apiKey
    .command('list')
    .description("Print a tenant's API keys, without their secrets.")
    .addOption(TENANT_OPTION)
    .addOption(JSON_OPTION)
    .action((options) => apiKeyList(commandConfig(), options))

  apiKey
    .command('revoke')
    .description('Revoke an API key for good.')
    .argument('<id>', 'id of the API key')
    .addOption(TENANT_OPTION)
    .addOption(JSON_OPTION)
    .action((id, options) => apiKeyRevoke(commandConfig(), id, options))
}

function readPermissions(text: string): Permission[] {
  if (text === 'all') return [...PERMISSIONS]
  return readList(text).map((name) => {
    const permission = PERMISSIONS.find((known) => known === name)
    if (!permission) throw new InvalidArgumentError(`There is no permission ${name}.`)
    return permission
  })
}

interface OfTenant {
  /** the tenant's name or id */
  tenant: string
  json: boolean
}

interface CreateOptions extends OfTenant {
  name: string
  permissions: Permission[]
  expiresAt?: string
  allowedIps?: string[]
}

/** Creates an API key and prints its secret, which is shown only here. */
async function apiKeyCreate(
  config: Config,
  { tenant, name, permissions, expiresAt, allowedIps, json }: CreateOptions,
): Promise<void> {
  const fields = { name, permissions, expires_at: expiresAt ?? null, allowed_ips: allowedIps ?? null }
  const { owner, answer: apiKey } = await performIn(config, tenant, createApiKey(fields))
  const lines = json
    ? [JSON.stringify({ ...apiKey, tenant_id: owner.tenant_id })]
    : [
        `API key ${apiKey.name} (${apiKey.id}) of ${describeTenant(owner)} was created. Its secret, which is shown only once:`,
        '',
        `  ${apiKey.secret}`,
        '',
      ]
  await printOnce(
    lines,
    `API key ${apiKey.id} was created, but its secret could not be printed and is lost. Revoke it: ` +
      `eaas api-key revoke ${apiKey.id} --tenant ${owner.tenant_id}`,
  )
}

/** Prints a tenant's API keys, without their secrets. */
async function apiKeyList(config: Config, { tenant, json }: OfTenant): Promise<void> {
  const { owner, answer } = await performIn(config, tenant, listApiKeys())
  if (json) return printJson({ ...answer, tenant_id: owner.tenant_id })
  const rows = answer.api_keys.map(({ name, id, status, permissions, expires_at, allowed_ips, last_used_at }) => [
    name,
    id,
    status,
    expires_at ?? 'never',
    last_used_at ?? 'never',
    allowed_ips?.join(' ') ?? 'any',
    permissions.join(' '),
  ])
  print(
    ...table(['NAME', 'ID', 'STATUS', 'EXPIRES', 'LAST USED', 'ADDRESSES', 'PERMISSIONS'], rows),
    '',
    `${counted(rows.length, 'API key')} of ${describeTenant(owner)}`,
  )
}

/** Revokes an API key for good. */
async function apiKeyRevoke(config: Config, id: string, { tenant, json }: OfTenant): Promise<void> {
  const { owner } = await performIn(config, tenant, revokeApiKey({ api_key_id: id }))
  if (json) printJson({ id, status: 'revoked', tenant_id: owner.tenant_id })
  else print(`API key ${id} of ${describeTenant(owner)} is revoked.`)
}

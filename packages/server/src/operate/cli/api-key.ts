/** `eaas api-key`: lets the operator manage API keys, for instance for a tenant that has lost its last one. */
import { readId } from '@eaas/audit/command'
import { counted, PERMISSIONS, type Permission, visible, wire } from '@eaas/protocol'
import { type Command, InvalidArgumentError } from 'commander'
import { createApiKey, listApiKeys, revokeApiKey, updateApiKey } from '../../core/api/api-keys.js'
import type { Config } from '../../core/config.js'
import { addBudgetOptions, type BudgetOptions, chosenBudgets, describeBudgets } from './budget-options.js'
import {
  commandConfig,
  JSON_OPTION,
  type OfTenant,
  permissionsOf,
  readList,
  readName,
  SAME_ENVIRONMENT,
  TENANT_OPTION,
} from './command.js'
import { print, printJson, printNewApiKey, table } from './output.js'
import { describeTenant, performIn } from './with-services.js'

export const readPermissions = permissionsOf(PERMISSIONS)

export function addApiKey(program: Command): void {
  const apiKey = program
    .command('api-key')
    .description("Manage a tenant's API keys. Works whether or not a server is running.")
    .addHelpText('afterAll', SAME_ENVIRONMENT)

  addBudgetOptions(apiKey.command('create'))
    .description('Create an API key and print its secret, which is shown only once.')
    .addOption(TENANT_OPTION)
    .requiredOption('--name <name>', 'name of the API key, 1 to 255 characters', readName)
    .requiredOption('--permissions <list>', `comma-separated, or all:  ${PERMISSIONS.join(',')}`, readPermissions)
    .option('--expires-at <time>', 'RFC 3339 time with an offset (default: never)')
    .option('--allowed-ips <list>', 'comma-separated addresses and CIDR ranges (default: any)', readList)
    .option(
      '--keys <list>',
      "comma-separated ids of keys, and folders of names such as 'customers/*', or none (default: all)",
      readKeyList,
    )
    .addOption(JSON_OPTION)
    .action((options) => apiKeyCreate(commandConfig(), options))

  addBudgetOptions(apiKey.command('update'), { canRemove: true })
    .description('Change an API key; settings without an option stay the same. The log records it.')
    .argument('<id>', 'id of the API key', readId)
    .addOption(TENANT_OPTION)
    .option('--name <name>', 'name of the API key, 1 to 255 characters', readName)
    .option('--permissions <list>', 'comma-separated, or all; they replace the present ones', readPermissions)
    .option('--expires-at <time>', 'RFC 3339 time with an offset, or never; resumes an API key that has expired')
    .option('--allowed-ips <list>', 'comma-separated addresses and CIDR ranges, or any', orWord('any', readList))
    .option(
      '--keys <list>',
      'comma-separated ids of keys, and folders of names, or none or all',
      orWord('all', readKeyList),
    )
    .addOption(JSON_OPTION)
    .action((id, options) => apiKeyUpdate(commandConfig(), id, options))

  apiKey
    .command('list')
    .description("Print a tenant's API keys, without their secrets.")
    .addOption(TENANT_OPTION)
    .addOption(JSON_OPTION)
    .action((options) => apiKeyList(commandConfig(), options))

  apiKey
    .command('revoke')
    .description('Revoke an API key for good.')
    .argument('<id>', 'id of the API key', readId)
    .addOption(TENANT_OPTION)
    .addOption(JSON_OPTION)
    .action((id, options) => apiKeyRevoke(commandConfig(), id, options))
}

function readKeyList(text: string): string[] {
  const list = text === 'none' ? [] : readList(text)
  const { success, error } = wire.createApiKey.safeParse({ name: 'x', permissions: [], keys: list })
  if (!success) throw new InvalidArgumentError(`${wire.describeIssue(error, 'It is not valid')}.`)
  return list
}

/** A word for no limit stays a word, because the parser treats null as a missing value. */
function orWord<Word extends string, Value>(word: Word, read: (text: string) => Value): (text: string) => Value | Word {
  return (text) => (text === word ? word : read(text))
}

interface CreateOptions extends OfTenant, BudgetOptions {
  name: string
  permissions: Permission[]
  expiresAt?: string
  allowedIps?: string[]
  keys?: string[]
}

async function apiKeyCreate(
  config: Config,
  { tenant, name, permissions, expiresAt, allowedIps, keys, json, ...budgets }: CreateOptions,
): Promise<void> {
  const fields = {
    name,
    permissions,
    expires_at: expiresAt ?? null,
    allowed_ips: allowedIps ?? null,
    keys: keys ?? null,
    budgets: chosenBudgets(budgets) ?? null,
  }
  const { owner, answer: apiKey } = await performIn(config, tenant, createApiKey(fields))
  const { tenant_id } = owner
  const what = `API key ${visible(apiKey.name)} (${apiKey.id}) of ${describeTenant(owner)}`
  const revoke = `eaas api-key revoke ${apiKey.id} --tenant ${tenant_id}`
  await printNewApiKey({ ...apiKey, tenant_id }, { json, what, revoke })
}

interface UpdateOptions extends OfTenant, BudgetOptions {
  name?: string
  permissions?: Permission[]
  expiresAt?: string
  allowedIps?: string[] | 'any'
  keys?: string[] | 'all'
}

async function apiKeyUpdate(
  config: Config,
  id: string,
  { tenant, name, permissions, expiresAt, allowedIps, keys, json, ...budgets }: UpdateOptions,
): Promise<void> {
  const changes = {
    name,
    permissions,
    expires_at: expiresAt === 'never' ? null : expiresAt,
    allowed_ips: allowedIps === 'any' ? null : allowedIps,
    keys: keys === 'all' ? null : keys,
    budgets: chosenBudgets(budgets),
  }
  const { owner, answer } = await performIn(config, tenant, updateApiKey({ api_key_id: id, changes }))
  if (json) printJson({ ...answer, tenant_id: owner.tenant_id })
  else print(...table(COLUMNS, [cells(answer)]))
}

const COLUMNS = ['NAME', 'ID', 'STATUS', 'EXPIRES', 'LAST USED', 'ADDRESSES', 'KEYS', 'BUDGETS', 'PERMISSIONS']

function cells({ name, id, status, permissions, expires_at, ...rest }: wire.ApiKey): string[] {
  const { last_used_at, allowed_ips, keys, budgets } = rest
  const limits = [expires_at ?? 'never', last_used_at ?? 'never', allowed_ips?.join(' ') ?? 'any']
  const onKeys = keys === undefined ? 'all' : keys.join(' ') || 'none'
  const spent = budgets === undefined ? 'none' : describeBudgets(budgets)
  return [name, id, status, ...limits, onKeys, spent, permissions.join(' ')]
}

async function apiKeyList(config: Config, { tenant, json }: OfTenant): Promise<void> {
  const { owner, answer } = await performIn(config, tenant, listApiKeys())
  if (json) return printJson({ ...answer, tenant_id: owner.tenant_id })
  const rows = answer.api_keys.map(cells)
  print(...table(COLUMNS, rows), '', `${counted(rows.length, 'API key')} of ${describeTenant(owner)}`)
}

async function apiKeyRevoke(config: Config, id: string, { tenant, json }: OfTenant): Promise<void> {
  const { owner } = await performIn(config, tenant, revokeApiKey({ api_key_id: id }))
  if (json) printJson({ id, status: 'revoked', tenant_id: owner.tenant_id })
  else print(`API key ${id} of ${describeTenant(owner)} is revoked.`)
}

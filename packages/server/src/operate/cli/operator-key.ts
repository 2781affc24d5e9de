/** `eaas operator-key`: manages API keys for operators, whose automation manages tenants over HTTP. */
import { readId } from '@eaas/audit/command'
import { counted, OPERATOR_PERMISSIONS, type OperatorPermission, type wire } from '@eaas/protocol'
import type { Command } from 'commander'
import { createApiKey, listApiKeys, revokeApiKey } from '../../core/api/api-keys.js'
import {
  type Format,
  JSON_OPTION,
  permissionsOf,
  readAddresses,
  readName,
  readTime,
  SAME_ENVIRONMENT,
} from './command.js'
import { print, printJson, printNewApiKey, table } from './output.js'
import { performIn } from './with-services.js'

export function addOperatorKey(program: Command): void {
  const operatorKey = program
    .command('operator-key')
    .description(
      'Manage the API keys of operators, which servers with EAAS_OPERATOR_API=on accept below /admin/v1. Works whether or not a server is running.',
    )
    .addHelpText('afterAll', SAME_ENVIRONMENT)

  operatorKey
    .command('create')
    .description("Create an operator's API key and print its secret, which is shown only once.")
    .requiredOption('--name <name>', 'name of the API key, 1 to 255 characters', readName)
    .requiredOption(
      '--permissions <list>',
      `comma-separated, or all:  ${OPERATOR_PERMISSIONS.join(',')}`,
      permissionsOf(OPERATOR_PERMISSIONS, ' of operators'),
    )
    .option('--expires-at <time>', 'RFC 3339 time with an offset (default: never)', readTime)
    .option('--allowed-ips <list>', 'comma-separated addresses and CIDR ranges (default: any)', readAddresses)
    .addOption(JSON_OPTION)
    .action(operatorKeyCreate)

  operatorKey
    .command('list')
    .description("Print the operators' API keys, without their secrets.")
    .addOption(JSON_OPTION)
    .action(operatorKeyList)

  operatorKey
    .command('revoke')
    .description("Revoke an operator's API key for good.")
    .argument('<id>', 'id of the API key', readId)
    .addOption(JSON_OPTION)
    .action(operatorKeyRevoke)
}

interface CreateOptions extends Format {
  name: string
  permissions: OperatorPermission[]
  expiresAt?: string
  allowedIps?: string[]
}

/** Operators' API keys belong to the installation, whose own log records their changes. */
const OWNER = { installation: true }

async function operatorKeyCreate(options: CreateOptions): Promise<void> {
  const { name, permissions, expiresAt, allowedIps, json } = options
  const fields = { name, permissions, expires_at: expiresAt ?? null, allowed_ips: allowedIps ?? null }
  const { answer: apiKey } = await performIn(OWNER, createApiKey(fields))
  const what = `Operator's API key ${apiKey.name} (${apiKey.id})`
  await printNewApiKey(apiKey, { json, what, revoke: `eaas operator-key revoke ${apiKey.id}` })
}

async function operatorKeyList({ json }: Format): Promise<void> {
  const { answer: list } = await performIn(OWNER, listApiKeys())
  if (json) return printJson(list)
  const columns = ['NAME', 'ID', 'STATUS', 'EXPIRES', 'LAST USED', 'ADDRESSES', 'PERMISSIONS']
  print(...table(columns, list.api_keys.map(cells)), '', `${counted(list.count, 'API key')} of operators`)
}

function cells({ name, id, status, permissions, expires_at, last_used_at, allowed_ips }: wire.ApiKey): string[] {
  const limits = [expires_at ?? 'never', last_used_at ?? 'never', allowed_ips?.join(' ') ?? 'any']
  return [name, id, status, ...limits, permissions.join(' ')]
}

async function operatorKeyRevoke(id: string, { json }: Format): Promise<void> {
  await performIn(OWNER, revokeApiKey({ api_key_id: id }))
  if (json) printJson({ id, status: 'revoked' })
  else print(`Operator's API key ${id} is revoked.`)
}

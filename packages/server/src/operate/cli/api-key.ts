/** `eaas api-key`: lets the operator manage API keys, for instance of a tenant that has lost its last one. */
import {
  BUDGET_KINDS,
  BUDGET_WINDOWS,
  type Budgets,
  counted,
  PERMISSIONS,
  type Permission,
  visible,
  wire,
} from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { createApiKey, listApiKeys, revokeApiKey, updateApiKey } from '../../core/api/api-keys.js'
import * as cli from './command.js'
import { print, printJson, printNewApiKey, table } from './output.js'
import { describeTenant, performIn } from './with-services.js'

export const readPermissions = cli.permissionsOf(PERMISSIONS)

export function addApiKey(program: Command): void {
  const apiKey = program
    .command('api-key')
    .description("Manage a tenant's API keys. Works whether or not a server is running.")
    .addHelpText('afterAll', cli.SAME_ENVIRONMENT)

  addBudgetOptions(apiKey.command('create'))
    .description('Create an API key and print its secret, which is shown only once.')
    .addOption(cli.TENANT_OPTION)
    .requiredOption('--name <name>', 'name of the API key, 1 to 255 characters', cli.readName)
    .requiredOption('--permissions <list>', `comma-separated, or all:  ${PERMISSIONS.join(',')}`, readPermissions)
    .option('--expires-at <time>', 'RFC 3339 time with an offset (default: never)', cli.readTime)
    .option('--allowed-ips <list>', 'comma-separated addresses and CIDR ranges (default: any)', cli.readAddresses)
    .option(
      '--keys <list>',
      "comma-separated ids of keys, and folders of names such as 'customers/*', or none (default: all)",
      readKeyList,
    )
    .addOption(cli.JSON_OPTION)
    .action(apiKeyCreate)

  addBudgetOptions(apiKey.command('update'), { canRemove: true })
    .description('Change an API key; settings without an option stay the same. The log records it.')
    .argument('<id>', 'id of the API key', cli.readId)
    .addOption(cli.TENANT_OPTION)
    .option('--name <name>', 'name of the API key, 1 to 255 characters', cli.readName)
    .option('--permissions <list>', 'comma-separated, or all; they replace the present ones', readPermissions)
    .option(
      '--expires-at <time>',
      'RFC 3339 time with an offset, or never; resumes an API key that has expired',
      orWord('never', cli.readTime),
    )
    .option(
      '--allowed-ips <list>',
      'comma-separated addresses and CIDR ranges, or any',
      orWord('any', cli.readAddresses),
    )
    .option(
      '--keys <list>',
      'comma-separated ids of keys, and folders of names, or none or all',
      orWord('all', readKeyList),
    )
    .addOption(cli.JSON_OPTION)
    .action(apiKeyUpdate)

  apiKey
    .command('list')
    .description("Print a tenant's API keys, without their secrets.")
    .addOption(cli.TENANT_OPTION)
    .addOption(cli.JSON_OPTION)
    .action(apiKeyList)

  apiKey
    .command('revoke')
    .description('Revoke an API key for good.')
    .argument('<id>', 'id of the API key', cli.readId)
    .addOption(cli.TENANT_OPTION)
    .addOption(cli.JSON_OPTION)
    .action(apiKeyRevoke)
}

function readKeyList(text: string): string[] {
  const list = text === 'none' ? [] : cli.readList(text)
  const { success, error } = wire.createApiKey.safeParse({ name: 'x', permissions: [], keys: list })
  if (!success) throw new InvalidArgumentError(`${wire.describeIssue(error, 'It is not valid')}.`)
  return list
}

/** Returns the word itself instead of null, which the parser treats as a missing value. */
function orWord<Word extends string, Value>(word: Word, read: (text: string) => Value): (text: string) => Value | Word {
  return (text) => (text === word ? word : read(text))
}

interface CreateOptions extends cli.OfTenant, BudgetOptions {
  name: string
  permissions: Permission[]
  expiresAt?: string
  allowedIps?: string[]
  keys?: string[]
}

async function apiKeyCreate({
  tenant,
  name,
  permissions,
  expiresAt,
  allowedIps,
  keys,
  json,
  ...budgets
}: CreateOptions): Promise<void> {
  const fields = {
    name,
    permissions,
    expires_at: expiresAt ?? null,
    allowed_ips: allowedIps ?? null,
    keys: keys ?? null,
    budgets: chosenBudgets(budgets) ?? null,
  }
  const { owner, answer: apiKey } = await performIn({ tenant }, createApiKey(fields))
  const { tenant_id } = owner
  const what = `API key ${visible(apiKey.name)} (${apiKey.id}) of ${describeTenant(owner)}`
  const revoke = `eaas api-key revoke ${apiKey.id} --tenant ${tenant_id}`
  await printNewApiKey({ ...apiKey, tenant_id }, { json, what, revoke })
}

interface UpdateOptions extends cli.OfTenant, BudgetOptions {
  name?: string
  permissions?: Permission[]
  expiresAt?: string
  allowedIps?: string[] | 'any'
  keys?: string[] | 'all'
}

async function apiKeyUpdate(
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
  const { owner, answer } = await performIn({ tenant }, updateApiKey({ api_key_id: id, changes }))
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

async function apiKeyList({ tenant, json }: cli.OfTenant): Promise<void> {
  const { owner, answer } = await performIn({ tenant }, listApiKeys())
  if (json) return printJson({ ...answer, tenant_id: owner.tenant_id })
  const rows = answer.api_keys.map(cells)
  print(...table(COLUMNS, rows), '', `${counted(rows.length, 'API key')} of ${describeTenant(owner)}`)
}

async function apiKeyRevoke(id: string, { tenant, json }: cli.OfTenant): Promise<void> {
  const { owner } = await performIn({ tenant }, revokeApiKey({ api_key_id: id }))
  if (json) printJson({ id, status: 'revoked', tenant_id: owner.tenant_id })
  else print(`API key ${id} of ${describeTenant(owner)} is revoked.`)
}

const ITEM = new RegExp(`^(${BUDGET_KINDS.join('|')})=(\\d{1,15})/(${BUDGET_WINDOWS.join('|')})$`)
const FORM = `per ${BUDGET_WINDOWS.join(' or ')}, such as 'unwrap=600/minute,unwrap=50000/day,hash=1000/day'`

/** `none` stays a word here, because the parser treats null as a missing value. */
type BudgetOptions = { budgets?: Budgets | 'none'; whenOver?: 'refuse' | 'expire' }

/** `canRemove` lets `--budgets` take `none`. */
function addBudgetOptions(command: Command, { canRemove = false }: { canRemove?: boolean } = {}): Command {
  const read = (text: string) => (canRemove && text === 'none' ? text : readBudgetList(text))
  return command
    .option(
      '--budgets <list>',
      `how many data keys it may unwrap and values it may hash, ${FORM}${canRemove ? ', replacing all that it has, or none' : ' (default: any number)'}`,
      read,
    )
    .addOption(
      new Option(
        '--when-over <what>',
        'with --budgets: what happens when the API key exceeds one (default: refuse)',
      ).choices(['refuse', 'expire']),
    )
    .hook('preAction', (_, action) => {
      const { budgets, whenOver } = action.opts<BudgetOptions>()
      if (whenOver === undefined || (budgets !== undefined && budgets !== 'none')) return
      action.error('error: --when-over needs --budgets, which are set as a whole')
    })
}

/** Null for `none`, undefined without such options. */
function chosenBudgets({ budgets, whenOver }: BudgetOptions): Budgets | null | undefined {
  if (budgets === undefined) return undefined
  return budgets === 'none' ? null : { ...budgets, ...(whenOver && { when_over: whenOver }) }
}

function readBudgetList(text: string): Budgets {
  const budgets: Budgets = {}
  for (const item of cli.readList(text)) {
    const [, kind, limit, window] = ITEM.exec(item) ?? []
    if (!kind || !window)
      throw new InvalidArgumentError(`${item || 'An empty item'} is no budget; write a list ${FORM}.`)
    const budget = { ...budgets[kind as 'unwrap'] }
    const name = `per_${window as 'minute'}` as const
    if (budget[name] !== undefined) throw new InvalidArgumentError(`It has two budgets of ${kind} a ${window}.`)
    budgets[kind as 'unwrap'] = { ...budget, [name]: Number(limit) }
  }
  const { success, error } = wire.createApiKey.safeParse({ name: 'x', permissions: [], budgets })
  if (!success) throw new InvalidArgumentError(`${wire.describeIssue(error, 'It is not valid')}.`)
  return budgets
}

function describeBudgets(budgets: Budgets): string {
  const items = BUDGET_KINDS.flatMap((kind) =>
    BUDGET_WINDOWS.flatMap((window) => {
      const limit = budgets[kind]?.[`per_${window}`]
      return limit === undefined ? [] : [`${kind}=${limit}/${window}`]
    }),
  )
  return `${items.join(',')}${budgets.when_over === 'expire' ? ' (then expires)' : ''}`
}

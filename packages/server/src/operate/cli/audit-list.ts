/** `eaas audit list`: prints the newest entries of a log. */
import { readTime } from '@eaas/audit/command'
import {
  ACTIONS,
  type Action,
  counted,
  isWrapContext,
  PURPOSES,
  type Purpose,
  type WrapContext,
  type wire,
} from '@eaas/protocol'
import { type Command, Option } from 'commander'
import { listAudit } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { addLogOptions, commandConfig, JSON_OPTION, type OfLog, readId, readPositive, readRepeated } from './command.js'
import { print, printJson, table } from './output.js'
import { describeTenant, getLogOwner, withServices } from './with-services.js'

export function addAuditList(audit: Command): void {
  addLogOptions(audit.command('list'))
    .description('Print the newest entries.')
    .addOption(new Option('--action <action>', 'only this action').choices(ACTIONS))
    .option('--key-id <id>', 'only this key', readId)
    .option('--actor <id>', 'only entries of this actor, such as the id of an API key')
    .option('--on-behalf-of <user>', 'only calls that named this end user')
    .addOption(new Option('--purpose <purpose>', 'only wraps and unwraps for this purpose').choices(PURPOSES))
    .option(
      '--context <name=value>',
      'only wraps and unwraps whose context has this pair; may be repeated',
      readRepeated,
    )
    .option('--from <time>', 'only entries of this time or later, RFC 3339 with an offset', readTime)
    .option('--to <time>', 'only entries of this time or earlier', readTime)
    .option('--limit <number>', 'entries at most', readPositive, 50)
    .addOption(JSON_OPTION)
    .action((options) => auditList(commandConfig(), options))
}

interface ListOptions extends OfLog {
  action?: Action
  keyId?: string
  actor?: string
  onBehalfOf?: string
  purpose?: Purpose
  context?: readonly string[]
  from?: string
  to?: string
  limit: number
}

function readPairs(texts: readonly string[]): WrapContext {
  const pairs = Object.fromEntries(texts.map((text) => text.split(/=(.*)/s) as [string, string]))
  if (texts.some((text) => !text.includes('=')) || !isWrapContext(pairs)) {
    throw new Refusal('E_VALIDATION', 'each --context must be a pair, such as row=7')
  }
  return pairs
}

/** The refusal names the API's fields. */
function nameOptions(error: unknown): never {
  if (error instanceof Refusal && error.code === 'E_VALIDATION')
    throw new Refusal(error.code, `${error.message} (options: --from and --to)`)
  throw error
}

async function auditList(config: Config, options: ListOptions): Promise<void> {
  const { keyId: key_id, onBehalfOf: on_behalf_of, from: date_from, to: date_to, limit, json, ...more } = options
  const { action, actor, purpose, context, ...log } = more
  const named = { action, actor, purpose, context: context && readPairs(context) }
  const filter = { ...named, key_id, on_behalf_of, date_from, date_to }
  const page = { limit, offset: 0, order: 'desc' as const }
  const { owner, list } = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const operation = listAudit(filter, page)
    return { owner, list: await performAsSystem(services, owner.tenant_id, operation).catch(nameOptions) }
  })
  if (list.count < list.total) {
    process.stderr.write(
      `eaas: only the newest ${list.count} of ${counted(list.total, 'entry is', 'entries are')} shown; --limit shows more\n`,
    )
  }
  if (json) return printJson({ ...list, tenant_id: owner.tenant_id })
  const rows = list.logs.map((entry) => [
    String(entry.id),
    entry.created_at,
    entry.action,
    entry.key_id === null ? '-' : `${entry.key_id} v${entry.key_version ?? '-'}`,
    entry.actor,
    entry.ip_address ?? '-',
    describeMetadata(entry.metadata),
  ])
  print(
    ...table(['ID', 'TIME', 'ACTION', 'KEY', 'ACTOR', 'ADDRESS', 'METADATA'], rows),
    '',
    `${list.count} of ${counted(list.total, 'entry', 'entries')} of ${describeTenant(owner)}`,
  )
}

// The version is printed beside the key.
function describeMetadata({ key_version: _, ...metadata }: wire.Entry['metadata']): string {
  return Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata)
}

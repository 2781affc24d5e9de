/** `eaas audit`: reads, exports and verifies logs for the operator. */
import type { Readable } from 'node:stream'
import {
  createRightsReader,
  type ExportVerdict,
  encodeNoteKey,
  encodePublicKey,
  readTreeKeys,
  splitLines,
  verifyExport,
} from '@eaas/audit'
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
import { listAudit, readAuditCheckpoint, verifyAudit } from '../../core/api/audit.js'
import { exportAudit } from '../../core/api/audit-export.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { anchorNow } from '../../guard/anchor-heads.js'
import { auditDiff } from './audit-diff.js'
import { auditDiffAll } from './audit-diff-all.js'
import { addAuditFollow } from './audit-follow.js'
import { addAuditVerify } from './audit-verify.js'
import * as cli from './command.js'
import { readGivenIds, readOwnIds } from './kept-file.js'
import { createOut, print, printJson, showProgress, table } from './output.js'
import {
  describeTenant,
  type FoundTenant,
  getLogOwner,
  getTenant,
  performIn,
  recordOperation,
  withServices,
} from './with-services.js'

export function addAudit(program: Command): void {
  const audit = program
    .command('audit')
    .description('Read, export and verify the audit log.')
    .addHelpText('afterAll', cli.SAME_ENVIRONMENT)

  addAuditList(audit)
  addAuditVerify(audit)
  addAuditExport(audit)
  addAuditFollow(audit)

  cli
    .addLogOptions(audit.command('checkpoint'))
    .description(
      'Print a signed statement of where the log ends. Keep it where the operator of the database cannot reach it.',
    )
    .addOption(cli.JSON_OPTION)
    .action((options) => auditCheckpoint(cli.commandConfig(), options))

  audit
    .command('public-key')
    .description('Print the public key that exports and checkpoints are verified with.')
    .option('--tree', "the key for a witness's list of logs, under the name of the installation's log", false)
    .addOption(cli.JSON_OPTION)
    .action((options) => auditPublicKey(cli.commandConfig(), options))

  addAuditRights(audit)

  cli
    .addLogOptions(audit.command('diff'), ({ all }) => all === true)
    .description(
      'Show what a log lost in a restore or a failover, and what must be repeated. Exit code 1 if something differs, 3 if the comparison could not complete.',
    )
    .option('--checkpoint <file>', 'checkpoints that you kept (default: EAAS_CHECKPOINT_FILE)', cli.readInputFile)
    .option(
      '--export <file>',
      'an earlier export, or one of the abandoned database, which names each lost entry',
      cli.readKeptPath,
    )
    .addOption(cli.allOption("the installation's log and every tenant's, by the checkpoints", ['export']))
    .addOption(cli.JSON_OPTION)
    .action((options) =>
      cli.judge(() =>
        options.all ? auditDiffAll(cli.commandConfig(), options) : auditDiff(cli.commandConfig(), options),
      ),
    )
}

async function auditCheckpoint(config: Config, { json, ...log }: cli.OfLog): Promise<void> {
  const { tenant_id, checkpoint } = await withServices(config, async (services) => {
    // A checkpoint of the installation's log must cover the present state of every tenant.
    if (log.installation) await anchorNow(services, { evenIfSame: true })
    const { tenant_id } = await getLogOwner(services, log)
    return { tenant_id, checkpoint: await performAsSystem(services, tenant_id, readAuditCheckpoint()) }
  })
  if (json) printJson({ ...checkpoint, tenant_id })
  else process.stdout.write(checkpoint.checkpoint)
}

async function auditPublicKey(config: Config, { tree, json }: { tree: boolean; json: boolean }): Promise<void> {
  const known = await withServices(config, async ({ signingKey }) => signingKey.publicKeys)
  const keys = tree ? readTreeKeys(known).map(encodeNoteKey) : known
  const [public_key = '', ...earlier_keys] = keys.toReversed()
  if (json) printJson({ public_key, ...(earlier_keys.length > 0 && { earlier_keys }) })
  else print(public_key)
}

function addAuditRights(audit: Command): void {
  audit
    .command('rights')
    .description(
      'Show from the log in the database which API key could do what with which key at a time, and which copies of keys had been exported by then; from an export: npx @eaas/audit rights. Exit code 3 if the log was signed before that time: nothing proves what happened in between; 4 if an entry that the log lost, or that a clock dated later, may have changed rights by then.',
    )
    .addOption(cli.TENANT_OPTION)
    .option('--at <time>', 'RFC 3339 with an offset, as in 2026-05-03T12:00:00Z (default: now)', cli.readTime)
    .addOption(cli.KEY_ID_OPTION)
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', cli.EXIT_CODES)
    .action((options) =>
      cli.judge(() => auditRights(cli.commandConfig(), { at: new Date().toISOString(), ...options })),
    )
}

interface RightsCommand extends cli.OfTenant {
  at: string // RFC 3339 in UTC with milliseconds
  keyId?: string // only this key, and who could use it
}

/** Returns the exit code. Also verifies the rows. */
async function auditRights(config: Config, command: RightsCommand): Promise<number> {
  const reader = createRightsReader(command.at)
  const progress = showProgress('read')
  const onProgress = (entries: number) => progress(counted(entries, 'entry', 'entries'))
  let owner: FoundTenant | undefined
  const verdict = await withServices(config, async (services): Promise<ExportVerdict> => {
    owner = await getTenant(services, command.tenant)
    const { tenant_id } = owner
    const { valid, reason, broken_at } = await performAsSystem(services, tenant_id, verifyAudit({ onProgress }))
    if (!valid) {
      const broken = { ...(broken_at !== undefined && { broken_at }), ...(reason !== undefined && { reason }) }
      return { valid, verified_entries: 0, trusted_key: true, tenant_id, ...broken }
    }
    const lines = await performAsSystem(services, tenant_id, exportAudit({}))
    const publicKey = encodePublicKey(services.signingKey)
    return verifyExport(splitLines(lines), { publicKey, onEntry: reader.read, onProgress })
  }).finally(progress.done)
  return cli.printRights(verdict, reader.report(verdict), { ...command, owner: owner && describeTenant(owner) })
}

function addAuditList(audit: Command): void {
  cli
    .addLogOptions(audit.command('list'))
    .description('Print the newest entries.')
    .addOption(new Option('--action <action>', 'only this action').choices(ACTIONS))
    .option('--key-id <id>', 'only this key', cli.readId)
    .option('--actor <id>', 'only entries of this actor, such as the id of an API key')
    .option('--on-behalf-of <user>', 'only calls that named this end user')
    .addOption(new Option('--purpose <purpose>', 'only wraps and unwraps for this purpose').choices(PURPOSES))
    .option(
      '--context <name=value>',
      'only wraps and unwraps whose context has this pair; may be repeated',
      cli.readRepeated,
    )
    .option('--from <time>', 'only entries of this time or later, RFC 3339 with an offset', cli.readTime)
    .option('--to <time>', 'only entries of this time or earlier', cli.readTime)
    .option('--limit <number>', 'entries at most', cli.readPositive, 50)
    .addOption(cli.JSON_OPTION)
    .action(auditList)
}

interface ListOptions extends cli.OfLog {
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

/** The refusal names fields of the API, so this names the options instead. */
function nameOptions(error: unknown): never {
  if (error instanceof Refusal && error.code === 'E_VALIDATION')
    throw new Refusal(error.code, `${error.message} (options: --from and --to)`)
  throw error
}

async function auditList(options: ListOptions): Promise<void> {
  const config = cli.commandConfig()
  const { keyId: key_id, onBehalfOf: on_behalf_of, from: date_from, to: date_to, limit, json, ...more } = options
  const { action, actor, purpose, context, ...log } = more
  const named = { action, actor, purpose, context: context && readPairs(context) }
  const filter = { ...named, key_id, on_behalf_of, date_from, date_to }
  const page = { limit, offset: 0, order: 'desc' as const }
  const { owner, answer: list } = await performIn(log, listAudit(filter, page), config).catch(nameOptions)
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

// Leaves out the version, which is printed beside the key.
function describeMetadata({ key_version: _, ...metadata }: wire.Entry['metadata']): string {
  return Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata)
}

function addAuditExport(audit: Command): void {
  cli
    .addLogOptions(audit.command('export'))
    .description('Write the log as NDJSON, to be verified offline.')
    .option('--out <file>', cli.NEW_FILE, cli.readNewFile, cli.STANDARD_STREAM)
    .option('--after-id <id>', 'only the entries after this one', cli.readWhole)
    .addOption(
      new Option(
        '--since <file>',
        "link the tenant to the checkpoints of the installation's log in this file, so that eaas-audit verify can compare them; also done with those of EAAS_CHECKPOINT_FILE",
      )
        .argParser(cli.readInputFile)
        .conflicts('installation'),
    )
    .action((options) => auditExport(cli.commandConfig(), options))
}

async function auditExport(
  config: Config,
  { out, afterId, since, ...log }: cli.LogChoice & { out: string; afterId?: number; since?: string },
): Promise<void> {
  const progress = showProgress('exported')
  const isShown = out === cli.STANDARD_STREAM && process.stdout.isTTY // the terminal shows the lines themselves
  const owner = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const { tenant_id } = owner
    const known = log.installation ? [] : await readOwnIds(config.checkpointFile)
    const demanded = since === undefined ? [] : await readGivenIds(services, since)
    const toLink = log.installation ? undefined : { known, demanded }
    const scope = { after_id: afterId, withAnchor: true, toLink }
    const lines = await performAsSystem(services, tenant_id, exportAudit(scope))
    const watched = countBytes(lines, (bytes) => isShown || progress(`${Math.round(bytes / 1_048_576)} MiB`))
    await createOut(out, async (sink) => {
      for await (const chunk of watched) await sink.write(chunk)
    })
    await recordOperation(services, { action: 'installation.export', metadata: { tenant_id } })
    return owner
  }).finally(progress.done)
  if (out !== cli.STANDARD_STREAM) process.stderr.write(`exported the log of ${describeTenant(owner)} to ${out}\n`)
}

async function* countBytes(lines: Readable, onBytes: (bytes: number) => unknown): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of lines as AsyncIterable<Buffer>) {
    bytes += chunk.length
    onBytes(bytes)
    yield chunk
  }
}

/** `eaas audit`: reads, exports and verifies the log for the operator. */

import type { Readable } from 'node:stream'
import { describeStatement, encodeNoteKey, encodePublicKey, type KeptStatement, readTreeKeys } from '@eaas/audit'
import {
  assertWitnessable,
  describeWitnessed,
  EXIT_CODES,
  KEY_ID_OPTION,
  readTime,
  STANDARD_STREAM,
  viewWitnessed,
  WITNESS_OPTION,
} from '@eaas/audit/command'
import {
  ACTIONS,
  type Action,
  counted,
  foldUuid,
  isUuid,
  isWrapContext,
  PURPOSES,
  type Purpose,
  type WrapContext,
  type wire,
} from '@eaas/protocol'
import { type Command, Option } from 'commander'
import type { Config } from '../../core/config.js'
import { exportAudit } from '../../core/operations/export-audit.js'
import { listAudit, readAuditCheckpoint } from '../../core/operations/read-audit.js'
import { verifyAudit } from '../../core/operations/verify-audit.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { anchorNow } from '../../guard/anchor-heads.js'
import { acceptLostTenant, type LostTenant } from '../../guard/operations/accept-lost-tenant.js'
import { type Accepted, acceptRollback } from '../../guard/operations/accept-rollback.js'
import { auditAcceptAll } from './audit-accept-all.js'
import { auditAcceptClock } from './audit-accept-clock.js'
import { auditDiff } from './audit-diff.js'
import { auditDiffAll } from './audit-diff-all.js'
import { addAuditFollow } from './audit-follow.js'
import { auditRights } from './audit-rights.js'
import { auditVerifyAll } from './audit-verify-all.js'
import {
  addLogOptions,
  commandConfig,
  JSON_OPTION,
  judge,
  type LogChoice,
  NEW_FILE,
  NOT_VALID,
  NOT_VERIFIED,
  readId,
  readInputFile,
  readKeptPath,
  readName,
  readNewFile,
  readPositive,
  readRepeated,
  readWhole,
  SAME_ENVIRONMENT,
  succeed,
  TENANT_OPTION,
  UNUSED,
  VALID,
} from './command.js'
import { readGivenIds, readKept, readOwnIds, viewKept } from './kept-file.js'
import { print, printJson, showProgress, table } from './output.js'
import { createOut } from './sealed-file.js'
import {
  describeTenant,
  type FoundTenant,
  findTenant,
  getLogOwner,
  recordOperation,
  withServices,
} from './with-services.js'

/** Adds `eaas audit` and its subcommands. */
export function addAudit(program: Command): void {
  const audit = program
    .command('audit')
    .description('Read, export and verify the audit log.')
    .addHelpText('afterAll', SAME_ENVIRONMENT)

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

  addLogOptions(audit.command('verify'), ({ all }) => all === true)
    .description(
      'Verify the log in the database. The verdict names the checkpoint that was compared: entry, hash, time and key. Exit code 1 if it is not valid, 3 if verification could not complete or every entry was purged, 5 if it is valid but could not be compared with the checkpoint.',
    )
    .option(
      '--checkpoint <file>',
      'a file with a checkpoint that you kept, with which the log must agree; of several, the newest counts',
      readInputFile,
    )
    .addOption(WITNESS_OPTION)
    .addOption(
      new Option('--all', "the installation's log, its newest anchor and every tenant's log")
        .conflicts(['tenant', 'installation', 'from', 'to'])
        .default(false),
    )
    .option('--from <id>', 'the first entry to verify; the one before it is trusted', readPositive)
    .option(
      '--to <id>',
      'the last entry to verify; later entries are not checked, and the end of the log only if there are none',
      readPositive,
    )
    .addOption(JSON_OPTION)
    .action(async (options, command: Command) => {
      assertWitnessable(command)
      if (options.witness && !options.all && !options.installation) {
        command.error("error: option '--witness' needs '--installation' or '--all'", { exitCode: 2 })
      }
      if (options.from > options.to) command.error("error: option '--to' must not be before '--from'", { exitCode: 2 })
      await judge(() =>
        options.all ? auditVerifyAll(commandConfig(), options) : auditVerify(commandConfig(), options),
      )
    })

  addLogOptions(audit.command('export'))
    .description('Write the log as NDJSON, to be verified offline.')
    .option('--out <file>', NEW_FILE, readNewFile, STANDARD_STREAM)
    .option('--after-id <id>', 'only the entries after this one', readWhole)
    .addOption(
      new Option(
        '--since <file>',
        "link the tenant to the checkpoints of the installation's log in this file, so that eaas-audit verify can compare them; also done with those of EAAS_CHECKPOINT_FILE",
      )
        .argParser(readInputFile)
        .conflicts('installation'),
    )
    .action((options) => auditExport(commandConfig(), options))

  addAuditFollow(audit)

  addLogOptions(audit.command('checkpoint'))
    .description(
      'Print a signed statement of where the log ends. Keep it where the operator of the database cannot reach it.',
    )
    .addOption(JSON_OPTION)
    .action((options) => auditCheckpoint(commandConfig(), options))

  audit
    .command('public-key')
    .description('Print the public key that exports and checkpoints are verified with.')
    .option('--tree', "the key for a witness's list of logs, under the name of the installation's log", false)
    .addOption(JSON_OPTION)
    .action((options) => auditPublicKey(commandConfig(), options))

  audit
    .command('rights')
    .description(
      'Show from the log in the database which API key could do what with which key at a time, and which copies of keys had been exported by then; from an export: npx @eaas/audit rights. Exit code 3 if the log was signed before that time: nothing proves what happened in between; 4 if an entry that the log lost, or that a clock dated later, may have changed rights by then.',
    )
    .addOption(TENANT_OPTION)
    .option('--at <time>', 'RFC 3339 with an offset, as in 2026-05-03T12:00:00Z (default: now)', readTime)
    .addOption(KEY_ID_OPTION)
    .addOption(JSON_OPTION)
    .addHelpText('after', EXIT_CODES)
    .action((options) => judge(() => auditRights(commandConfig(), { at: new Date().toISOString(), ...options })))

  addLogOptions(audit.command('diff'), ({ all }) => all === true)
    .description(
      'Show what a log lost in a restore or a failover, and what must be repeated. Exit code 1 if something differs, 3 if the comparison could not complete.',
    )
    .option('--checkpoint <file>', 'checkpoints that you kept (default: EAAS_CHECKPOINT_FILE)', readInputFile)
    .option(
      '--export <file>',
      'an earlier export, or one of the abandoned database, which names each lost entry',
      readKeptPath,
    )
    .addOption(
      new Option('--all', "the installation's log and every tenant's, by the checkpoints")
        .conflicts(['tenant', 'installation', 'export'])
        .default(false),
    )
    .addOption(JSON_OPTION)
    .action((options) =>
      judge(() => (options.all ? auditDiffAll(commandConfig(), options) : auditDiff(commandConfig(), options))),
    )

  addLogOptions(audit.command('accept-rollback'), ({ all, fromDiff }) => all === true && fromDiff !== undefined)
    .description(
      'Accept that a log lost entries in a restore or a failover. The log records it, and the tenant is served again.',
    )
    .addOption(
      new Option('--all', 'every log that a diff shows as different (--from-diff)')
        .conflicts(['tenant', 'installation'])
        .default(false),
    )
    .addOption(
      new Option(
        '--from-diff <file>',
        'the output of eaas audit diff --all --json; a log that differs more by now is refused',
      )
        .argParser(readInputFile)
        .conflicts(['tenant', 'installation']),
    )
    .requiredOption('--reason <text>', 'reason to record in the log, 1 to 255 characters', readName)
    .addOption(JSON_OPTION)
    .action((options) =>
      options.all ? succeed(auditAcceptAll(commandConfig(), options)) : auditAcceptRollback(commandConfig(), options),
    )

  audit
    .command('accept-clock')
    .description(
      'Show the logs whose last entries a wrong clock dated in the future. With a reason, each log records that, and continues from the present time.',
    )
    .option('--reason <text>', 'reason to record in the logs, 1 to 255 characters', readName)
    .addOption(JSON_OPTION)
    .action((options) => succeed(auditAcceptClock(commandConfig(), options)))
}

interface OfLog extends LogChoice {
  json: boolean
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

/** Reads the pairs of a context. @throws Refusal E_VALIDATION */
function readPairs(texts: readonly string[]): WrapContext {
  const pairs = Object.fromEntries(texts.map((text) => text.split(/=(.*)/s) as [string, string]))
  if (texts.some((text) => !text.includes('=')) || !isWrapContext(pairs)) {
    throw new Refusal('E_VALIDATION', 'each --context must be a pair, such as row=7')
  }
  return pairs
}

/** Names the options that shorten a range that is too long: the refusal names the API's fields. */
function nameOptions(error: unknown): never {
  if (error instanceof Refusal && error.code === 'E_VALIDATION')
    throw new Refusal(error.code, `${error.message} (options: --from and --to)`)
  throw error
}

/** Prints the newest entries. */
async function auditList(
  config: Config,
  { keyId, onBehalfOf, from, to, limit, json, ...options }: ListOptions,
): Promise<void> {
  const { action, actor, purpose, context, ...log } = options
  const filter = {
    action,
    actor,
    purpose,
    context: context && readPairs(context),
    key_id: keyId,
    on_behalf_of: onBehalfOf,
    date_from: from,
    date_to: to,
  }
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
  if (json) {
    printJson({ ...list, tenant_id: owner.tenant_id })
    return
  }
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

interface VerifyOptions extends OfLog {
  /** a file with a checkpoint, in any form (kept-checkpoint.ts) */
  checkpoint?: string
  /** keys of witnesses that must have cosigned it */
  witness?: string[]
  /** first and last entry of a stretch */
  from?: number
  to?: number
  /** every log */
  all: boolean
}

/** Verifies a log in place; returns the exit code. */
async function auditVerify(
  config: Config,
  { checkpoint: file, witness, from, to, json, all: _, ...log }: VerifyOptions,
): Promise<number> {
  const progress = showProgress('verified')
  const scope = {
    after_id: from === undefined ? undefined : from - 1,
    through_id: to,
    onProgress: (entries: number) => progress(counted(entries, 'entry', 'entries')),
  }
  const { owner, answer, witnessed, checkpoint, public_key } = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const { tenant_id } = owner
    const { note, signers, witnessed } = await readKept(services, tenant_id, { checkpoint: file, witness })
    const answer = await performAsSystem(services, tenant_id, verifyAudit({ ...scope, checkpoint: note, signers }))
    const { valid, verified_entries } = answer
    await recordOperation(services, { action: 'installation.verify', metadata: { tenant_id, valid, verified_entries } })
    const kept = viewKept(note)
    const checkpoint = kept && answer.checkpoint && { ...kept, ...answer.checkpoint }
    return { owner, answer, witnessed, checkpoint, public_key: encodePublicKey(services.signingKey) }
  }).finally(progress.done)
  if (json) {
    const compared = checkpoint && { checkpoint, public_key }
    printJson({ ...answer, ...compared, ...viewWitnessed(witnessed), tenant_id: owner.tenant_id, name: owner.name })
  } else {
    const view = describe(answer, { from, to, owner, checkpoint, public_key })
    print(...view, ...(answer.valid ? describeWitnessed(witnessed) : []))
  }
  if (!answer.valid) return NOT_VALID
  if (isPurged(answer, to)) return NOT_VERIFIED
  return answer.checkpoint?.compared === false ? UNUSED : VALID
}

/** Whether a stretch that ends with this entry was purged. */
function isPurged({ purged_through }: wire.Verification, to: number | undefined): to is number {
  return to !== undefined && to <= purged_through
}

type ComparedCheckpoint = KeptStatement & { compared: boolean }

interface Described {
  from: number | undefined
  to: number | undefined
  owner: FoundTenant
  /** the checkpoint that the log was verified against */
  checkpoint: ComparedCheckpoint | undefined
  public_key: string
}

function describe(
  verification: wire.Verification,
  { from = 1, to, owner, checkpoint, public_key }: Described,
): string[] {
  const { valid, reason, broken_at, verified_entries, total_entries, purged_through } = verification
  if (valid && isPurged(verification, to)) {
    return [
      `Nothing was verified: entries ${from} to ${to} were purged; the purges deleted everything through entry ${purged_through}.`,
      `log         of ${describeTenant(owner)}`,
    ]
  }
  return [
    valid ? 'The log is valid.' : `The log is NOT valid: ${reason}, entry ${broken_at}.`,
    `log         of ${describeTenant(owner)}`,
    `entries     ${verified_entries} of ${total_entries} verified`,
    ...(purged_through === 0 ? [] : [`purged      through ${purged_through}`]),
    ...(valid && checkpoint ? describeKept(checkpoint, public_key) : []),
  ]
}

function describeKept(checkpoint: ComparedCheckpoint, public_key: string): string[] {
  const what = describeStatement(checkpoint)
  return [
    checkpoint.compared
      ? `checkpoint  agrees: ${what}`
      : `UNUSED      the checkpoint is of ${what}: that entry is not among the verified ones`,
    `by key      ${public_key}`,
  ]
}

/** Writes a tenant's log as NDJSON, to a file or to standard output. */
async function auditExport(
  config: Config,
  { out, afterId, since, ...log }: LogChoice & { out: string; afterId?: number; since?: string },
): Promise<void> {
  const progress = showProgress('exported')
  const isShown = out === STANDARD_STREAM && process.stdout.isTTY // the terminal shows the lines themselves
  const owner = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const { tenant_id } = owner
    const toLink = log.installation
      ? undefined
      : {
          known: await readOwnIds(config.checkpointFile),
          demanded: since === undefined ? [] : await readGivenIds(since),
        }
    const scope = { after_id: afterId, withAnchor: true, toLink }
    const lines = await performAsSystem(services, tenant_id, exportAudit(scope))
    const watched = countBytes(lines, (bytes) => isShown || progress(`${Math.round(bytes / 1_048_576)} MiB`))
    await createOut(out, async (sink) => {
      for await (const chunk of watched) await sink.write(chunk)
    })
    await recordOperation(services, { action: 'installation.export', metadata: { tenant_id } })
    return owner
  }).finally(progress.done)
  if (out !== STANDARD_STREAM) process.stderr.write(`exported the log of ${describeTenant(owner)} to ${out}\n`)
}

async function* countBytes(lines: Readable, onBytes: (bytes: number) => unknown): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of lines as AsyncIterable<Buffer>) {
    bytes += chunk.length
    onBytes(bytes)
    yield chunk
  }
}

/** Prints a signed statement of where a tenant's log ends. */
async function auditCheckpoint(config: Config, { json, ...log }: OfLog): Promise<void> {
  const { tenant_id, checkpoint } = await withServices(config, async (services) => {
    // A checkpoint of the installation's log must cover every tenant's present state.
    if (log.installation) await anchorNow(services, { evenIfSame: true })
    const { tenant_id } = await getLogOwner(services, log)
    return { tenant_id, checkpoint: await performAsSystem(services, tenant_id, readAuditCheckpoint()) }
  })
  if (json) printJson({ ...checkpoint, tenant_id })
  else process.stdout.write(checkpoint.checkpoint)
}

/** Prints the public key that checkpoints and exports are verified with. */
async function auditPublicKey(config: Config, { tree, json }: { tree: boolean; json: boolean }): Promise<void> {
  const known = await withServices(config, async ({ signingKey }) => signingKey.publicKeys)
  const keys = tree ? readTreeKeys(known).map(encodeNoteKey) : known
  const [public_key = '', ...earlier_keys] = keys.toReversed()
  if (json) printJson({ public_key, ...(earlier_keys.length > 0 && { earlier_keys }) })
  else print(public_key)
}

/** Accepts that a tenant's log lost entries, so that the tenant is served again; the log records it. */
async function auditAcceptRollback(
  config: Config,
  { reason, json, ...log }: OfLog & { reason: string },
): Promise<void> {
  const progress = showProgress('verified')
  let owner: FoundTenant | undefined
  const accepted = await withServices(
    config,
    async (services) => {
      const tenant = foldUuid(log.tenant ?? '')
      const isLost = isUuid(tenant) && (await findTenant(services, tenant)) === undefined
      if (isLost) return acceptLostTenant(services, tenant, reason)
      owner = await getLogOwner(services, log)
      return acceptRollback(services, owner.tenant_id, {
        reason,
        onProgress: (entries) => progress(counted(entries, 'entry', 'entries')),
      })
    },
    { comparesAll: true },
  ).finally(progress.done)
  if (json) {
    printJson('entry_id' in accepted ? accepted : { ...accepted, tenant_gone: true, reason })
    return
  }
  if (!('entry_id' in accepted)) {
    print(...describeLostTenant(accepted, reason))
    return
  }
  print(...(owner ? [`The log is of ${describeTenant(owner)}.`] : []), ...describeAccepted(accepted, log))
}

function describeAccepted(
  { entry_id, witnessed_id, agrees_through, head_fault, named_id, compared, last }: Accepted,
  { installation }: LogChoice,
): string[] {
  const isLost = (witnessed_id > 0 && agrees_through < witnessed_id) || named_id !== undefined
  return [
    ...(head_fault === undefined
      ? []
      : [
          `The head of the log was made again (${head_fault}): of entry ${entry_id - 1}, the last one, and all before it are valid.`,
        ]),
    ...(named_id === undefined
      ? []
      : [`The installation's log names entry ${named_id} of this log, which it no longer has.`]),
    witnessed_id < entry_id
      ? `Accepted. Entry ${entry_id} of the log records it; a server had seen entry ${witnessed_id} before.`
      : `Accepted: entries after ${entry_id - 1}, through ${witnessed_id} at least, are lost. Entry ${entry_id} of the log records it.`,
    installation
      ? 'Every server does work of the operator again within a second or two.'
      : 'Every server serves the tenant again within a second or two.',
    ...(compared === null
      ? []
      : [
          `The newest entry that it could be compared with is ${compared.id}, of ${compared.created_at}. The log has it.`,
        ]),
    ...(compared === null && !isLost
      ? [
          'The log could be compared with nothing: neither an alarm nor an anchor nor a checkpoint file knew an entry of it.',
        ]
      : []),
    isLost
      ? 'The changes of the lost entries are undone: repeat revocations and rotations. See: eaas audit diff --help'
      : `Before this one, the log ended with entry ${last.id}, of ${last.created_at}. If something was changed after that time, the change is undone, ` +
        'and this command cannot know of it: unless you are sure that nothing was, check every API key and key. See: eaas audit diff --help',
  ]
}

function describeLostTenant(
  { tenant_id, is_alarm_proven, witnessed_id, witnessed_hash, raised_at }: LostTenant,
  reason: string,
): string[] {
  return [
    `Accepted: tenant ${tenant_id} is gone from the database. Its alarm is cleared.`,
    'The tenant, its log and all its keys are lost unless a newer backup is restored: data encrypted under those keys cannot be decrypted.',
    "The installation's log records it (eaas audit list --installation). Keep these lines too, and the checkpoint files:",
    '',
    `witness  entry ${witnessed_id}, hash ${witnessed_hash}, alarm of ${raised_at}`,
    `reason   ${reason}`,
    '',
    is_alarm_proven
      ? 'The witness is the latest of the alarm, the newest anchor and the checkpoint file. If the tenant is back in an older state, it is alarmed about.'
      : 'The alarm in the database could not be proven, so servers may have known of later entries. If the tenant is back, it is alarmed about in any state.',
    'Every server clears its alarm within a second or two.',
  ]
}

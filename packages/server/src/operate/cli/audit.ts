/** `eaas audit`: reads, exports and verifies the log for the operator. */
import { encodeNoteKey, readTreeKeys } from '@eaas/audit'
import { foldUuid, isUuid } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import { readAuditCheckpoint } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { anchorNow } from '../../guard/anchor-heads.js'
import { acceptLostTenant, type LostTenant } from '../../guard/operations/accept-lost-tenant.js'
import { type Accepted, acceptRollback } from '../../guard/operations/accept-rollback.js'
import { auditAcceptAll } from './audit-accept-all.js'
import { auditAcceptClock } from './audit-accept-clock.js'
import { auditDiff } from './audit-diff.js'
import { auditDiffAll } from './audit-diff-all.js'
import { addAuditExport } from './audit-export.js'
import { addAuditFollow } from './audit-follow.js'
import { addAuditList } from './audit-list.js'
import { addAuditRights } from './audit-rights.js'
import { addAuditVerify } from './audit-verify.js'
import {
  addLogOptions,
  commandConfig,
  JSON_OPTION,
  judge,
  type LogChoice,
  type OfLog,
  readInputFile,
  readKeptPath,
  readName,
  SAME_ENVIRONMENT,
  succeed,
} from './command.js'
import { print, printJson, showProgress } from './output.js'
import { describeTenant, type FoundTenant, findTenant, getLogOwner, withServices } from './with-services.js'

/** Adds `eaas audit` and its subcommands. */
export function addAudit(program: Command): void {
  const audit = program
    .command('audit')
    .description('Read, export and verify the audit log.')
    .addHelpText('afterAll', SAME_ENVIRONMENT)

  addAuditList(audit)
  addAuditVerify(audit)
  addAuditExport(audit)
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

  addAuditRights(audit)

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
        onProgress: (entries) => progress(`${entries} entries`),
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

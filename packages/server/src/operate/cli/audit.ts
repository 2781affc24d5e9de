/** `eaas audit`: reads, exports and verifies the log for the operator. */
import { encodeNoteKey, readTreeKeys } from '@eaas/audit'
import { type Command, Option } from 'commander'
import { readAuditCheckpoint } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { anchorNow } from '../../guard/anchor-heads.js'
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
  type OfLog,
  readInputFile,
  readKeptPath,
  SAME_ENVIRONMENT,
} from './command.js'
import { print, printJson } from './output.js'
import { getLogOwner, withServices } from './with-services.js'

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

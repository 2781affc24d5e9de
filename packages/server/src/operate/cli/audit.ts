/** `eaas audit`: reads, exports and verifies the log for the operator. */
import {
  createRightsReader,
  type ExportVerdict,
  encodeNoteKey,
  encodePublicKey,
  readTreeKeys,
  splitLines,
  verifyExport,
} from '@eaas/audit'
import { EXIT_CODES, KEY_ID_OPTION, printRights, readTime, showProgress } from '@eaas/audit/command'
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import { readAuditCheckpoint, verifyAudit } from '../../core/api/audit.js'
import { exportAudit } from '../../core/api/audit-export.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { anchorNow } from '../../guard/anchor-heads.js'
import { auditDiff } from './audit-diff.js'
import { auditDiffAll } from './audit-diff-all.js'
import { addAuditExport } from './audit-export.js'
import { addAuditFollow } from './audit-follow.js'
import { addAuditList } from './audit-list.js'
import { addAuditVerify } from './audit-verify.js'
import {
  addLogOptions,
  allOption,
  commandConfig,
  JSON_OPTION,
  judge,
  type OfLog,
  type OfTenant,
  readInputFile,
  readKeptPath,
  SAME_ENVIRONMENT,
  TENANT_OPTION,
} from './command.js'
import { print, printJson } from './output.js'
import { describeTenant, type FoundTenant, getLogOwner, getTenant, withServices } from './with-services.js'

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
    .addOption(allOption("the installation's log and every tenant's, by the checkpoints", ['export']))
    .addOption(JSON_OPTION)
    .action((options) =>
      judge(() => (options.all ? auditDiffAll(commandConfig(), options) : auditDiff(commandConfig(), options))),
    )
}

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
    .addOption(TENANT_OPTION)
    .option('--at <time>', 'RFC 3339 with an offset, as in 2026-05-03T12:00:00Z (default: now)', readTime)
    .addOption(KEY_ID_OPTION)
    .addOption(JSON_OPTION)
    .addHelpText('after', EXIT_CODES)
    .action((options) => judge(() => auditRights(commandConfig(), { at: new Date().toISOString(), ...options })))
}

interface RightsCommand extends OfTenant {
  at: string // RFC 3339 in UTC with milliseconds
  keyId?: string // only this key, and who could do what with it
}

/** Returns the exit code. The rows are verified too. */
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
  return printRights(verdict, reader.report(verdict), { ...command, owner: owner && describeTenant(owner) })
}

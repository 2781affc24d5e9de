/** `eaas audit verify`: verifies a log in the database; with `--all`, every log (audit-verify-all.ts). */
import { describeStatement, encodePublicKey, type KeptStatement } from '@eaas/audit'
import { assertWitnessable, describeWitnessed, viewWitnessed, WITNESS_OPTION } from '@eaas/audit/command'
import { counted, type wire } from '@eaas/protocol'
import type { Command } from 'commander'
import { verifyAudit } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { auditVerifyAll } from './audit-verify-all.js'
import {
  addLogOptions,
  allOption,
  commandConfig,
  JSON_OPTION,
  judge,
  NOT_VALID,
  NOT_VERIFIED,
  type OfLog,
  readInputFile,
  readPositive,
  UNUSED,
  VALID,
} from './command.js'
import { readKept, viewKept } from './kept-file.js'
import { print, printJson, showProgress } from './output.js'
import { describeTenant, type FoundTenant, getLogOwner, recordOperation, withServices } from './with-services.js'

export function addAuditVerify(audit: Command): void {
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
    .addOption(allOption("the installation's log, its newest anchor and every tenant's log", ['from', 'to']))
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
        command.error("error: option '--witness' needs '--installation' or '--all'")
      }
      if (options.from > options.to) command.error("error: option '--to' must not be before '--from'")
      await judge(() =>
        options.all ? auditVerifyAll(commandConfig(), options) : auditVerify(commandConfig(), options),
      )
    })
}

interface VerifyOptions extends OfLog {
  checkpoint?: string // a file with a checkpoint, in any form (kept-checkpoint.ts)
  witness?: string[] // keys of witnesses that must have cosigned it
  from?: number // first entry of a stretch
  to?: number // its last
  all: boolean
}

/** Returns the exit code. */
async function auditVerify(config: Config, options: VerifyOptions): Promise<number> {
  const { checkpoint: file, witness, from, to, json, all: _, ...log } = options
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
  checkpoint: ComparedCheckpoint | undefined // the one that the log was verified against
  public_key: string
}

function describe(verification: wire.Verification, described: Described): string[] {
  const { from = 1, to, owner, checkpoint, public_key } = described
  const { valid, reason, broken_at, verified_entries, total_entries, purged_through } = verification
  if (valid && isPurged(verification, to)) {
    return [
      `Nothing was verified: entries ${from} to ${to} were purged; the purges deleted everything through entry ${purged_through}.`,
      `log         of ${describeTenant(owner)}`,
    ]
  }
  const what = checkpoint && describeStatement(checkpoint)
  const compared = checkpoint?.compared
    ? `checkpoint  agrees: ${what}`
    : `UNUSED      the checkpoint is of ${what}: that entry is not among the verified ones`
  return [
    valid ? 'The log is valid.' : `The log is NOT valid: ${reason}, entry ${broken_at}.`,
    `log         of ${describeTenant(owner)}`,
    `entries     ${verified_entries} of ${total_entries} verified`,
    ...(purged_through === 0 ? [] : [`purged      through ${purged_through}`]),
    ...(valid && checkpoint ? [compared, `by key      ${public_key}`] : []),
  ]
}

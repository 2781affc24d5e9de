/** `eaas audit verify`: verifies a log in the database, or with `--all` every log and the newest anchor. */
import { describeStatement, encodePublicKey, type KeptStatement } from '@eaas/audit'
import { counted, INSTALLATION_ID, type wire } from '@eaas/protocol'
import type { Command } from 'commander'
import { readKeptCheckpoint, verifyAudit } from '../../core/api/audit.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { listAcceptanceIds } from '../../guard/store/alarms.js'
import { type LogVerdict, type VerifiedLogs, verifyAll } from '../jobs/verify-all.js'
import * as cli from './command.js'
import { readKept, viewKept } from './kept-file.js'
import { print, printJson, showProgress, table } from './output.js'
import {
  describeTenant,
  type FoundTenant,
  getLogOwner,
  messageOf,
  recordOperation,
  withServices,
} from './with-services.js'

export function addAuditVerify(audit: Command): void {
  cli
    .addLogOptions(audit.command('verify'), ({ all }) => all === true)
    .description(
      'Verify the log in the database. The verdict names the checkpoint that was compared: entry, hash, time and key. Exit code 1 if it is not valid, 3 if verification could not complete or every entry was purged, 5 if it is valid but could not be compared with the checkpoint.',
    )
    .option(
      '--checkpoint <file>',
      'a file with a checkpoint that you kept, with which the log must agree; of several of a log, the newest counts',
      cli.readInputFile,
    )
    .addOption(cli.WITNESS_OPTION)
    .addOption(cli.allOption("the installation's log, its newest anchor and every tenant's log", ['from', 'to']))
    .option('--from <id>', 'the first entry to verify; the one before it is trusted', cli.readPositive)
    .option(
      '--to <id>',
      'the last entry to verify; later entries are not checked, and the end of the log only if there are none',
      cli.readPositive,
    )
    .addOption(cli.JSON_OPTION)
    .action(async (options, command: Command) => {
      cli.assertWitnessable(command)
      if (options.witness && !options.all && !options.installation) {
        command.error("error: option '--witness' needs '--installation' or '--all'")
      }
      if (options.from > options.to) command.error("error: option '--to' must not be before '--from'")
      await cli.judge(() =>
        options.all ? auditVerifyAll(cli.commandConfig(), options) : auditVerify(cli.commandConfig(), options),
      )
    })
}

interface VerifyOptions extends cli.OfLog {
  checkpoint?: string // a file with a checkpoint, in any form (kept-checkpoint.ts)
  witness?: string[] // keys of witnesses that must have cosigned it
  from?: number // first entry of a stretch
  to?: number // its last
  all: boolean
}

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
    printJson({ ...answer, ...compared, ...cli.viewWitnessed(witnessed), tenant_id: owner.tenant_id, name: owner.name })
  } else {
    const view = describe(answer, { from, to, owner, checkpoint, public_key })
    print(...view, ...(answer.valid ? cli.describeWitnessed(witnessed) : []))
  }
  if (!answer.valid) return cli.NOT_VALID
  if (isPurged(answer, to)) return cli.NOT_VERIFIED
  return answer.checkpoint?.compared === false ? cli.UNUSED : cli.VALID
}

function isPurged({ purged_through }: wire.Verification, to: number | undefined): to is number {
  return to !== undefined && to <= purged_through
}

type ComparedCheckpoint = KeptStatement & { compared: boolean }

interface Described {
  from: number | undefined
  to: number | undefined
  owner: FoundTenant
  checkpoint: ComparedCheckpoint | undefined // the one against which the log was verified
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

/** Returns the exit code. @throws Refusal if no log is invalid, but one was not verified or covered */
async function auditVerifyAll(config: Config, { json, ...file }: VerifyOptions): Promise<number> {
  const progress = showProgress('verified')
  const { witnessed, coverage, public_key, ...all } = await withServices(config, async (services) => {
    const { all, note, signers, witnessed } = await readKept(services, INSTALLATION_ID, file)
    const keys = signers ?? services.signingKey.publicKeys
    const checkpoint = note === undefined ? undefined : readKeptCheckpoint(note, INSTALLATION_ID, keys)
    const result = await verifyAll(services, {
      checkpoint,
      kept: all,
      onProgress: (name, entries) => progress(`${name}: ${counted(entries, 'entry', 'entries')}`),
    })
    const own = result.verdicts.find(isOwn)
    let coverage: Coverage | undefined
    if (checkpoint && own?.valid) coverage = await findCoverage(services, checkpoint.last_id)
    await recordOperation(services, { action: 'installation.verify', metadata: result.counts })
    const statement = viewKept(note)
    const covered = coverage && statement && { ...statement, ...coverage }
    return { ...result, witnessed, coverage: covered, public_key: encodePublicKey(services.signingKey) }
  }).finally(progress.done)
  const { verdicts, invalid, unverified } = all
  const isValid = invalid.length === 0
  const kept = { ...cli.viewWitnessed(witnessed), ...(coverage && { checkpoint: coverage, public_key }) }
  const failed = unverified.map(({ error, ...log }) => ({ ...log, error: messageOf(error) }))
  if (json) printJson({ valid: isValid && failed.length === 0, logs: verdicts, unverified: failed, ...kept })
  else {
    const compared = coverage && describeCompared({ ...coverage, public_key }, verdicts)
    const agrees = isValid ? [...(compared ?? []), ...cli.describeWitnessed(witnessed)] : []
    print(...describeAll(all), ...agrees)
  }
  if (isValid && unverified.length > 0) {
    throw new Refusal('E_UNAVAILABLE', `${counted(unverified.length, 'log')} could not be verified`)
  }
  if (isValid && coverage?.covers_tenants === false) throw new Refusal('E_STATE', notCovering(coverage))
  if (!isValid) return cli.NOT_VALID
  return verdicts.some(isUnused) ? cli.UNUSED : cli.VALID
}

function describeCompared(
  coverage: KeptStatement & Coverage & { public_key: string },
  verdicts: readonly LogVerdict[],
): string[] {
  const [own, tenants] = [verdicts.find(isOwn), verdicts.filter((verdict) => !isOwn(verdict))]
  const compared = tenants.filter(({ checkpoint }) => checkpoint?.compared)
  return [
    ...(own?.checkpoint?.compared ? [`checkpoint  agrees: ${describeStatement(coverage)}`] : []),
    `by key      ${coverage.public_key}`,
    `tenants     ${compared.length} of ${tenants.length} compared with a checkpoint of their own in the file`,
    ...verdicts.filter(isUnused).map(({ name }) => `UNUSED      the checkpoint of ${name}: its entry was purged`),
  ]
}

const isOwn = ({ tenant_id }: LogVerdict) => tenant_id === INSTALLATION_ID
const isUnused = ({ valid, checkpoint }: LogVerdict) => valid && checkpoint?.compared === false

interface Coverage {
  id: number // the checkpoint's entry of the installation's log
  covers_tenants: boolean // whether each later anchor covered everything that the one before it covered
  /** the last entry in which an operator accepted a change of this log or of the anchored heads */
  anchored_afresh_by?: number
}

// After such an entry, anchors begin with the present database (anchor.md 4), including any tenant that had gone back.
async function findCoverage({ sql }: Services, id: number): Promise<Coverage> {
  const [accepted = 0] = await listAcceptanceIds(sql, INSTALLATION_ID)
  if (accepted <= id) return { id, covers_tenants: true }
  return { id, covers_tenants: false, anchored_afresh_by: accepted }
}

function notCovering({ id, anchored_afresh_by }: Coverage): string {
  return (
    `the logs agree with each other, but the checkpoint of entry ${id} of the installation's log covers no tenant: entry ${anchored_afresh_by} ` +
    'accepted a rollback of that log, and the anchors began afresh. Give a checkpoint from after it, and compare each tenant with a checkpoint of its own'
  )
}

function describeAll({ verdicts, invalid, unverified, entries }: VerifiedLogs): string[] {
  const rows = [
    ...invalid.map(({ tenant_id, name = '-', reason = '', broken_at }) => [
      name,
      tenant_id,
      broken_at === undefined ? reason : `${reason}, entry ${broken_at}`,
    ]),
    ...unverified.map(({ tenant_id, name, error }) => [name, tenant_id, `not verified: ${messageOf(error)}`]),
  ]
  return [
    rows.length === 0
      ? 'All logs are valid.'
      : `${counted(invalid.length, 'log is', 'logs are')} NOT valid, ${unverified.length} not verified.`,
    `logs        ${verdicts.length - invalid.length} of ${verdicts.length + unverified.length} valid, counting the installation's own log`,
    `entries     ${entries} verified`,
    ...(rows.length === 0 ? [] : ['', ...table(['NAME', 'ID', 'FAULT'], rows)]),
  ]
}

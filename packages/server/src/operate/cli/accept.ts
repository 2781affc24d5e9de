/** `eaas accept`: the operator accepts the effects of a restore, a failover, a wrong clock or changed tables, with an entry. */
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import { Argument, type Command, Option } from 'commander'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import {
  acceptClock,
  acceptLostTenant,
  acceptSchema,
  type LogAhead,
  type LostTenant,
  listLogsAhead,
} from '../../guard/operations/accept.js'
import { type Accepted, acceptRollback } from '../../guard/operations/accept-rollback.js'
import { acceptAllRollbacks } from './accept-all.js'
import * as cli from './command.js'
import { describeDifferences } from './examine-database.js'
import { linesOf, print, printJson, showProgress } from './output.js'
import { describeTenant, getLogOwner, messageOf, withServices } from './with-services.js'

const { flags, description } = cli.REASON_OPTION
const NEEDED_REASON = new Option(flags, description).argParser(cli.readName).makeOptionMandatory()

export function addAccept(program: Command): void {
  const accept = program
    .command('accept')
    .description('Accept on record what was lost or changed, so that servers raise no alarm about it any longer.')
    .addHelpText('afterAll', cli.SAME_ENVIRONMENT)

  cli
    .addLogOptions(accept.command('rollback'), ({ all, fromDiff }) => all === true && fromDiff !== undefined)
    .description(
      'Accept that a log lost entries in a restore or a failover. The log records it, and the tenant is served again.',
    )
    .addOption(cli.allOption('every log that a diff shows as different (--from-diff)', []))
    .addOption(
      new Option(
        '--from-diff <file>',
        'the output of eaas audit diff --all --json; a log that differs more by now is refused',
      )
        .argParser(cli.readInputFile)
        .conflicts(['tenant', 'installation']),
    )
    .addOption(NEEDED_REASON)
    .addOption(cli.JSON_OPTION)
    .action((options) =>
      options.all
        ? cli.succeed(acceptAllRollbacks(cli.commandConfig(), options))
        : rollback(cli.commandConfig(), options),
    )

  accept
    .command('clock')
    .description(
      'Show the logs whose last entries a wrong clock dated in the future. With a reason, each log records that, and continues from the present time.',
    )
    .addOption(cli.REASON_OPTION)
    .addOption(cli.JSON_OPTION)
    .action((options) => cli.succeed(clock(cli.commandConfig(), options)))

  accept
    .command('tenant')
    .description("Accept that a tenant is gone from the database. The installation's log records it.")
    .addArgument(new Argument('<tenant>', 'id of the tenant').argParser(cli.readId))
    .addOption(NEEDED_REASON)
    .addOption(cli.JSON_OPTION)
    .action((id, options) => lostTenant(cli.commandConfig(), id, options))

  accept
    .command('schema')
    .description(
      "Accept the differences of the tables that eaas doctor names. The installation's log records it, and no server raises an alarm until the differences change.",
    )
    .addOption(NEEDED_REASON)
    .addOption(cli.JSON_OPTION)
    .action((options) => schema(cli.commandConfig(), options))
}

type Acceptance = { reason: string; json: boolean }

async function rollback(config: Config, { reason, json, ...log }: Acceptance & cli.LogChoice): Promise<void> {
  const progress = showProgress('verified')
  const onProgress = (entries: number) => progress(counted(entries, 'entry', 'entries'))
  const work = async (services: Services) => {
    const owner = await getLogOwner(services, log)
    return { owner, accepted: await acceptRollback(services, owner.tenant_id, { reason, onProgress }) }
  }
  const { owner, accepted } = await withServices(config, work, { comparesAll: true }).finally(progress.done)
  if (json) printJson(accepted)
  else print(`The log is of ${describeTenant(owner)}.`, ...describeAccepted(accepted, log))
}

function describeAccepted(
  { entry_id, witnessed_id, agrees_through, head_fault, named_id, compared, last }: Accepted,
  { installation }: cli.LogChoice,
): string[] {
  const isLost = (witnessed_id > 0 && agrees_through < witnessed_id) || named_id !== undefined
  return linesOf(
    head_fault !== undefined &&
      `The head of the log was made again (${head_fault}): of entry ${entry_id - 1}, the last one, and all before it are valid.`,
    named_id !== undefined && `The installation's log names entry ${named_id} of this log, which it no longer has.`,
    witnessed_id < entry_id
      ? `Accepted. Entry ${entry_id} of the log records it; a server had seen entry ${witnessed_id} before.`
      : `Accepted: entries after ${entry_id - 1}, through ${witnessed_id} at least, are lost. Entry ${entry_id} of the log records it.`,
    installation
      ? 'Every server does work of the operator again within a second or two.'
      : 'Every server serves the tenant again within a second or two.',
    compared !== null &&
      `The newest entry that it could be compared with is ${compared.id}, of ${compared.created_at}. The log has it.`,
    compared === null &&
      !isLost &&
      'The log could be compared with nothing: neither an alarm nor an anchor nor a checkpoint file knew an entry of it.',
    isLost
      ? 'The changes of the lost entries are undone: repeat revocations and rotations. See: eaas audit diff --help'
      : `Before this one, the log ended with entry ${last.id}, of ${last.created_at}. If something was changed after that time, the change is undone, ` +
          'and this command cannot know of it: unless you are sure that nothing was, check every API key and key. See: eaas audit diff --help',
  )
}

async function lostTenant(config: Config, tenant_id: string, { reason, json }: Acceptance): Promise<void> {
  const accept = (services: Services) => acceptLostTenant(services, tenant_id, reason)
  const lost = await withServices(config, accept, { comparesAll: true })
  if (json) printJson({ ...lost, tenant_gone: true, reason })
  else print(...describeLostTenant(lost, reason))
}

function describeLostTenant(
  { tenant_id, is_alarm_proven, witnessed_id, witnessed_hash, raised_at, status_before }: LostTenant,
  reason: string,
): string[] {
  return [
    `Accepted: tenant ${tenant_id} is gone from the database. Its alarm is cleared.`,
    status_before
      ? 'It had moved away: the other installation has it.'
      : 'The tenant, its log and all its keys are lost unless a newer backup is restored, or one of the installation that it moved here from: data encrypted under those keys cannot be decrypted.',
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

type Row = LogAhead & { name: string; entry_id?: number; refused?: string }

/** Lists the logs. With a reason, accepts that the clock was wrong; returns false if a log could not record that. */
async function clock(config: Config, { reason, json }: Partial<Acceptance>): Promise<boolean> {
  const now = new Date().toISOString()
  const rows = await withServices(config, async (services) => {
    const rows: Row[] = []
    for (const ahead of await listLogsAhead(services)) {
      const row: Row = { ...ahead, name: await nameOf(services, ahead.tenant_id) }
      rows.push(row)
      if (reason === undefined) continue
      try {
        const entry_id = await acceptClock(services, ahead.tenant_id, reason)
        if (entry_id !== undefined) row.entry_id = entry_id
      } catch (error) {
        row.refused = messageOf(error)
      }
    }
    return rows
  })
  if (json) printJson({ now, logs: rows })
  else if (rows.length === 0) print(`No log is ahead of this clock, by which it is ${now}.`)
  else print(...describeAhead(rows, now, reason))
  return rows.every(({ refused }) => refused === undefined)
}

async function nameOf({ states }: Services, tenant_id: string): Promise<string> {
  if (tenant_id === INSTALLATION_ID) return 'installation'
  return (await states.find(tenant_id))?.tenant.name ?? '?'
}

function describeAhead(rows: readonly Row[], now: string, reason: string | undefined): string[] {
  const lines = rows.map(({ last_id, ahead_until, entry_id, refused, ...log }) => {
    const done = entry_id === undefined ? '' : `; accepted in entry ${entry_id}`
    return `${describeTenant(log)}: entry ${last_id} is of ${ahead_until}${done}${refused === undefined ? '' : `; NOT accepted: ${refused}`}`
  })
  if (reason === undefined) {
    return [
      `These logs end in the future: by this clock, it is ${now}.`,
      ...lines,
      'If this clock is right, give a reason to accept that another one was wrong: --reason <text>. Nothing was changed.',
    ]
  }
  return [
    ...lines,
    'New entries have the right time again. Entries that the wrong clock dated stay as they are, and so do times that followed from them: set rotations of keys',
    'again, and cancel and repeat destructions, that were scheduled then (eaas key list).',
  ]
}

async function schema(config: Config, { reason, json }: Acceptance): Promise<void> {
  const accepted = await withServices(config, (services) => acceptSchema(services, { reason }))
  if (json) return printJson({ ...accepted, reason })
  print(
    ...describeDifferences(accepted),
    `Accepted: entry ${accepted.entry_id} of the installation's log records it. Functions that the named ones call are not compared: whoever owns one can change it.`,
    'Every server ends its alarm within ten minutes, or when it starts.',
  )
}

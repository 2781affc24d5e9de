/** `eaas schema`: lets the operator accept tables that differ from what the migrations make. */
import type { Command } from 'commander'
import type { Config } from '../../core/config.js'
import { acceptSchema } from '../../guard/operations/accept-schema.js'
import { commandConfig, JSON_OPTION, readName, SAME_ENVIRONMENT } from './command.js'
import { describeDifferences } from './examine-database.js'
import { print, printJson } from './output.js'
import { withServices } from './with-services.js'

/** Adds `eaas schema`. */
export function addSchema(program: Command): void {
  const schema = program.command('schema').description('Accept differences of the tables that you made yourself.')
  schema
    .command('accept')
    .description(
      "Accept the differences of the tables that eaas doctor names. The installation's log records it, and no server raises an alarm until the differences change.",
    )
    .requiredOption('--reason <text>', 'reason to record in the log, 1 to 255 characters', readName)
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options) => schemaAccept(commandConfig(), options))
}

async function schemaAccept(config: Config, { reason, json }: { reason: string; json: boolean }): Promise<void> {
  const accepted = await withServices(config, (services) => acceptSchema(services, { reason }))
  if (json) return printJson({ ...accepted, reason })
  print(
    ...describeDifferences(accepted),
    `Accepted: entry ${accepted.entry_id} of the installation's log records it. Functions that the named ones call are not compared: whoever owns one can change it.`,
    'Every server ends its alarm within ten minutes, or when it starts.',
  )
}

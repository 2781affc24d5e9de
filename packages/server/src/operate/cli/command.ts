/** Shared by the commands: configuration, common options, parsers of options, and the exit code of a verdict. */
import {
  describeVariables,
  NOT_VALID,
  NOT_VERIFIED,
  readName,
  readRepeated,
  readWhole,
  VALID,
} from '@eaas/audit/command'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { readAllowedIps } from '../../core/api/api-key-grants.js'
import { type Config, readConfig } from '../../core/config.js'
import { Refusal } from '../../core/runner/refusal.js'
import { VARIABLES } from '../../core/settings.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { adviseOn } from './advice.js'

export * from '@eaas/audit/command'

export const ENVIRONMENT = describeVariables(VARIABLES)
export const SAME_ENVIRONMENT = '\nUses the same environment as the server: see eaas start --help.'

export const REASON_OPTION = new Option(
  '--reason <text>',
  'reason to record in the log, 1 to 255 characters',
).argParser(readName)
const RECIPIENT_TEXT = 'a recipient of age, as age-keygen prints it; may be repeated'
export const RECIPIENT_OPTION = new Option('--recipient <age1…>', RECIPIENT_TEXT).argParser(readRepeated)
export const NEEDED_RECIPIENT_OPTION = new Option('--recipient <age1…>', RECIPIENT_TEXT)
  .argParser(readRepeated)
  .makeOptionMandatory()
export const TENANT_OPTION = new Option('--tenant <tenant>', 'name or id of the tenant').makeOptionMandatory()

export type Format = { json: boolean }
export type OfTenant = Format & { tenant: string }
export type LogChoice = { tenant?: string; installation?: boolean }
export type OfLog = Format & LogChoice

/** Adds the options that name a log. Without one of them, the command is a usage error, unless `isEnough` accepts the others. */
export function addLogOptions(
  command: Command,
  isEnough: (options: Record<string, unknown>) => boolean = () => false,
): Command {
  return command
    .option('--tenant <tenant>', 'name or id of the tenant')
    .addOption(new Option('--installation', "the installation's own log").conflicts('tenant').default(false))
    .hook('preAction', (_, action) => {
      const options = action.opts()
      if (options.tenant !== undefined || options.installation || isEnough(options)) return
      action.error("error: required option '--tenant <tenant>' or '--installation' not specified")
    })
}

export function allOption(description: string, others: string[]): Option {
  return new Option('--all', description).conflicts(['tenant', 'installation', ...others]).default(false)
}

/** Warns about variables that look like the server's but are not. */
export function commandConfig(): Config {
  const read = readConfig(process.env)
  adviseOn(read)
  for (const name of read.unknownVariables) {
    process.stderr.write(`eaas: the server has no variable ${name}; see eaas start --help\n`)
  }
  return read
}

export async function succeed(work: Promise<boolean>): Promise<void> {
  if (!(await work)) process.exitCode = 1
}

/**
 * Exits with 1 only for "not valid", which includes a tampered row, and never for a failure. A number is the exit code.
 */
export async function judge(verify: () => Promise<boolean | number>): Promise<void> {
  process.exitCode = NOT_VERIFIED
  const verdict = await verify().catch((error: unknown) => {
    if (error instanceof TamperedRowError) process.exitCode = NOT_VALID
    throw error
  })
  process.exitCode = typeof verdict === 'number' ? verdict : verdict ? VALID : NOT_VALID
}

export function readPositive(text: string): number {
  const number = readWhole(text)
  if (number === 0) throw new InvalidArgumentError('It must be a whole number from 1.')
  return number
}

export function readBoolean(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('It must be true or false.')
  return text === 'true'
}

export function readList(text: string): string[] {
  return text.split(',').map((part) => part.trim())
}

export function readAddresses(text: string): string[] {
  try {
    return readAllowedIps(readList(text))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new InvalidArgumentError(`${error.message}.`)
  }
}

export function permissionsOf<Known extends string>(known: readonly Known[], of = ''): (text: string) => Known[] {
  const read = (name: string) => {
    const permission = known.find((one) => one === name)
    if (!permission) throw new InvalidArgumentError(`There is no permission ${name}${of}.`)
    return permission
  }
  return (text) => (text === 'all' ? [...known] : readList(text).map(read))
}

/**
 * What the commands share: their configuration, common options, the parsers of options, and the exit code of
 * a verdict.
 */
import { isUuid, isWellFormed, MAX_NAME_CHARACTERS, parseRfc3339 } from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Config, readConfig, VARIABLES, WITNESS_VARIABLES } from '../config.js'
import { TamperedRowError } from '../store/tampered-row.js'

const WIDTH = Math.max(...Object.keys(VARIABLES).map((name) => name.length)) + 2

/** Help text: every variable of the server with its meaning. */
export const ENVIRONMENT = describeVariables(VARIABLES)
/** Help text of `eaas witness`. */
export const WITNESS_ENVIRONMENT = describeVariables({ ...WITNESS_VARIABLES, EAAS_LOG_LEVEL: VARIABLES.EAAS_LOG_LEVEL })
/** Help text of the other commands. */
export const SAME_ENVIRONMENT = '\nUses the same environment as the server: see eaas start --help.'

function describeVariables(variables: Record<string, string>): string {
  return `\nEnvironment:\n${Object.entries(variables)
    .map(([name, meaning]) => `  ${name.padEnd(WIDTH)}${meaning}`)
    .join('\n')}`
}

export const JSON_OPTION = new Option('--json', 'print JSON').default(false)
export const REASON_OPTION = new Option(
  '--reason <text>',
  'reason to record in the log, 1 to 255 characters',
).argParser(readName)
export const TENANT_OPTION = new Option('--tenant <tenant>', 'name or id of the tenant').makeOptionMandatory()

/** Which log a command is about. */
export interface LogChoice {
  /** the tenant's name or id */
  tenant?: string
  /** the installation's own log */
  installation: boolean
}

/**
 * Adds the options that name a log; without one the command is a usage error, unless `isEnough` says that the
 * others suffice.
 */
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
      action.error("error: required option '--tenant <tenant>' or '--installation' not specified", { exitCode: 2 })
    })
}

/**
 * Makes it a usage error, in a command and those below it, that an option with one value is given twice:
 * which one counts would be a guess.
 */
export function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    if (option.isBoolean() || option.parseArg === (readRepeated as typeof option.parseArg)) continue
    let isGiven = false
    command.on(`option:${option.name()}`, () => {
      if (isGiven) command.error(`error: option '${option.flags}' may be given once only`, { exitCode: 2 })
      isGiven = true
    })
  }
  for (const below of command.commands) refuseRepeated(below)
}

/**
 * Has a command and those below it check that the required options are given after they checked that all
 * given options exist: commander would report the required option as missing where its name was misspelt.
 */
export function requireAfterUnknown(program: Command): void {
  // All are found before one is changed, since commands share options.
  const found = withBelow(program).map((command) => ({
    command,
    required: command.options.filter(({ mandatory }) => mandatory),
  }))
  for (const { command, required } of found) {
    for (const option of required) option.makeOptionMandatory(false)
    command.hook('preAction', (_, action) => {
      const missing = required.find((option) => action.getOptionValue(option.attributeName()) === undefined)
      if (missing) action.error(`error: required option '${missing.flags}' not specified`, { exitCode: 2 })
    })
  }
}

function withBelow(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withBelow)]
}

export const VALID = 0
export const NOT_VALID = 1
/** The exit code of a verification that could not complete, or had nothing to verify. */
export const NOT_VERIFIED = 3
/** The exit code of what is valid, but could not be compared with the checkpoint that was given. */
export const UNUSED = 5

/** Reads the configuration of the command; warns about variables that look like the server's and are not. */
export function commandConfig(): Config {
  const read = readConfig(process.env)
  for (const name of read.unknownVariables) {
    process.stderr.write(`eaas: the server has no variable ${name}; see eaas start --help\n`)
  }
  return read
}

/** Exits with 1 if `work` resolves to false. */
export async function succeed(work: Promise<boolean>): Promise<void> {
  if (!(await work)) process.exitCode = 1
}

/**
 * Exits with 1 for "not valid" only, never for a failure: a script may call the auditor on it. A row that was
 * changed outside the server, without which nothing can be verified, is not valid. A number is the exit code
 * itself.
 */
export async function judge(verify: () => Promise<boolean | number>): Promise<void> {
  process.exitCode = NOT_VERIFIED
  const verdict = await verify().catch((error: unknown) => {
    if (error instanceof TamperedRowError) process.exitCode = NOT_VALID
    throw error
  })
  process.exitCode = typeof verdict === 'number' ? verdict : verdict ? VALID : NOT_VALID
}

export function readWhole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

export function readPositive(text: string): number {
  const number = readWhole(text)
  if (number === 0) throw new InvalidArgumentError('It must be a whole number from 1.')
  return number
}

export function readId(text: string): string {
  if (!isUuid(text)) throw new InvalidArgumentError('It must be a UUID, lower case, with dashes.')
  return text
}

/** Reads a time; returns it in UTC with milliseconds. */
export function readTime(text: string): string {
  const time = parseRfc3339(text, 'down')
  if (time === undefined)
    throw new InvalidArgumentError('It must be an RFC 3339 time with an offset, as in 2026-05-03T12:00:00Z.')
  return time
}

export function readName(text: string): string {
  if (text === '' || [...text].length > MAX_NAME_CHARACTERS || !isWellFormed(text)) {
    throw new InvalidArgumentError(`It must be 1 to ${MAX_NAME_CHARACTERS} characters.`)
  }
  return text
}

export function readBoolean(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('It must be true or false.')
  return text === 'true'
}

/** Reads one value of an option that may be repeated. */
export function readRepeated(text: string, before: string[] = []): string[] {
  return [...before, text]
}

/** Reads a list whose items are separated by commas. */
export function readList(text: string): string[] {
  return text.split(',').map((part) => part.trim())
}

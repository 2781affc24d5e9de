/** Runs one command line to its exit code. */
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { isEaasError } from '@eaas/sdk'
import { Command, CommanderError } from 'commander'
import { checkArguments, checkOptions } from './arguments.js'
import { addBackfill } from './backfill-command.js'
import { tellService } from './connection.js'
import { addDecryptCsv, addEncryptCsv } from './csv-commands.js'
import { addDecrypt } from './decrypt.js'
import { addDoctor } from './doctor.js'
import { addEncrypt } from './encrypt.js'
import { addInit } from './init/init.js'
import { addInspect } from './inspect.js'
import { addInspectTable } from './inspect-table.js'
import type { Io } from './io.js'
import { ArgumentsError, CommandError, inCommandWords, NOT_AUTHENTIC, print, tell, USAGE, UsageError } from './io.js'
import { addRewrap } from './rewrap.js'

const COMMANDS = [
  addInit,
  addEncrypt,
  addDecrypt,
  addInspect,
  addRewrap,
  addEncryptCsv,
  addDecryptCsv,
  addBackfill,
  addInspectTable,
  addDoctor,
]

const FAILED = 1
const HELP_COLUMNS = 80

const HELP = `
npx @eaas/cli <command> --help describes a command. Installed, it is called
eaas-cli.
Exit codes: 0 done, 1 refused or failed, 2 usage error, 3 does not decrypt:
altered, or another key or context. Ended by a signal: 128 and its number.
141: the reader of standard output stopped.`

/** Runs a command line, given without the program's name. Prints every error, and returns the exit code. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const printed: string[] = []
  const program = createProgram(io, printed)
  try {
    await program
      .parseAsync(argv.length === 0 ? ['--help'] : checkArguments(argv, program), { from: 'user' })
      .catch(async (error: unknown) => {
        if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error
        await print(io, ...printed.join('').trimEnd().split('\n')) // help or the version
      })
    return 0
  } catch (error) {
    const name = program.commands.find((command) => command.name() === argv[0])?.name()
    return explain(error, io, name)
  }
}

/** Creates the program. `printed` collects commander's output, which is help and the version. */
export function createProgram(io: Io, printed: string[]): Command {
  const program = new Command('eaas-cli')
    .description('Encrypts on this machine; the service only wraps the data keys.')
    .version(readVersion(), '--version', 'print the version')
    .usage('<command> [options]')
    .exitOverride()
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .configureOutput({
      writeOut: (text) => void printed.push(text),
      writeErr: () => undefined, // `explain` reports errors
      getOutHelpWidth: () => HELP_COLUMNS,
      getOutHasColors: () => false,
    })
    .addHelpText('after', HELP)
  for (const add of COMMANDS) add(program, io)
  for (const command of program.commands) checkOptions(command)
  return program
}

function explain(error: unknown, io: Io, command: string | undefined): number {
  const { signal } = io
  if (signal.aborted) return 128 + (constants.signals[signal.reason as NodeJS.Signals] ?? 0)
  if ((error as NodeJS.ErrnoException)?.code === 'EPIPE') return 128 + constants.signals.SIGPIPE
  if (error instanceof UsageError || error instanceof CommanderError) {
    const [first = '', ...more] = error.message.replace(/^error: /, '').split('\n')
    tell(io, `eaas-cli: ${first}`)
    for (const line of more) tell(io, line)
    // The help of options does not help with a missing file.
    if (error instanceof ArgumentsError || error instanceof CommanderError)
      tell(io, `npx @eaas/cli ${command ? `${command} --help lists the options.` : '--help lists the commands.'}`)
    return USAGE
  }
  if (error instanceof CommandError) {
    tell(io, `eaas-cli: ${error.message}`)
    return error.exitCode
  }
  if (isEaasError(error)) {
    const { message, hint } = inCommandWords(error)
    tell(io, `eaas-cli: ${message}`)
    tell(io, hint)
    if (error.code === 'E_NETWORK') tellService(io)
    return error.code === 'E_DECRYPTION' ? NOT_AUTHENTIC : error.code === 'E_INVALID_INPUT' ? USAGE : FAILED
  }
  const { code, message, stack } = error as NodeJS.ErrnoException
  tell(io, `eaas-cli: ${code === undefined ? (stack ?? String(error)) : message}`) // only system errors have a code
  return FAILED
}

function readVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

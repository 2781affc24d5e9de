/** Runs one command line to its exit code. */
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { isEaasError } from '@eaas/sdk'
import { nearestName } from '@eaas/sdk/maintenance'
import { readArguments } from './arguments.js'
import { backfill } from './backfill-command.js'
import type { Command } from './command.js'
import { inCommandWords } from './command-words.js'
import { tellService } from './connection.js'
import { decryptCsv, encryptCsv } from './csv-commands.js'
import { decrypt } from './decrypt.js'
import { doctor } from './doctor.js'
import { encrypt } from './encrypt.js'
import { layOut } from './help.js'
import { inspect } from './inspect.js'
import { inspectTable } from './inspect-table.js'
import { ArgumentsError, CommandError, type Io, NOT_AUTHENTIC, print, tell, USAGE, UsageError } from './io.js'
import { rewrap } from './rewrap.js'

const COMMANDS: Readonly<Record<string, Command>> = {
  encrypt,
  decrypt,
  inspect,
  rewrap,
  'encrypt-csv': encryptCsv,
  'decrypt-csv': decryptCsv,
  backfill,
  'inspect-table': inspectTable,
  doctor,
}

const FAILED = 1

const HELP = `Usage: eaas-cli <command> [options]

Encrypts on this machine; the service only wraps the data keys. Run npx @eaas/cli <command> where eaas-cli is not on the path.

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(15)}${summary}`)
  .join('\n')}

eaas-cli <command> --help describes a command. --version prints the version.
Exit codes: 0 done, 1 refused or failed, 2 usage error, 3 does not decrypt: altered, or another key or context.
Ended by a signal: 128 and its number. 141: whoever read standard output stopped.`

/** Runs the command line without the program's name. Never throws an error that has a message of its own. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  try {
    await runCommand(argv, io)
    return 0
  } catch (error) {
    return explain(error, io, argv[0])
  }
}

async function runCommand([name, ...rest]: readonly string[], io: Io): Promise<void> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') return print(io, ...layOut(HELP))
  if (name === '--version') return print(io, readVersion())
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!command) {
    const near = nearestName(name, Object.keys(COMMANDS))
    const meant = near === undefined ? '' : `: did you mean ${near}?`
    throw new ArgumentsError(`there is no command ${JSON.stringify(name)}${meant}`)
  }
  if (rest.includes('--help') || rest.includes('-h')) return print(io, ...layOut(command.help))
  await command.run(io, readArguments(rest, command.options, command.positionals))
}

function explain(error: unknown, io: Io, command = ''): number {
  const { signal } = io
  if (signal.aborted) return 128 + (constants.signals[signal.reason as NodeJS.Signals] ?? 0)
  if ((error as NodeJS.ErrnoException)?.code === 'EPIPE') return 128 + constants.signals.SIGPIPE
  if (error instanceof UsageError) {
    tell(io, `eaas-cli: ${error.message}`)
    // Of a file that is not there, the options say nothing.
    const named = Object.hasOwn(COMMANDS, command) ? ` ${command}` : ''
    if (error instanceof ArgumentsError)
      tell(io, `eaas-cli${named} --help lists the ${named ? 'options' : 'commands'}.`)
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
  tell(io, `eaas-cli: ${code === undefined ? (stack ?? String(error)) : message}`) // of the system: a full disk, for example
  return FAILED
}

function readVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** The `eaas` command: which commands there are, and how it ends. */
import { Command, Help } from 'commander'
import { AuditWriteError } from './audit/append-errors.js'
import { CheckpointError } from './audit/formats/checkpoint.js'
import { withAdvice } from './cli/advice.js'
import { addApiKey } from './cli/api-key.js'
import { addAudit } from './cli/audit.js'
import { refuseRepeated } from './cli/command.js'
import { addDoctor } from './cli/doctor.js'
import { addKey } from './cli/key.js'
import { addMigrate } from './cli/migrate.js'
import { printable } from './cli/output.js'
import { addPurge } from './cli/purge.js'
import { addStart } from './cli/start.js'
import { addTenant } from './cli/tenant.js'
import { addWitness } from './cli/witness.js'
import { addWorker } from './cli/worker.js'
import { ConfigError } from './config.js'
import { RootKeyError } from './crypto/root-key.js'
import { Refusal } from './runner/refusal.js'
import { DatabaseDeadlineError } from './store/deadline.js'
import { DataDirectoryInUseError, ForeignServerError, LockLostError } from './store/embedded/data-directory-lock.js'
import {
  ForeignDataDirectoryError,
  UnlockedServerError,
  UnusableDataDirectoryError,
} from './store/embedded/database.js'
import { RoleError } from './store/grants.js'
import { NewerSchemaError } from './store/migrations.js'
import { DatabaseEncodingError, NoDatabaseError } from './store/open-store.js'
import { TamperedRowError } from './store/tampered-row.js'
import { WrongFormatError } from './store/text-formats.js'
import { VERSION } from './version.js'
import { WitnessError } from './witness/state-file.js'

const program = new Command('eaas')
  .description('Encryption as a service, self-hosted.')
  .version(VERSION, '--version', 'print the version')
  .showHelpAfterError('Run the command with --help to see its options.')
  .addHelpText('after', '\nIf eaas is not on the path: npx @eaas/server <command>')
  .addHelpText('after', 'Configuration comes from the environment: see eaas start --help.')
  .addHelpText('after', 'Exit codes: 0 done, 1 refused or failed, 2 usage error;')
  .addHelpText('after', 'of audit verify and verify-export: 0 valid, 1 not valid, 3 verification could not complete,')
  .addHelpText('after', '5 valid, but not compared with the checkpoint that was given;')
  .addHelpText('after', 'verify-export has more: see eaas audit verify-export --help.')
  .configureHelp({
    // A flag that is not given is false; the help does not repeat that.
    optionDescription: (option) =>
      option.defaultValue === false ? option.description : Help.prototype.optionDescription(option),
  })
  .exitOverride(({ code, exitCode }) => {
    process.exit(exitCode === 0 ? 0 : code.startsWith('commander.') ? 2 : exitCode)
  })

const COMMANDS = [
  addStart,
  addMigrate,
  addDoctor,
  addTenant,
  addApiKey,
  addKey,
  addAudit,
  addPurge,
  addWitness,
  addWorker,
]
for (const add of COMMANDS) add(program)
refuseRepeated(program)

/** Errors whose message is enough; any other error is a defect, and is printed with its stack. */
const EXPECTED = [
  AuditWriteError,
  CheckpointError,
  ConfigError,
  DataDirectoryInUseError,
  DatabaseDeadlineError,
  DatabaseEncodingError,
  ForeignDataDirectoryError,
  ForeignServerError,
  LockLostError,
  NewerSchemaError,
  NoDatabaseError,
  WrongFormatError,
  Refusal,
  RoleError,
  RootKeyError,
  TamperedRowError,
  UnlockedServerError,
  UnusableDataDirectoryError,
  WitnessError,
]

// The reader of the output may stop early, as `head` does: the command still runs to its end and closes what it opened.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE' || ['start', 'witness', 'worker'].includes(program.args[0] ?? '')) return
  if (process.exitCode === undefined) process.stderr.write(`eaas: standard output cannot be written (${code})\n`)
  process.exitCode ??= 1
})
process.stderr.on('error', () => undefined)

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode ??= 1
  const lines = explain(error).split('\n').map(printable)
  // Everything that can be closed is closed. A connection whose commit the database never acknowledges would keep the process alive.
  process.stderr.write(`eaas: ${lines.join('\n')}\n`, () => process.exit())
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  const { code } = error as NodeJS.ErrnoException
  if (cause !== undefined) return `${message}: ${explain(cause)}`
  if (EXPECTED.some((kind) => error instanceof kind)) return message
  // Errors of the system and of the database carry a code; their stack adds nothing.
  if (code === undefined) return error.stack ?? message
  const whole = message.includes(code) ? message : `${message} (${code})`
  return withAdvice(error, whole)
}

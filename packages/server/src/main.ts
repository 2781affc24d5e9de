/** The `eaas` command: which commands there are, and how it ends. */
import { Command, Help } from 'commander'
import { refuseRepeated, requireAfterUnknown } from './cli/command.js'
import { COMMANDS } from './cli/commands.js'
import { fail } from './cli/fail.js'
import { VERSION } from './version.js'

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

for (const add of COMMANDS) add(program)
refuseRepeated(program)
requireAfterUnknown(program)

// The reader of the output may stop early, as `head` does: the command still runs to its end and closes what
// it opened.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE' || ['start', 'witness'].includes(program.args[0] ?? '')) return
  if (process.exitCode === undefined) process.stderr.write(`eaas: standard output cannot be written (${code})\n`)
  process.exitCode ??= 1
})
process.stderr.on('error', () => undefined)

await program.parseAsync().catch(fail)

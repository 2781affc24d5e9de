/** The command `eaas-audit`. */
import { readFileSync } from 'node:fs'
import { visibleLine } from '@eaas/protocol'
import { COMMANDS } from './command/commands.js'
import { CommandError } from './command/files.js'
import { createProgram, runProgram } from './command/program.js'
import { CheckpointError } from './formats/signed-note.js'
import { ForeignServerError } from './node/data-directory-lock.js'
import { ListenError } from './node/listen.js'
import { WitnessError } from './witness/state-file.js'

/** Errors whose message is enough. Any other error is a defect, and is printed with its stack. */
const EXPECTED = [CheckpointError, CommandError, ForeignServerError, ListenError, WitnessError]

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
const program = createProgram('eaas-audit', { version })
  .description('Verifies the audit log of an EaaS installation from its exports, and cosigns logs as a witness.')
  .addHelpText('after', '\nIf eaas-audit is not on the path: npx @eaas/audit <command>')
  .addHelpText('after', 'Exit codes: 0 done or valid, 1 refused, failed or not valid, 2 usage error;')
  .addHelpText('after', 'those of each command: see its --help, and eaas-audit verify --help.')

for (const add of COMMANDS) add(program)
await runProgram(program, { serving: ['witness'], fail })

/** Prints why the command failed, and ends the process with exit code 1 unless another one is set. */
function fail(error: unknown): void {
  process.exitCode ??= 1
  const lines = explain(error).split('\n').map(visibleLine)
  process.stderr.write(`eaas-audit: ${lines.join('\n')}\n`, () => process.exit())
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, stack } = error
  const { code } = error as NodeJS.ErrnoException
  if (EXPECTED.some((kind) => error instanceof kind)) return message
  // System errors carry a code; their stack adds nothing.
  if (code === undefined) return stack ?? message
  return message.includes(code) ? message : `${message} (${code})`
}

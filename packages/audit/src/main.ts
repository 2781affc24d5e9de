/** The command `eaas-audit`. */
import { readFileSync } from 'node:fs'
import { COMMANDS } from './command/commands.js'
import { fail } from './command/fail.js'
import { createProgram, runProgram } from './command/program.js'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
const program = createProgram('eaas-audit', { version })
  .description('Verifies the audit log of an EaaS installation from its exports, and cosigns logs as a witness.')
  .addHelpText('after', '\nIf eaas-audit is not on the path: npx @eaas/audit <command>')
  .addHelpText('after', 'Exit codes: 0 done or valid, 1 refused, failed or not valid, 2 usage error;')
  .addHelpText('after', 'those of each command: see its --help, and eaas-audit verify --help.')

for (const add of COMMANDS) add(program)
await runProgram(program, { serving: ['witness'], fail })

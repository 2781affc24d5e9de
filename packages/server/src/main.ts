/** The `eaas` command: its commands, and how it ends. */
import { createProgram, runProgram } from '@eaas/audit/command'
import { endBySignals } from '@eaas/audit/node'
import { COMMANDS } from './operate/cli/commands.js'
import { fail } from './operate/cli/fail.js'
import { VERSION } from './version.js'

endBySignals()
const program = createProgram('eaas', { version: VERSION })
  .description('Encryption as a service, self-hosted.')
  .addHelpText('after', '\nIf eaas is not on the path: npx @eaas/server <command>')
  .addHelpText('after', 'Configuration comes from the environment: see eaas start --help.')
  .addHelpText('after', 'Exit codes: 0 done, 1 refused or failed, 2 usage error;')
  .addHelpText('after', 'of audit verify: 0 valid, 1 not valid, 3 verification could not complete,')
  .addHelpText('after', '5 valid, but not compared with the checkpoint that was given.')
  .addHelpText('after', '6: a device refused its PIN; a service must not start again by itself.')
  .addHelpText('after', 'Exports are verified without the server: npx @eaas/audit verify --help')

for (const add of COMMANDS) add(program)
await runProgram(program, { serving: ['start', 'dev'], fail })

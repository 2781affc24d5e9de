// The commands of `eaas` as its help lists them.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { COMMANDS } from '../../../packages/server/src/operate/cli/commands.js'
import { ROOT } from './source-files.js'

// The one that the server uses; another package of the repository may use another version.
const { Command } = createRequire(join(ROOT, 'packages/server/package.json'))('commander') as {
  Command: new () => Parameters<(typeof COMMANDS)[number]>[0]
}

/** Each command with its subcommand, such as `tenant create`. */
export function commandNames(): string[] {
  const program = new Command()
  for (const add of COMMANDS) add(program)
  return program.commands.flatMap((command) =>
    command.commands.length === 0 ? [command.name()] : command.commands.map((sub) => `${command.name()} ${sub.name()}`),
  )
}

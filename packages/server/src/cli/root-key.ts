/** `eaas root-key`: the key outside the database that everything in it is sealed under. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { generateRootKey } from '../crypto/root-key.js'
import { JSON_OPTION } from './command.js'
import { print, printJson } from './output.js'

/** Adds `eaas root-key` and its subcommand. */
export function addRootKey(program: Command): void {
  const rootKey = program.command('root-key').description('Manage the root key.')

  rootKey
    .command('generate')
    .description('Generate a root key for a new installation. Opens no database, and never prints the key.')
    .requiredOption('--out <file>', 'the file to create, mode 0600; a file that exists is left as it is')
    .addOption(JSON_OPTION)
    .action(({ out, json }) => rootKeyGenerate(resolve(out), { json }))
}

/** Writes a new root key to a file. @throws RootKeyError */
async function rootKeyGenerate(path: string, { json }: { json: boolean }): Promise<void> {
  await generateRootKey(path)
  if (json) return printJson({ file: path })
  print(
    `A new root key is in ${path}. Copy it to a safe place apart from the backups of the database: without it nothing in the database opens.`,
    `Start a new installation with EAAS_ROOT_KEY_FILE set to this file. One that exists needs the root key that it was first started with.`,
  )
}

/** `eaas root-key`: the key outside the database, which wraps the store keys. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { Config } from '../config.js'
import { generateRootKey } from '../crypto/root-key.js'
import { providerOf } from '../installation.js'
import { rotateRootKey } from '../operations/rotate-root-key.js'
import { openProvider } from '../root-key/open-provider.js'
import { countSealed } from '../store/store-keys.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { counted, print, printJson } from './output.js'
import { withServices } from './with-services.js'

/** Adds `eaas root-key` and its subcommands. */
export function addRootKey(program: Command): void {
  const rootKey = program.command('root-key').description('Manage the root key.')

  rootKey
    .command('generate')
    .description('Generate a root key for a new installation. Opens no database, and never prints the key.')
    .requiredOption('--out <file>', 'the file to create, mode 0600; a file that exists is left as it is')
    .addOption(JSON_OPTION)
    .action(({ out, json }) => rootKeyGenerate(resolve(out), { json }))

  rootKey
    .command('status')
    .description('Show where the root key is, and what each store key seals that it wraps.')
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action(({ json }) => rootKeyStatus(commandConfig(), { json }))

  rootKey
    .command('rotate')
    .description(
      'Replace the root key, while servers run. Takes a second, whatever the number of keys; every start from then on needs the new one. On PostgreSQL, run it as the owner of the tables.',
    )
    .requiredOption('--to-file <file>', 'the new root key, as eaas root-key generate writes it')
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action(({ toFile, json }) => rootKeyRotate(commandConfig(), resolve(toFile), { json }))
}

/** Writes a new root key to a file. @throws RootKeyError */
async function rootKeyGenerate(path: string, { json }: { json: boolean }): Promise<void> {
  await generateRootKey(path)
  if (json) return printJson({ file: path })
  print(
    `A new root key is in ${path}. Copy it to a safe place apart from the backups of the database: without it nothing in the database opens.`,
    `Start a new installation with EAAS_ROOT_KEY_FILE set to this file. For one that exists: eaas root-key rotate --to-file ${path}`,
  )
}

/** Shows the provider and the store keys, which it has opened by then. @throws RootKeyError */
async function rootKeyStatus(config: Config, { json }: { json: boolean }): Promise<void> {
  const { kind, name } = await providerOf(config)
  const storeKeys = await withServices(config, ({ sql }) => countSealed(sql))
  if (json) return printJson({ root_key: { kind, name }, store_keys: storeKeys })
  print(
    `root key      ${kind} ${name}, which opens this database`,
    ...storeKeys.map(
      ({ number, created_at, rows }) => `store key ${number}   of ${created_at}, seals ${counted(rows, 'row', 'rows')}`,
    ),
  )
  if (storeKeys.length > 1) print('A rotation of the store key is under way, or was interrupted: eaas store-key rotate')
}

/** Wraps the store keys under the root key in a file. @throws RootKeyError, Refusal */
async function rootKeyRotate(config: Config, path: string, { json }: { json: boolean }): Promise<void> {
  const to = await openProvider({ value: undefined, file: path })
  if (!to) throw new Error('a file was named')
  const store_keys = await withServices(config, async (services) =>
    rotateRootKey(services, { from: await providerOf(config), to }),
  )
  if (json) return printJson({ file: path, store_keys })
  print(
    `The root key is the one in ${path} now. Servers that run go on; for each start, set EAAS_ROOT_KEY_FILE to this file.`,
    'Backups from before still open under the earlier root key. So that they do not, destroy it, and see: eaas store-key rotate --help',
  )
}

/** `eaas root-key`: the key outside the database, which wraps the store keys. */
import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { type Config, ROOT_KEY_VARIABLES, type RootKeySetting, VARIABLES } from '../config.js'
import { generateRootKey } from '../crypto/root-key.js'
import { providerOf } from '../installation.js'
import { rotateRootKey } from '../operations/rotate-root-key.js'
import { openProvider } from '../root-key/open-provider.js'
import { countSealed } from '../store/store-keys.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { counted, print, printJson } from './output.js'
import { addPkcs11 } from './root-key-pkcs11.js'
import { withServices } from './with-services.js'

/** What a root key is rotated to, by the name of the option's value. One in a variable would be in the list of processes. */
const TARGETS = {
  path: 'file',
  command: 'command',
  program: 'exec',
  url: 'transit',
  arn: 'aws-kms',
} as const satisfies Record<string, RootKeySetting['kind']>

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

  addPkcs11(rootKey)

  const rotate = rootKey
    .command('rotate')
    .description(
      'Replace the root key, while servers run. Takes a second, whatever the number of keys; every start from then on needs the new one. On PostgreSQL, run it as the owner of the tables.',
    )
    .addOption(JSON_OPTION)
    .addHelpText(
      'after',
      `
Name where the new root key is by one of the options. A start takes it from the variable of the same name:
${Object.values(TARGETS)
  .map((kind) => ROOT_KEY_VARIABLES[kind])
  .join(', ')}.
${SAME_ENVIRONMENT}`,
    )
  const targets = Object.entries(TARGETS).map(([value, kind]) => ({
    kind,
    option: new Option(`--to-${kind} <${value}>`, VARIABLES[ROOT_KEY_VARIABLES[kind]]),
  }))
  for (const { option } of targets) {
    const others = targets.filter((target) => target.option !== option)
    rotate.addOption(option.conflicts(others.map((other) => other.option.attributeName())))
  }
  rotate.action(({ json, ...named }: Record<string, string> & { json: boolean }) => {
    const target = targets.find(({ option }) => option.attributeName() in named)
    if (!target) {
      return rotate.error(
        `error: name where the new root key is: ${targets.map(({ option }) => option.long).join(', ')}`,
      )
    }
    const { kind, option } = target
    const value = named[option.attributeName()] ?? ''
    const config = commandConfig()
    const setting = { kind, value: kind === 'file' ? resolve(value) : value, login: config.transitLogin }
    return rootKeyRotate(config, setting, { json })
  })
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
  const storeKeys = await withServices(config, ({ sql }) => countSealed(sql))
  const { kind, name } = await providerOf(config)
  if (json) return printJson({ root_key: { kind, name }, store_keys: storeKeys })
  print(
    `root key      ${kind} ${name}, which opens this database`,
    ...storeKeys.map(
      ({ number, created_at, rows }) => `store key ${number}   of ${created_at}, seals ${counted(rows, 'row', 'rows')}`,
    ),
  )
  if (storeKeys.length > 1) print('A rotation of the store key is under way, or was interrupted: eaas store-key rotate')
}

/** Wraps the store keys under another root key. @throws RootKeyError, Refusal */
async function rootKeyRotate(config: Config, setting: RootKeySetting, { json }: { json: boolean }): Promise<void> {
  const to = await openProvider(setting)
  const store_keys = await withServices(config, async (services) =>
    rotateRootKey(services, { from: await providerOf(config), to }),
  )
  if (json) return printJson({ root_key: { kind: to.kind, name: to.name }, store_keys })
  print(
    `The root key is that of ${to.name} now. Servers that run go on; for each start, set ${ROOT_KEY_VARIABLES[setting.kind]} to ${setting.value}`,
    'Backups from before still open under the earlier root key. So that they do not, destroy it, and see: eaas store-key rotate --help',
  )
}

/** `eaas root-key`: the key outside the database, which wraps the store keys. */
import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { beforeEnd, isOpenToAll } from '@eaas/audit/node'
import { counted } from '@eaas/protocol'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { type Config, ROOT_KEY_VARIABLES, type RootKeySetting } from '../../core/config.js'
import { VARIABLES } from '../../core/settings.js'
import { isRolledBack } from '../../core/store/db.js'
import { countWaiting, getPeppers } from '../../core/store/peppers.js'
import { countSealed } from '../../core/store/store-keys.js'
import { makeRootKey, type RootKeyForm } from '../../root-keys/generate.js'
import { openProvider, providerOf } from '../../root-keys/open-provider.js'
import { generateInHsm, type HsmKey, unwrapByHsm, wrapByHsm } from '../../root-keys/pkcs11.js'
import { readCommandLine } from '../../root-keys/program.js'
import { ASK } from '../../root-keys/shares.js'
import { rotateRootKey } from '../operations/rotate-root-key.js'
import { asOwner } from './advice.js'
import * as cli from './command.js'
import { print, printJson } from './output.js'
import { withServices } from './with-services.js'

// By the name of the option's value. Options take no root key itself, since the list of processes would show it.
const TARGETS = [
  { value: 'path', kind: 'file' },
  { value: 'command', kind: 'command' },
  { value: 'shares', kind: 'shares' },
  { value: 'program', kind: 'exec' },
  { value: 'url', kind: 'transit' },
  { value: 'arn', kind: 'aws-kms' },
] as const satisfies { value: string; kind: RootKeySetting['kind'] }[]

// Printed if the command ends before the commit is acknowledged: an operator who then deletes the wrong root key loses everything.
const UNKNOWN_ROTATION =
  'It is unknown whether the root key was replaced, and it still may be. Keep both root keys, and once the database answers, see with each which one opens it: eaas root-key status'

const GENERATE_HELP = `
With --recipient alone, each recipient opens the file with any age tool, without the others. With --shares and
--threshold, each gets a share, a file of its own in the folder --out; without recipients the shares are not
encrypted. A start takes decrypted shares: see EAAS_ROOT_KEY_SHARES in eaas start --help.`

export function addRootKey(program: Command): void {
  const rootKey = program.command('root-key').description('Manage the root key.')

  rootKey
    .command('generate')
    .description(
      'Generate a root key for a new installation: in a file, encrypted to recipients, or in shares. Opens no database, and never prints the key.',
    )
    .requiredOption('--out <path>', `${cli.NEW_FILE}; with --shares a new folder`, cli.readNewFile)
    .addOption(cli.RECIPIENT_OPTION)
    .option('--shares <number>', 'split it into this many shares, one for each recipient', cli.readPositive)
    .option('--threshold <number>', 'how many of the shares open it', cli.readPositive)
    .option('--from <file>', 'take the root key of this file instead of a new one', cli.readInputFile)
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', GENERATE_HELP)
    .action((options: GenerateOptions, command: Command) => {
      const { shares, threshold } = options
      if ((shares === undefined) !== (threshold === undefined)) {
        return command.error('error: --shares and --threshold go together')
      }
      const split = shares === undefined || threshold === undefined ? undefined : { shares, threshold }
      cli.assertOneOutput(command, [options.out], options)
      if (options.out === cli.STANDARD_STREAM && (split || options.recipient === undefined))
        command.error("error: option '--out': standard output gets a root key only whole and encrypted (--recipient)")
      return rootKeyGenerate(options, split)
    })

  rootKey
    .command('status')
    .description('Show where the root key is, which store keys it wraps, and how many rows each of them seals.')
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', cli.SAME_ENVIRONMENT)
    .action(({ json }) => rootKeyStatus(cli.commandConfig(), { json }))

  addPkcs11(rootKey)

  const rotate = rootKey
    .command('rotate')
    .description(
      'Replace the root key, while servers run. Takes a second, whatever the number of keys; every start from then on needs the new one. On PostgreSQL, run it as the owner of the tables.',
    )
    .addOption(cli.JSON_OPTION)
    .addHelpText(
      'after',
      `
Say by one of the options where the new root key is. A start takes it from the variable of the same name:
${TARGETS.map(({ kind }) => ROOT_KEY_VARIABLES[kind]).join(', ')}.
${cli.SAME_ENVIRONMENT}`,
    )
  const targets = TARGETS.map(({ value, kind }) => ({
    kind,
    option: new Option(`--to-${kind} <${value}>`, VARIABLES[ROOT_KEY_VARIABLES[kind]]),
  }))
  for (const { kind, option } of targets) {
    if (kind === 'file') option.argParser(readKeyPath)
    const others = targets.filter((target) => target.option !== option)
    rotate.addOption(option.conflicts(others.map((other) => other.option.attributeName())))
  }
  rotate.action(({ json, ...named }: Record<string, string> & { json: boolean }) => {
    const target = targets.find(({ option }) => option.attributeName() in named)
    const names = targets.map(({ option }) => option.long).join(', ')
    if (!target) return rotate.error(`error: name where the new root key is: ${names}`)
    const { kind, option } = target
    const value = named[option.attributeName()] ?? ''
    const config = cli.commandConfig()
    const setting = { kind, value: kind === 'file' ? resolve(value) : value, login: config.transitLogin }
    return rootKeyRotate(config, setting, { json })
  })
}

interface GenerateOptions {
  out: string
  recipient?: string[]
  shares?: number
  threshold?: number
  from?: string
  json: boolean
}

async function rootKeyGenerate(options: GenerateOptions, split: RootKeyForm['split']): Promise<void> {
  const { out, from, recipient: recipients = [], json } = options
  const { files, set } = await makeRootKey({ path: out, recipients, split, from })
  if (out === cli.STANDARD_STREAM) return
  const path = resolve(out)
  if (json) return printJson(set === undefined ? { file: path } : { files, set, threshold: split?.threshold })
  const what = from === undefined ? 'A new root key' : `The root key of ${from}`
  if (split) {
    return print(
      `${what} is in ${counted(files.length, 'share')}, any ${split.threshold} of which open it: the set ${set}.`,
      ...files.map((file, at) => `${file}  ${recipients[at] ? `for ${recipients[at]}` : 'not encrypted'}`),
      'Hand each to another person. Before you need them, have them open the database once: eaas root-key status with EAAS_ROOT_KEY_SHARES',
    )
  }
  if (recipients.length > 0) {
    return print(
      `${what} is in ${path}, encrypted to ${counted(recipients.length, 'recipient')}, each of whom opens it alone: age -d -i IDENTITY ${path}`,
      ...(from === undefined ? ['Nothing in the database opens without it.'] : []),
    )
  }
  print(
    `${what} is in ${path}. Copy it to a safe place apart from the backups of the database: without it nothing in the database opens.`,
    `Start a new installation with EAAS_ROOT_KEY_FILE set to this file. For one that exists: eaas root-key rotate --to-file ${path}`,
  )
}

async function rootKeyStatus(config: Config, { json }: { json: boolean }): Promise<void> {
  const { storeKeys, pepper } = await withServices(config, async ({ sql, now }) => {
    const { pepper: number } = await getPeppers(sql)
    return { storeKeys: await countSealed(sql), pepper: { number, waiting: await countWaiting(sql, now()) } }
  })
  const { kind, name } = await providerOf(config)
  if (json) return printJson({ root_key: { kind, name }, store_keys: storeKeys, pepper })
  print(
    `root key      ${kind} ${name}, which opens this database`,
    ...storeKeys.map(
      ({ number, created_at, rows }) => `store key ${number}   of ${created_at}, seals ${counted(rows, 'row', 'rows')}`,
    ),
  )
  if (pepper.waiting > 0) {
    print(
      `pepper ${pepper.number}      replaces one that ${counted(pepper.waiting, 'API key', 'API keys')} still ${pepper.waiting === 1 ? 'needs' : 'need'}: not used since, nor expired. Revoke those that nobody uses (last_used_at of eaas api-key list)`,
    )
  }
  if (storeKeys.length > 1)
    print(
      'A rotation of the store key is under way, was interrupted, or ended because a server could not open the new one: eaas store-key rotate. If no operator began one, an attacker added a store key: verify every log first.',
    )
}

async function rootKeyRotate(config: Config, setting: RootKeySetting, { json }: { json: boolean }): Promise<void> {
  await askForCurrent(config.rootKey, setting)
  const to = await openProvider(setting)
  warnOfRelative(setting)
  let release = (): void => undefined
  const beforeCommit = () => {
    release = beforeEnd(() => process.stderr.write(`eaas: ${UNKNOWN_ROTATION}\n`))
  }
  const rotation = withServices(config, async (services) =>
    rotateRootKey(services, { from: await providerOf(config), to, beforeCommit }).catch((error: unknown) => {
      if (isRolledBack(error)) release()
      throw error
    }),
  )
  const store_keys = await asOwner(rotation)
  release()
  if (json) return printJson({ root_key: { kind: to.kind, name: to.name }, store_keys })
  print(
    `The root key is that of ${to.kind} ${to.name} now. Servers that run go on; for each start, set ${ROOT_KEY_VARIABLES[setting.kind]} to ${setting.value}`,
    'Before you rotate the store key, restart them with it.',
    'Backups from before still open under the earlier root key. So that they do not, destroy it, and see: eaas store-key rotate --help',
  )
}

async function askForCurrent(current: RootKeySetting | undefined, next: RootKeySetting): Promise<void> {
  const isAsked = ({ kind, value }: RootKeySetting) => kind === 'shares' && value === ASK
  if (current && isAsked(current)) {
    process.stderr.write('First the shares of the current root key.\n')
    await openProvider(current)
  }
  if (isAsked(next)) process.stderr.write('Now the shares of the new root key.\n')
}

// A service starts in another folder, where the path leads to another file or to none.
function warnOfRelative({ kind, value }: RootKeySetting): void {
  if (kind !== 'exec' && kind !== 'command') return
  const words = readCommandLine(value, ROOT_KEY_VARIABLES[kind]).map((word) => word.replace(/^--[\w-]+=/, ''))
  const found = words.find((word) => /^[^/].*\//.test(word) && existsSync(word))
  if (found === undefined) return
  process.stderr.write(
    `eaas: ${found} is found from this folder only: a service needs its whole path, ${resolve(found)}\n`,
  )
}

type What = 'generate' | 'wrap' | 'unwrap'

function addPkcs11(rootKey: Command): void {
  rootKey
    .command('pkcs11')
    .description('Use a root key that an HSM holds, by pkcs11-tool of OpenSC. Reads no other settings.')
    .requiredOption('--module <path>', "the HSM's PKCS#11 library", cli.readKeptPath)
    .requiredOption('--token <label>', 'its token')
    .requiredOption('--id <hex>', 'the id of the key, such as 01', readKeyId)
    .requiredOption('--pin-file <file>', "a file with the user's PIN, its whole path", readWholePath)
    .addArgument(
      new Argument('<what>', 'make the key, or wrap or unwrap standard input').choices(['generate', 'wrap', 'unwrap']),
    )
    .addHelpText(
      'after',
      `
The server calls wrap and unwrap by itself: set EAAS_ROOT_KEY_EXEC to this command with its options, without the last
word.`,
    )
    .action((what: What, key: HsmKey) => runPkcs11(what, key))
}

async function runPkcs11(what: What, key: HsmKey): Promise<void> {
  if (what === 'generate') {
    await generateInHsm(key)
    print(`The token ${key.token} has a new root key of the id ${key.id}.`)
  } else {
    const input = await buffer(process.stdin)
    process.stdout.write(await (what === 'wrap' ? wrapByHsm : unwrapByHsm)(key, input))
  }
  if (await isOpenToAll(key.pinFile)) {
    process.stderr.write(`eaas: everybody on this machine can read or change ${key.pinFile}: chmod 600\n`)
  }
}

function readKeyPath(text: string): string {
  if (existsSync(cli.readKeptPath(text))) return text
  throw new InvalidArgumentError('There is no such file. To make one: eaas root-key generate --out <path>')
}

function readWholePath(text: string): string {
  if (isAbsolute(text)) return text
  throw new InvalidArgumentError('It must be a whole path, such as /etc/eaas/pin.')
}

// An HSM stores bytes, so 1 and 01, B and 0b are the same id.
function readKeyId(text: string): string {
  if (/^([0-9a-f]{2})+$/i.test(text)) return text.toLowerCase()
  throw new InvalidArgumentError('It must be pairs of hexadecimal digits, such as 01.')
}

/** Opens the provider that the settings name, and says where the root key is. */
import { type Config, ROOT_KEY_VARIABLES, type RootKeySetting } from '../core/config.js'
import { RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'
import { awsKmsProvider } from './aws-kms.js'
import {
  embeddedRootKeyPath,
  localProvider,
  NEEDED_KEY,
  parseRootKey,
  readEmbeddedRootKey,
  readKeyFile,
} from './local-key.js'
import { execProvider, readCommandLine, runProgram } from './program.js'
import { ASK, listShareFiles, sharesProvider } from './shares.js'
import { transitProvider } from './transit.js'

export async function openProvider(setting: RootKeySetting): Promise<RootKeyProvider> {
  const { kind, value, login } = setting
  const variable = ROOT_KEY_VARIABLES[kind]
  switch (kind) {
    case 'variable':
      return localProvider(parseRootKey(value, variable), { kind, name: variable })
    case 'file':
      return localProvider(parseRootKey(await readKeyFile(value), value), { kind, name: value })
    case 'command':
      return commandProvider(readCommandLine(value, variable))
    case 'shares':
      return sharesProvider(setting)
    case 'exec':
      return execProvider(readCommandLine(value, variable))
    case 'transit':
      return transitProvider(value, login)
    case 'aws-kms':
      return awsKmsProvider(value)
  }
}

async function commandProvider(commandLine: [string, ...string[]]): Promise<RootKeyProvider> {
  const what = `The program of ${ROOT_KEY_VARIABLES.command},`
  const printed = await runProgram(commandLine, new Uint8Array(), { what })
  try {
    const [name] = commandLine
    return localProvider(parseRootKey(printed.toString().trim(), name), { kind: 'command', name })
  } finally {
    printed.fill(0)
  }
}

/** The embedded database's own root key counts as a file. */
export function rootKeySettingOf({ rootKey, transitLogin, dataDir }: Config): RootKeySetting {
  return rootKey ?? { kind: 'file', value: embeddedRootKeyPath(dataDir), login: transitLogin }
}

export async function providerOf(config: Config): Promise<RootKeyProvider> {
  return config.rootKey ? openProvider(config.rootKey) : openOwnKey(config, { mayCreate: false })
}

/** Opens the embedded database's own root key. @throws RootKeyError, also on PostgreSQL, which has no such key */
export async function openOwnKey(
  { databaseUrl, databaseUrlFile, dataDir }: Config,
  options: { mayCreate: boolean },
): Promise<RootKeyProvider> {
  const variable = databaseUrlFile === undefined ? 'EAAS_DATABASE_URL' : 'EAAS_DATABASE_URL_FILE'
  if (databaseUrl !== undefined)
    throw new RootKeyError(`${variable} is set, and no variable says where the root key is. ${NEEDED_KEY}`)
  const key = await readEmbeddedRootKey(dataDir, options)
  return localProvider(key, { kind: 'file', name: embeddedRootKeyPath(dataDir) })
}

/** Lists the files with secrets that the root key's settings name, including shares and tokens. */
export function rootKeyFiles({ rootKey, databaseUrl, dataDir }: Config): string[] {
  if (!rootKey) return databaseUrl === undefined ? [embeddedRootKeyPath(dataDir)] : []
  const { kind, value, login } = rootKey
  if (kind === 'file') return [value]
  if (kind === 'shares') return value === ASK ? [] : listShareFiles(value)
  return kind === 'transit' ? [login.tokenFile, login.appRoleFile].filter((file) => file !== undefined) : []
}

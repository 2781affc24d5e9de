/** Opens the provider that the settings name. */
import { ROOT_KEY_VARIABLES, type RootKeySetting } from '../core/config.js'
import {
  embeddedRootKeyPath,
  localProvider,
  parseRootKey,
  type RootKeyProvider,
  readEmbeddedRootKey,
  readKeyFile,
} from '../core/crypto/root-key.js'
import { awsKmsProvider } from './aws-kms.js'
import { execProvider } from './exec.js'
import { readCommandLine, runProgram } from './program.js'
import { sharesProvider } from './shares.js'
import { transitProvider } from './transit.js'

/** The provider that a setting names. @throws RootKeyError */
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

/** The provider of an embedded database's own file. @throws RootKeyError */
export async function openEmbeddedProvider(dataDir: string, options: { mayCreate: boolean }): Promise<RootKeyProvider> {
  const key = await readEmbeddedRootKey(dataDir, options)
  return localProvider(key, { kind: 'file', name: embeddedRootKeyPath(dataDir) })
}

// A program that prints the root key.
async function commandProvider(commandLine: [string, ...string[]]): Promise<RootKeyProvider> {
  const printed = await runProgram(commandLine, new Uint8Array(), {
    what: `The program of ${ROOT_KEY_VARIABLES.command},`,
  })
  try {
    const [name] = commandLine
    return localProvider(parseRootKey(printed.toString().trim(), name), { kind: 'command', name })
  } finally {
    printed.fill(0)
  }
}

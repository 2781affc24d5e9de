/** Opens the provider that the settings name. */
import type { Config } from '../config.js'
import { embeddedRootKeyPath, readEmbeddedRootKey, readRootKey } from '../crypto/root-key.js'
import { localProvider, type RootKeyProvider } from './provider.js'

/** The provider that the settings name; undefined if they name none. @throws RootKeyError */
export async function openProvider(config: Config['rootKey']): Promise<RootKeyProvider | undefined> {
  const key = await readRootKey(config)
  if (!key) return undefined
  const origin =
    config.file === undefined
      ? ({ kind: 'variable', name: 'EAAS_ROOT_KEY' } as const)
      : ({ kind: 'file', name: config.file } as const)
  return localProvider(key, origin)
}

/** The provider of an embedded database's own file. @throws RootKeyError */
export async function openEmbeddedProvider(dataDir: string, options: { mayCreate: boolean }): Promise<RootKeyProvider> {
  const key = await readEmbeddedRootKey(dataDir, options)
  return localProvider(key, { kind: 'file', name: embeddedRootKeyPath(dataDir) })
}

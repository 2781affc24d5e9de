/** A root key in shares that a team keeps: read from files, or asked for on the terminal. */
import { readFile } from 'node:fs/promises'
import type { RootKeySetting } from '../core/config.js'
import { importKey } from '../core/crypto/aead.js'
import { localProvider, RootKeyError, type RootKeyProvider } from '../core/crypto/root-key.js'
import { askForShares } from './ask-for-shares.js'
import { combineShares, readShare, type Share } from './root-key-share.js'

/** Given instead of files: asks for the shares on the terminal. */
export const ASK = 'ask'

/** Opened providers by setting, so that each person gives a share once for a start or a command. */
const opened = new WeakMap<RootKeySetting, Promise<RootKeyProvider>>()

/** Opens the shares once for each setting, and keeps the root key for later rotations. @throws RootKeyError */
export function sharesProvider(setting: RootKeySetting): Promise<RootKeyProvider> {
  let provider = opened.get(setting)
  if (!provider) {
    provider = openShares(setting.value)
    opened.set(setting, provider)
  }
  return provider
}

async function openShares(value: string): Promise<RootKeyProvider> {
  const shares = value === ASK ? await askForShares() : await readShareFiles(value)
  try {
    const key = importKey(await combineShares(shares))
    return localProvider(key, { kind: 'shares', name: `set ${shares[0]?.set}` })
  } finally {
    for (const { point } of shares) point.fill(0)
  }
}

export function listShareFiles(list: string): string[] {
  return list.split(',').map((file) => file.trim())
}

async function readShareFiles(list: string): Promise<Share[]> {
  const files = listShareFiles(list)
  if (files.includes('')) throw new RootKeyError('The list of files with shares has an empty name between its commas.')
  return Promise.all(files.map(readShareFile))
}

async function readShareFile(file: string): Promise<Share> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new RootKeyError(`The share ${file} cannot be read (${code}).`)
  }
  return readShare(text, file)
}

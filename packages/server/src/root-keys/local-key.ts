// A root key in this process, read from text or a file.
import type { KeyObject } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFile } from '@eaas/audit/node'
import { concatBytes, decodeBase64, encodeBase64, encodeUtf8, KEY_BYTES, OpenError } from '@eaas/protocol'
import { ROOT_KEY_VARIABLES } from '../core/config.js'
import { importKey, open, randomKey, seal } from '../core/crypto/aead.js'
import { RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'

const FORMAT = 0x01
const AAD = encodeUtf8('eaas/root-key/v1')

/** A key in this process: AES-256-GCM, `0x01 ‖ iv ‖ ciphertext ‖ tag` under the AAD `eaas/root-key/v1`. */
export function localProvider(
  key: KeyObject,
  { kind, name }: { kind: 'file' | 'variable' | 'command' | 'shares'; name: string },
): RootKeyProvider {
  return {
    kind,
    name,
    wrap: async (bytes) => concatBytes(Uint8Array.of(FORMAT), seal(key, bytes, AAD)),
    async unwrap(wrapped) {
      try {
        if (wrapped[0] !== FORMAT) throw new OpenError()
        return open(key, wrapped.subarray(1), AAD)
      } catch (error) {
        if (!(error instanceof OpenError)) throw error
        throw new RootKeyError(
          `The root key does not belong to this database. Set the one that it was first started with, or that it was given since by eaas root-key rotate (${WHERE}).`,
        )
      }
    },
  }
}

const WHERE = `${Object.values(ROOT_KEY_VARIABLES).join(', ')}; on the embedded database without them, root.key in the data directory`

/** Advice for a missing or malformed root key: only an installation's own root key opens its secrets. */
export const NEEDED_KEY = `An installation that exists needs its own root key, by the variable of where it is now (${WHERE}). Only for a new one, or to rotate to, make one: eaas root-key generate`

export function embeddedRootKeyPath(dataDir: string): string {
  return join(dataDir, 'root.key')
}

/** Reads the root key in a data directory. `mayCreate` creates one (mode 0600), only for a new database. @throws RootKeyError */
export async function readEmbeddedRootKey(dataDir: string, { mayCreate }: { mayCreate: boolean }): Promise<KeyObject> {
  const path = embeddedRootKeyPath(dataDir)
  if (mayCreate) await createNewKey(path)
  return parseRootKey(await readKeyFile(path), path)
}

async function createNewKey(path: string): Promise<void> {
  const rootKey = randomKey()
  try {
    await createFile(path, () => `${encodeBase64(rootKey)}\n`) // unless something exists there
  } finally {
    rootKey.fill(0)
  }
}

/** Reads the text of a file with a root key. @throws RootKeyError */
export const readKeyFile = (path: string): Promise<string> =>
  readSecret(path, `The root key ${path}`, `The root key ${path} is missing. ${NEEDED_KEY}`)

/** Reads the text of a file with a secret, which messages call `name`. @throws RootKeyError */
export async function readSecret(path: string, name: string, ifMissing?: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new RootKeyError((code === 'ENOENT' && ifMissing) || `${name} cannot be read (${code}).`)
  }
}

/** Reads a root key: base64 of 32 bytes. @throws RootKeyError, whose message names `source` */
export function parseRootKey(text: string, source: string): KeyObject {
  let bytes: Uint8Array
  try {
    bytes = decodeBase64(text)
  } catch {
    throw new RootKeyError(`The root key in ${source} is not standard base64. ${NEEDED_KEY}`)
  }
  if (bytes.length !== KEY_BYTES) {
    throw new RootKeyError(`The root key in ${source} must be ${KEY_BYTES} bytes, got ${bytes.length}. ${NEEDED_KEY}`)
  }
  return importKey(bytes)
}

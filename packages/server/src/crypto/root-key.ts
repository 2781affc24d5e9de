/**
 * Reads a root key in this process: from text, from a file, or from the file that is created for a new embedded
 * database; generates one into a file.
 */
import type { KeyObject } from 'node:crypto'
import { link, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { decodeBase64, encodeBase64, KEY_BYTES } from '@eaas/protocol'
import { syncDirectory } from '../sync-directory.js'
import { importKey, randomKey } from './aead.js'

/**
 * What to do about a root key that is not there or is no key: another key than its own opens nothing of an
 * installation.
 */
export const NEEDED_KEY =
  'An installation that exists needs the root key that it was first started with. Only for a new one, make one with: openssl rand -base64 32'

/** Thrown when there is no usable root key; the message says what to do. */
export class RootKeyError extends Error {
  override readonly name = 'RootKeyError'
}

/** The path of the root key of an embedded database. */
export function embeddedRootKeyPath(dataDir: string): string {
  return join(dataDir, 'root.key')
}

/**
 * Reads the root key in a data directory; creates one (mode 0600) if `mayCreate`, which is for a new and
 * empty database only.
 *
 * @throws RootKeyError if it is missing and may not be created, or is not a key
 */
export async function readEmbeddedRootKey(dataDir: string, { mayCreate }: { mayCreate: boolean }): Promise<KeyObject> {
  const path = embeddedRootKeyPath(dataDir)
  if (mayCreate) await createKeyFile(path)
  return parseRootKey(await readKeyFile(path), path)
}

/**
 * Creates a file (mode 0600) with a new root key.
 *
 * @throws RootKeyError if there is something at the path already, which is left as it is, or the file cannot be
 * written
 */
export async function generateRootKey(path: string): Promise<void> {
  let isCreated: boolean
  try {
    isCreated = await createKeyFile(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw new RootKeyError(`The root key cannot be written to ${path} (${code}). Name a file in a folder that exists.`)
  }
  if (!isCreated) {
    throw new RootKeyError(
      `${path} exists already and was left as it is: it may be the only copy of a root key. Name another file.`,
    )
  }
}

/** Whether everybody on the machine can read the file. */
export async function isReadableByAll(path: string): Promise<boolean> {
  return ((await stat(path)).mode & 0o004) !== 0
}

// Written to a draft and then linked: a crash leaves the whole key or none. False if the path exists, which is
// kept. It is on the disk then, name and all, whichever process made it: whatever is sealed later needs it.
async function createKeyFile(path: string): Promise<boolean> {
  const draft = `${path}.${process.pid}.new`
  const secret = randomKey()
  await rm(draft, { force: true }) // left by a crash: process ids are reused, in containers at every start
  try {
    await writeFile(draft, `${encodeBase64(secret)}\n`, { mode: 0o600, flag: 'wx', flush: true })
    const isCreated = await link(draft, path).then(() => true, refuseUnlessExists)
    await syncDirectory(dirname(path))
    return isCreated
  } finally {
    secret.fill(0)
    await rm(draft, { force: true })
  }
}

function refuseUnlessExists(error: NodeJS.ErrnoException): false {
  if (error.code !== 'EEXIST') throw error
  return false
}

/** The text of a file with a root key. @throws RootKeyError */
export async function readKeyFile(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') {
      throw new RootKeyError(
        `The root key ${path} is missing. Restore the file that belongs to this database; without it, nothing in the database can be decrypted.`,
      )
    }
    throw new RootKeyError(`The root key ${path} cannot be read (${code}).`)
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

/** The error about a root key of another database. */
export function foreignRootKey(): RootKeyError {
  return new RootKeyError(
    'The root key does not belong to this database. Set the one that the database was first started with, or that it was given since by eaas root-key rotate ' +
      `(EAAS_ROOT_KEY, EAAS_ROOT_KEY_FILE, or ${embeddedRootKeyPath('the data directory')}).`,
  )
}

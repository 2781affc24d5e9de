/** The directory of a witness: its key, its state, the list of its logs, and a lock that keeps a second process out. */
import { createSecretKey, type KeyObject } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { encodeBase64, KEY_BYTES } from '@eaas/protocol'
import { createWitnessKey, readWitnessKey } from '../audit/formats/cosignature.js'
import { encodeNoteKey, findBase64, type NoteKey } from '../audit/formats/signed-note.js'
import type { Config } from '../config.js'
import { randomKey } from '../crypto/aead.js'
import { signingKeyOf } from '../crypto/signing-key.js'
import { createDirectory } from '../store/embedded/create-directory.js'
import { DataDirectoryInUseError, lockDataDirectory } from '../store/embedded/data-directory-lock.js'
import type { LogKeys } from './judge.js'
import { readLogList } from './log-list.js'
import { readStateFile, replaceStateFile, syncDirectory, WitnessError, type WitnessState } from './state-file.js'

const LOG_LIST = `# The logs that this witness cosigns: one key a line. That of an EaaS installation: eaas audit public-key --tree
`

/** An opened witness; this process holds its directory. */
export interface WitnessFiles {
  key: NoteKey
  signingKey: KeyObject
  /** where the key was read from; undefined: the environment */
  keyFile: string | undefined
  logs: LogKeys
  state: WitnessState
  /** Replaces the state; it is on disk when this resolves. */
  save(state: WitnessState): Promise<void>
  /** Lets another process have the directory. */
  release(): Promise<void>
}

/**
 * Creates the directory of a new witness; returns its public key.
 * @throws WitnessError if the directory has anything in it or cannot be created, CheckpointError if no key can have the name
 */
export async function createWitness({ directory, key }: Config['witness'], name: string): Promise<NoteKey> {
  const known = await readKey(key)
  const seed = known ?? randomKey()
  const signingKey = signingKeyOf(createSecretKey(seed))
  const noteKey = createWitnessKey(name, signingKey)
  // Made beside and renamed: a crash leaves a whole witness or none, and nothing is ever overwritten.
  const draft = `${resolve(directory)}.${process.pid}.new`
  await createDraft(draft, directory)
  try {
    if (!known) await writeFile(keyPath(draft), `${encodeBase64(seed)}\n`, { mode: 0o600, flag: 'wx', flush: true })
    await writeFile(join(draft, '.gitignore'), '*\n', { flag: 'wx', flush: true }) // keeps the key out of git
    await writeFile(join(draft, 'logs'), LOG_LIST, { flag: 'wx', flush: true })
    await replaceStateFile(statePath(draft), { witness: encodeNoteKey(noteKey), logs: new Map() })
    await rename(draft, resolve(directory))
    await syncDirectory(dirname(resolve(directory)))
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EPERM'].includes(code)) throw error
    throw new WitnessError(
      `${directory} exists and is not empty: a new witness needs a directory of its own (EAAS_WITNESS_DIR).`,
    )
  } finally {
    seed.fill(0)
    await rm(draft, { recursive: true, force: true })
  }
  return noteKey
}

/** Opens a witness and takes its directory. @throws WitnessError */
export async function openWitness({ directory, key: source, logs: logList }: Config['witness']): Promise<WitnessFiles> {
  await readStateFile(statePath(directory)) // before the lock, which would create files in a wrong directory
  const lock = await lockDataDirectory(directory).catch((error: unknown) => {
    if (!(error instanceof DataDirectoryInUseError)) throw error
    const { pid, host, started_at } = error.holder
    throw new WitnessError(
      `The directory ${directory} is in use by process ${pid} on ${host}, started at ${started_at}. Two witnesses with one state could sign what ` +
        'contradicts each other: stop that one first.',
    )
  })
  try {
    const state = await readStateFile(statePath(directory))
    const keyFile = source.file ?? (source.value === undefined ? keyPath(directory) : undefined)
    const seed = await readKey({ value: source.value, file: keyFile })
    if (!seed) throw new WitnessError('The witness has no key.')
    const signingKey = signingKeyOf(createSecretKey(seed))
    seed.fill(0)
    const key = createWitnessKey(readWitnessKey(state.witness).name, signingKey)
    if (encodeNoteKey(key) !== state.witness) {
      throw new WitnessError(`The key does not belong to the state in ${directory}, which is of ${state.witness}.`)
    }
    const listed = logList ?? join(directory, 'logs')
    const logs = readLogList(await readText(listed, 'The list of logs'), listed)
    const save = (next: WitnessState) => replaceStateFile(statePath(directory), next)
    return { key, signingKey, keyFile, logs, state, save, release: () => lock.release() }
  } catch (error) {
    await lock.release()
    throw error
  }
}

async function createDraft(draft: string, directory: string): Promise<void> {
  try {
    await rm(draft, { recursive: true, force: true })
    createDirectory(draft)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new WitnessError(
      `${directory} cannot be created (${code}). Name another directory in EAAS_WITNESS_DIR, or create its parent for the user that the witness runs as.`,
    )
  }
}

function statePath(directory: string): string {
  return join(directory, 'state')
}

function keyPath(directory: string): string {
  return join(directory, 'witness.key')
}

/** The 32 bytes of a key; undefined if neither is set. */
async function readKey({ value, file }: Config['witness']['key']): Promise<Uint8Array | undefined> {
  if (value !== undefined && file !== undefined) {
    throw new WitnessError('EAAS_WITNESS_KEY and EAAS_WITNESS_KEY_FILE are both set. Set only one of them.')
  }
  if (value === undefined && file === undefined) return undefined
  const source = file ?? 'EAAS_WITNESS_KEY'
  const text = value ?? (file === undefined ? '' : await readText(file, 'The key of the witness'))
  const bytes = findBase64(text.trim(), KEY_BYTES)
  if (bytes) return bytes
  throw new WitnessError(
    `The key of the witness in ${source} must be the base64 of ${KEY_BYTES} bytes. Make one with: openssl rand -base64 32`,
  )
}

async function readText(path: string, what: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new WitnessError(`${what} cannot be read: ${path} (${error.code}).`)
  })
}

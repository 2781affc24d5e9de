/** The directory of a witness: its key, its state, its list of logs, and a lock against a second process. */
import { createSecretKey, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { encodeBase64, explainUnwritten, KEY_BYTES } from '@eaas/protocol'
import type { SigningKey } from '../crypto.js'
import { createWitnessKey, readWitnessKey } from '../formats/cosignature.js'
import { encodeNoteKey, findBase64, type NoteKey } from '../formats/signed-note.js'
import { createDirectory, syncDirectory } from '../node/create-directory.js'
import { DataDirectoryInUseError, LockLostError, lockDataDirectory } from '../node/data-directory-lock.js'
import { replaceFile, withDraft } from '../node/new-file.js'
import { signingKeyOf } from '../node/signing-key.js'
import { readLogList, type WitnessConfig } from './config.js'
import type { LogKeys } from './judge.js'
import { readStateFile, replaceStateFile, WitnessError, type WitnessState, writeState } from './state-file.js'

const LOG_LIST = `# The logs that this witness cosigns: one key a line. That of an EaaS installation: eaas audit public-key --tree
`

/** Advice on a missing or malformed key, for a new witness ... */
const NEW_KEY =
  'Make one with: openssl rand -base64 32. Or set neither EAAS_WITNESS_KEY nor EAAS_WITNESS_KEY_FILE: then --create makes it.'
/** ... and for an existing one: others trust its key, and its state accepts no other. */
const OWN_KEY =
  'A witness that exists needs the key that it was created with: restore it from a copy, or name the file that holds it in EAAS_WITNESS_KEY_FILE. If it is ' +
  'lost, create a new witness in another directory (EAAS_WITNESS_DIR), whose key must then be given to everybody who trusts this one.'
const NEEDED_LIST =
  'Create it with the key of each log to cosign, one a line (that of an installation: eaas audit public-key --tree), or name another list in EAAS_WITNESS_LOGS.'

/** Thrown when the directory was moved, or another process took its lock and may sign another history. */
export class LostDirectoryError extends WitnessError {
  override readonly name = 'LostDirectoryError'

  constructor(directory: string, cause: unknown) {
    super(
      `The directory ${directory} is no longer this witness's: it was moved or replaced, or somebody took or changed its lock. Another process may ` +
        'have signed with its key since. Make sure that no other one does, that the directory is on a local file system and that its state is the ' +
        'newest, and start the witness again.',
      { cause },
    )
  }
}

/** An opened witness; this process holds its directory. */
export interface WitnessFiles {
  key: NoteKey
  signingKey: SigningKey
  /** the file of the key; undefined if it came from the environment */
  keyFile: string | undefined
  logs: LogKeys
  state: WitnessState
  /** Replaces the state, durably once this resolves. @throws LostDirectoryError */
  save(state: WitnessState): Promise<void>
  /** Checks that this process still holds the directory. @throws LostDirectoryError */
  assertHeld(): void
  release(): Promise<void>
}

/** Creates the directory of a witness. Returns its public key. @throws WitnessError, CheckpointError for a bad name */
export async function createWitness({ directory, key }: WitnessConfig, name: string): Promise<NoteKey> {
  // Checked first: otherwise the advice to make a key could lead the operator to overwrite this witness's key.
  if (existsSync(statePath(directory))) throw notEmpty(directory)
  const known = await readKey(key, NEW_KEY)
  const seed = known ?? randomBytes(KEY_BYTES)
  const signingKey = signingKeyOf(createSecretKey(seed))
  const noteKey = createWitnessKey(name, signingKey)
  // A draft is renamed: a crash leaves a complete witness or none, and nothing is ever overwritten.
  try {
    await withDraft(resolve(directory), async (draft) => {
      createDraft(draft, directory)
      if (!known) await writeFile(keyPath(draft), `${encodeBase64(seed)}\n`, { mode: 0o600, flag: 'wx', flush: true })
      await writeFile(join(draft, '.gitignore'), '*\n', { flag: 'wx', flush: true }) // keeps the key out of git
      await writeFile(join(draft, 'logs'), LOG_LIST, { flag: 'wx', flush: true })
      await replaceFile(statePath(draft), writeState({ witness: encodeNoteKey(noteKey), logs: new Map() }))
      await rename(draft, resolve(directory))
      await syncDirectory(dirname(resolve(directory)))
    })
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EPERM'].includes(code)) throw notEmpty(directory)
    throw new WitnessError(explainUnwritten(resolve(directory), error as NodeJS.ErrnoException))
  } finally {
    seed.fill(0)
  }
  return noteKey
}

/** Opens a witness and locks its directory. @throws WitnessError */
export async function openWitness({ directory, key: source, logs: logList }: WitnessConfig): Promise<WitnessFiles> {
  await readStateFile(statePath(directory)) // before locking, which would create files in a wrong directory
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
    const seed = await readKey({ value: source.value, file: keyFile }, OWN_KEY)
    if (!seed) throw new WitnessError(`The witness has no key. ${OWN_KEY}`)
    const signingKey = signingKeyOf(createSecretKey(seed))
    seed.fill(0)
    const key = createWitnessKey(readWitnessKey(state.witness).name, signingKey)
    if (encodeNoteKey(key) !== state.witness)
      throw new WitnessError(
        `The key in ${keyFile ?? 'EAAS_WITNESS_KEY'} does not belong to the state in ${directory}, which is of ${state.witness}. ${OWN_KEY}`,
      )
    const listed = logList ?? join(directory, 'logs')
    const logs = readLogList(await readText(listed, 'The list of logs', NEEDED_LIST), listed)
    const assertHeld = () => {
      try {
        lock.assertHeld()
      } catch (error) {
        throw error instanceof LockLostError ? new LostDirectoryError(directory, error) : error
      }
    }
    const save = async (next: WitnessState) => {
      assertHeld()
      await replaceStateFile(statePath(directory), next)
      assertHeld()
    }
    return { key, signingKey, keyFile, logs, state, save, assertHeld, release: () => lock.release() }
  } catch (error) {
    await lock.release()
    throw error
  }
}

function createDraft(draft: string, directory: string): void {
  try {
    createDirectory(draft)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new WitnessError(
      `${directory} cannot be created (${code}). Name another directory in EAAS_WITNESS_DIR, or create its parent for the user that the witness runs as.`,
    )
  }
}

function notEmpty(directory: string): WitnessError {
  return new WitnessError(
    `${directory} exists and is not empty: a new witness needs a directory of its own (EAAS_WITNESS_DIR).`,
  )
}

function statePath(directory: string): string {
  return join(directory, 'state')
}

function keyPath(directory: string): string {
  return join(directory, 'witness.key')
}

/** Reads the 32 bytes of a key; undefined if neither source is set. @throws WitnessError with `remedy` */
async function readKey({ value, file }: WitnessConfig['key'], remedy: string): Promise<Uint8Array | undefined> {
  if (value !== undefined && file !== undefined)
    throw new WitnessError('EAAS_WITNESS_KEY and EAAS_WITNESS_KEY_FILE are both set. Set only one of them.')
  if (value === undefined && file === undefined) return undefined
  const source = file ?? 'EAAS_WITNESS_KEY'
  const text = value ?? (file === undefined ? '' : await readText(file, 'The key of the witness', remedy))
  const bytes = findBase64(text.trim(), KEY_BYTES)
  if (bytes) return bytes
  throw new WitnessError(`The key of the witness in ${source} must be the base64 of ${KEY_BYTES} bytes. ${remedy}`)
}

async function readText(path: string, what: string, ifMissing: string): Promise<string> {
  return readFile(path, 'utf8').catch(({ code }: NodeJS.ErrnoException) => {
    const remedy = code === 'ENOENT' ? ifMissing : 'It must be a file that the user that the witness runs as may read.'
    throw new WitnessError(`${what} cannot be read: ${path} (${code}). ${remedy}`)
  })
}

/**
 * Reads the files that a command is given, or creates them, with errors that say what is wrong with the path.
 */
import { createReadStream } from 'node:fs'
import { access, constants, type FileHandle, readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { createFile, createFileBy, createFolder, explainUnwritten } from '../node/new-file.js'

/** Thrown when a command cannot do its work; the message says why. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** Why a path cannot be used, by the code of the system error. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not open it',
  EEXIST: 'it exists already, and is not overwritten',
  EISDIR: 'it is a directory, and must be a file',
  ELOOP: 'its symbolic links form a circle',
  ENAMETOOLONG: 'the name is too long',
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of the path is no directory',
  EPERM: 'this user may not open it',
}

/** The most that is read into memory. Only a file of checkpoints grows so long, after years. */
const MOST_BYTES = 256 * 1_048_576

/** Reads a file as text. @throws CommandError if it cannot be read, or is too long */
export async function readGiven(path: string): Promise<string> {
  const { size } = await stat(path).catch((error: unknown) => refuse(path, error))
  if (size > MOST_BYTES)
    throw new CommandError(
      `${path} is longer than 256 MiB. Of a file of checkpoints, give its newest lines: tail -n 200000 ${path} > newest`,
    )
  return readFile(path, 'utf8').catch((error: unknown) => refuse(path, error))
}

/** As the path of a file that is read once: standard input. As the path of a file that is written: standard output. */
export const STANDARD_STREAM = '-'

/** Opens a file that is read once as a stream; `-` is standard input. @throws CommandError */
export async function openGiven(path: string): Promise<OpenedFile> {
  if (path === STANDARD_STREAM) return { chunks: process.stdin, progress: () => undefined }
  await assertFile(path)
  const { size } = await stat(path)
  const stream = createReadStream(path)
  return { chunks: stream, progress: () => stream.bytesRead / size }
}

export interface OpenedFile {
  chunks: AsyncIterable<Uint8Array>
  /** the part that was read, 0 to 1; undefined if the size is unknown */
  progress(): number | undefined
}

/** Checks that a file can be read, before a stream opens it. @throws CommandError */
export async function assertFile(path: string): Promise<void> {
  try {
    await access(path, constants.R_OK)
    if ((await stat(path)).isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
  } catch (error) {
    refuse(path, error)
  }
}

/**
 * Creates a file that only its user may read, whole or not at all; never overwrites one. @throws CommandError
 * if it cannot be written
 */
export async function createNew(path: string, text: string): Promise<void> {
  await assertCreated(
    path,
    createFile(resolve(path), () => text),
  )
}

/** Like `createNew`, but `write` writes into the file, for content that is larger than memory. */
export async function createNewBy(path: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  await assertCreated(path, createFileBy(resolve(path), write))
}

/** Like `createNew`, for a folder with files by their names. */
export async function createNewFolder(path: string, texts: ReadonlyMap<string, string>): Promise<void> {
  await assertCreated(path, createFolder(resolve(path), texts))
}

async function assertCreated(path: string, creating: Promise<boolean>): Promise<void> {
  const isCreated = await creating.catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(explainUnwritten(resolve(path), error))
  })
  if (!isCreated) refuse(path, { code: 'EEXIST' })
}

function refuse(path: string, error: unknown): never {
  const { code = '' } = error as NodeJS.ErrnoException
  const reason = REASONS[code]
  if (reason === undefined) throw error
  throw new CommandError(`${path}: ${reason}`)
}

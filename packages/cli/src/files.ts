/** The paths of a command, and the files that it reads as streams. */
import { constants, createReadStream, fstatSync, type Stats } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { concatBytes, explainUnwritten, PATH_REASONS } from '@eaas/protocol'
import { CommandError, type Io, UsageError } from './io.js'

export const REASONS: typeof PATH_REASONS = { ...PATH_REASONS, EEXIST: 'it exists already; --force replaces it' }

/** Why a new file cannot be made, where its folder is the reason. */
const FOLDER_REASONS: typeof REASONS = {
  EACCES: 'its folder is not writable for this user',
  ENOENT: 'its folder does not exist',
  EPERM: 'its folder is not writable for this user',
  EROFS: 'its folder is not writable, since the file system is read-only',
}

/** @throws UsageError that says what is wrong with a path; any other error unchanged */
export function refusePath(path: string, error: unknown, reasons: typeof REASONS = {}): never {
  const { code = '' } = error as NodeJS.ErrnoException
  const reason = reasons[code] ?? REASONS[code]
  if (reason === undefined) throw error
  throw new UsageError(`${path}: ${reason}`)
}

/** The same for a path that is written to. @throws also CommandError, such as for a full disk */
export function refuseUnwritten(io: Io, path: string, error: unknown): never {
  const { code = '' } = error as NodeJS.ErrnoException
  if (FOLDER_REASONS[code] ?? REASONS[code]) refusePath(path, error, FOLDER_REASONS)
  throw new CommandError(explainUnwritten(resolvePath(io, path), error as NodeJS.ErrnoException))
}

export function resolvePath({ folder }: Io, path: string): string {
  return resolve(folder, path)
}

export interface Input {
  /** As the user named it; `-` for standard input. */
  name: string
  stream: Readable
  /** Bytes; undefined for standard input. */
  size: number | undefined
  /** The file's, even if it is standard input; undefined if it is not a regular file. */
  stats: Stats | undefined
}

/** Opens a file, or standard input for `-`. Reading ends when the command is interrupted. @throws UsageError */
export async function openInput(io: Io, name = '-'): Promise<Input> {
  if (name === '-') {
    if (io.stdin.isTTY) throw new UsageError('standard input is a terminal: name a file, or pipe something in')
    return { name, stream: addAbortSignal(io.signal, io.stdin), size: undefined, stats: statOfInput(io) }
  }
  const path = resolvePath(io, name)
  try {
    await access(path, constants.R_OK)
    const found = await stat(path)
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    const stats = found.isFile() ? found : undefined
    return { name, stream: addAbortSignal(io.signal, createReadStream(path)), size: stats?.size, stats }
  } catch (error) {
    return refusePath(name, error)
  }
}

function statOfInput({ stdin }: Io): Stats | undefined {
  const { fd } = stdin as { fd?: unknown }
  if (typeof fd !== 'number') return undefined
  const stats = fstatSync(fd)
  return stats.isFile() ? stats : undefined
}

type Source = { name: string; chunks: AsyncIterable<Uint8Array> }

/** Reads everything as UTF-8. @throws UsageError with `wrong` if it is not */
export async function readText(source: Source, most: number, wrong = 'it is not UTF-8'): Promise<string> {
  const bytes = await readAll(source, most)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new UsageError(`${source.name}: ${wrong}`)
  } finally {
    bytes.fill(0) // a recovery kit contains keys
  }
}

export async function readAll({ name, chunks }: Source, most: number): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  let length = 0
  for await (const chunk of chunks) {
    all.push(chunk)
    length += chunk.length
    if (length > most) throw new UsageError(`${name}: it is longer than ${most} bytes`)
  }
  return concatBytes(...all)
}

/** The files of a command: read as streams, and written under a temporary name, so that nothing half done is left. */
import { randomBytes } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { access, link, lstat, open, rename, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { concatBytes } from '@eaas/protocol'
import { type Io, UsageError, write } from './io.js'

/** What the error of a path says, by the code of the system's error. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not open it',
  EEXIST: 'it exists already; --force replaces it',
  EISDIR: 'it is a directory, and must be a file',
  ELOOP: 'its symbolic links form a circle',
  ENAMETOOLONG: 'the name is too long',
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of the path is no directory',
  EPERM: 'this user may not open it',
}

/** Only the owner may read what was decrypted. */
export const PRIVATE_MODE = 0o600
const DEFAULT_MODE = 0o666

/** @throws UsageError always, that says what is wrong with a path; any other error unchanged */
export function refusePath(path: string, error: unknown, reasons: typeof REASONS = {}): never {
  const { code = '' } = error as NodeJS.ErrnoException
  const reason = reasons[code] ?? REASONS[code]
  if (reason === undefined) throw error
  throw new UsageError(`${path}: ${reason}`)
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
  /** The permissions of the file. */
  mode: number | undefined
}

/** Opens a file, or standard input for `-` and where there is none. Reading ends when the command is interrupted. @throws UsageError */
export async function openInput(io: Io, name = '-'): Promise<Input> {
  if (name === '-') {
    if (io.stdin.isTTY) throw new UsageError('standard input is a terminal: name a file, or pipe something in')
    return { name, stream: addAbortSignal(io.signal, io.stdin), size: undefined, mode: undefined }
  }
  const path = resolvePath(io, name)
  try {
    await access(path, constants.R_OK)
    const found = await stat(path)
    if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    const size = found.isFile() ? found.size : undefined
    return { name, stream: addAbortSignal(io.signal, createReadStream(path)), size, mode: found.mode & 0o777 }
  } catch (error) {
    return refusePath(name, error)
  }
}

/** Where a command writes. Either `commit` or `discard` ends it. */
export interface Output {
  /** As the user named it; `-` for standard output. */
  name: string
  write(chunk: string | Uint8Array): Promise<void>
  /** Puts the file in its place, once all is on disk. */
  commit(): Promise<void>
  /** Removes what was written. What went to standard output stays. */
  discard(): Promise<void>
}

export interface OutputOptions {
  /** Whether an existing file is replaced. */
  force: boolean
  /** The permissions of the new file. */
  mode?: number | undefined
}

/** Opens a new file, or standard output for `-`. @throws UsageError when the file exists and is not to be replaced */
export async function openOutput(io: Io, name: string, { force, mode = DEFAULT_MODE }: OutputOptions): Promise<Output> {
  if (name === '-') {
    const done = async () => undefined
    return { name, write: (chunk) => write(io.stdout, chunk), commit: done, discard: done }
  }
  const path = resolvePath(io, name)
  if (await exists(path)) {
    if (!force) throw new UsageError(`${name}: ${REASONS.EEXIST}`)
    if ((await stat(path)).isDirectory()) throw new UsageError(`${name}: ${REASONS.EISDIR}`)
  }
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`)
  const file = await open(temporary, 'wx', mode).catch((error: unknown) =>
    refusePath(name, error, { ENOENT: 'its folder does not exist' }),
  )
  return {
    name,
    async write(chunk) {
      await file.writeFile(chunk)
    },
    async commit() {
      try {
        await file.sync()
      } finally {
        await file.close()
      }
      await place(temporary, path, force).catch(async (error: unknown) => {
        await unlink(temporary)
        refusePath(name, error)
      })
    },
    async discard() {
      await file.close().catch(() => undefined)
      await unlink(temporary).catch(() => undefined) // gone where `commit` removed it
    },
  }
}

/** Gives a file its name. Without `force`, a file that appeared meanwhile is not replaced: `link` fails for it, and `rename` would not. */
async function place(temporary: string, path: string, force: boolean): Promise<void> {
  if (force) return rename(temporary, path)
  try {
    await link(temporary, path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' || (await exists(path))) throw Object.assign(new Error(), { code: 'EEXIST' })
    return rename(temporary, path) // a file system without links
  }
  await unlink(temporary)
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}

/** Runs what writes a file: commits it at the end, and leaves nothing where that fails. */
export async function writing<T>(output: Output, run: () => Promise<T>): Promise<T> {
  try {
    const result = await run()
    await output.commit()
    return result
  } catch (error) {
    await output.discard()
    throw error
  }
}

/** Reads all chunks. @throws UsageError when they are longer than `most` bytes */
export async function readAll(
  { name, chunks }: { name: string; chunks: AsyncIterable<Uint8Array> },
  most: number,
): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  let length = 0
  for await (const chunk of chunks) {
    all.push(chunk)
    length += chunk.length
    if (length > most) throw new UsageError(`${name}: it is longer than ${most} bytes`)
  }
  return concatBytes(...all)
}

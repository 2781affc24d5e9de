/** A command's output file: it has a temporary name until it is complete, and is as private as its source. */
import { createHash, randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type FileHandle, link, lstat, open, readdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { OutputOptions } from './arguments.js'
import { REASONS, refusePath, refuseUnwritten, resolvePath } from './files.js'
import { ArgumentsError, type Io, isPlain, print, UsageError, write } from './io.js'

/** Only the owner may read what was decrypted. */
export const PRIVATE_MODE = 0o600
const DEFAULT_MODE = 0o666
const GROUP_BITS = 0o070
/** Other names of standard output. Taken for files, they would be replaced. */
const STANDARD_OUTPUT = ['-', '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1']
const SUFFIX = '.eaas'
const NO_FILE = 'it is a device, a FIFO or a socket, and must be a file; -o - writes to standard output'

/** A command's output. Call either `commit` or `discard` at the end. */
export interface Output {
  /** As the user named it; `-` for standard output. */
  name: string
  write(chunk: string | Uint8Array): Promise<void>
  /** Resolves once everything written is on disk. */
  flush(): Promise<void>
  /** Gives the file its name once it is on disk. @throws UsageError if its source changed meanwhile */
  commit(): Promise<void>
  /** Removes the file. Standard output keeps what was written. */
  discard(): Promise<void>
}

export interface OpenOptions {
  /** Whether to replace an existing file, and to write bytes other than text to a terminal. */
  force: boolean
  /** The new file's permissions; those that the source or the replaced file lacks are removed. */
  mode?: number | undefined
  source?: Stats | undefined
  /** Replaces the source, and keeps its permissions and, if this user may, its owner. A source that changed meanwhile stays. */
  inPlace?: boolean | undefined
}

/** Reads `--out`. All names of standard output become `-`. @throws UsageError */
export function readOut(given: OutputOptions, fallback: () => string): string {
  const out = given.out ?? fallback()
  if (out === '') throw new ArgumentsError('--out is empty: name a file, or pass - for standard output')
  return STANDARD_OUTPUT.includes(out) ? '-' : out
}

export function assertReportable({ json }: OutputOptions, out: string): void {
  if (json && out === '-') throw new ArgumentsError('--json needs --out <file>: standard output has the data')
}

/** Reports what was done, as a line or as JSON; nothing if standard output has the data. */
export async function report(
  io: Io,
  { given, out }: { given: OutputOptions; out: string },
  result: object,
  line: string,
): Promise<void> {
  if (out === '-') return
  await print(io, given.json ? JSON.stringify(result) : line)
}

/** Names the encrypted file after its source. @throws UsageError if no file can be made next to it */
export function sealedName(name: string): string {
  if (/^\/(dev|proc)\//.test(name)) throw new UsageError(`${name}: no file is made beside it, so pass --out <file>`)
  return name === '-' ? '-' : `${name}${SUFFIX}`
}

/** Names the decrypted file after its source. @throws UsageError if the source's name lacks the suffix */
export function plainName(name: string): string {
  if (name === '-') return '-'
  if (name.endsWith(SUFFIX) && name.length > SUFFIX.length) return name.slice(0, -SUFFIX.length)
  throw new UsageError(`${name}: its name does not end with ${SUFFIX}, so pass --out <file>`)
}

/** Opens a file, or standard output for `-`. @throws UsageError if it exists without `force`, or is no regular file */
export async function openOutput(io: Io, name: string, options: OpenOptions): Promise<Output> {
  const { force, mode = DEFAULT_MODE, source, inPlace = false } = options
  if (name === '-') return openStandardOutput(io, force)
  const refuse = (error: unknown) => refuseUnwritten(io, name, error)
  const { path, replaced } = await findTarget(resolvePath(io, name), name, force)
  const temporary = await nameTemporary(path)
  const limits = [source, replaced].filter((one) => one !== undefined)
  // The owner may always write: replacing a file takes a right on its folder, not on the file.
  const allowed = limits.reduce((most, one) => most & (one.mode | PRIVATE_MODE), inPlace ? 0o777 : mode)
  const file = await open(temporary, 'wx', allowed).catch(refuse)
  underway.add(temporary)
  try {
    if (inPlace && source) await giveTo(file, source, allowed)
    await withoutOtherGroups(file, limits)
  } catch (error) {
    await discard(file, temporary)
    throw error
  }
  return {
    name,
    async write(chunk) {
      await file.writeFile(chunk).catch(refuse)
    },
    async flush() {
      await file.sync().catch(refuse)
    },
    async commit() {
      try {
        await file.sync().catch(refuse)
      } finally {
        await file.close()
      }
      if (inPlace && source) await assertUnchanged(path, name, source)
      await place(temporary, path, force).catch(async (error: unknown) => {
        await unlink(temporary)
        refuse(error)
      })
      underway.delete(temporary)
    },
    discard: () => discard(file, temporary),
  }
}

/** Runs code that writes an output. Commits it at the end, or discards it if the code fails. */
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

function openStandardOutput({ stdout }: Io, force: boolean): Output {
  const assertShowable = stdout.isTTY && !force ? createTerminalGuard() : undefined
  const done = async () => undefined
  return {
    name: '-',
    async write(chunk) {
      assertShowable?.(chunk)
      await write(stdout, chunk)
    },
    flush: done,
    commit: done,
    discard: done,
  }
}

/** Refuses anything but text, since a terminal obeys some bytes. */
function createTerminalGuard(): (chunk: string | Uint8Array) => void {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const read = (chunk: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: true })
    } catch {
      return undefined
    }
  }
  return (chunk) => {
    const text = typeof chunk === 'string' ? chunk : read(chunk)
    if (text === undefined || !isPlain(text)) throw new UsageError(NOT_FOR_TERMINALS)
  }
}

/** Refuses a terminal before the first byte, for output that is never text. @throws UsageError */
export function assertNoTerminal({ stdout }: Io, out: string, force: boolean): void {
  if (out === '-' && stdout.isTTY && !force) throw new UsageError(NOT_FOR_TERMINALS)
}

const NOT_FOR_TERMINALS =
  'standard output is a terminal, and the result is no plain text: pass --out <file>, or --force to write it there'

/** Finds the file behind a name, through symbolic links. @throws UsageError when it may not be replaced */
async function findTarget(path: string, name: string, force: boolean): Promise<{ path: string; replaced?: Stats }> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' ? undefined : refusePath(name, error),
  )
  if (!found) return { path }
  const dangling = { ENOENT: 'it is a symbolic link to a file that does not exist' }
  const target = await realpath(path).catch((error: unknown) => refusePath(name, error, dangling))
  const replaced = await stat(target).catch((error: unknown) => refusePath(name, error))
  if (replaced.isDirectory()) throw new UsageError(`${name}: ${REASONS.EISDIR}`)
  if (!replaced.isFile()) throw new UsageError(`${name}: ${NO_FILE}`)
  if (!force) throw new UsageError(`${name}: ${REASONS.EEXIST}`)
  return { path: target, replaced }
}

/** Gives a file the owner, group and permissions of another, as far as this user may. */
async function giveTo(file: FileHandle, { uid, gid }: Stats, mode: number): Promise<void> {
  await file.chown(uid, gid).catch(() => file.chown(-1, gid).catch(() => undefined))
  await file.chmod(mode)
}

async function withoutOtherGroups(file: FileHandle, others: readonly Stats[]): Promise<void> {
  const { gid, mode } = await file.stat()
  if ((mode & GROUP_BITS) !== 0 && others.some((one) => one.gid !== gid)) await file.chmod(mode & 0o777 & ~GROUP_BITS)
}

const underway = new Set<string>()
/** How much of a name its temporary name keeps, to stay below a file system's 255 bytes. */
const KEPT_CHARACTERS = 40

/** Names a temporary file next to a file, and removes those that killed commands of this machine left there. */
async function nameTemporary(path: string): Promise<string> {
  const folder = dirname(path)
  const machine = createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
  const begin = `.${[...basename(path)].slice(0, KEPT_CHARACTERS).join('')}.${machine}-`
  for (const name of await readdir(folder).catch(() => [])) {
    const [, process] = name.startsWith(begin) ? (/^(\d+)-[0-9a-f]{12}\.tmp$/.exec(name.slice(begin.length)) ?? []) : []
    if (process === undefined || isUnderway(join(folder, name), Number(process))) continue
    await unlink(join(folder, name)).catch(() => undefined) // another user's, or removed meanwhile
  }
  return join(folder, `${begin}${process.pid}-${randomBytes(6).toString('hex')}.tmp`)
}

function isUnderway(temporary: string, pid: number): boolean {
  if (pid === process.pid) return underway.has(temporary) // otherwise an earlier process had the same id
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

async function discard(file: FileHandle, temporary: string): Promise<void> {
  await file.close().catch(() => undefined)
  await unlink(temporary).catch(() => undefined) // gone if `commit` removed it
  underway.delete(temporary)
}

/** Gives a file its name. Without `force`, `link` fails if a file appeared meanwhile; `rename` would replace it. */
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

/**
 * Refuses to replace another file than the one that was read. A change between this check and the rename goes
 * unnoticed: no system call does both. @throws UsageError
 */
async function assertUnchanged(path: string, name: string, read: Stats): Promise<void> {
  const now = await stat(path).catch(() => undefined)
  if (now && (['dev', 'ino', 'size', 'mtimeMs'] as const).every((one) => now[one] === read[one])) return
  throw new UsageError(`${name}: it was changed meanwhile, and is left as it is: run the command again`)
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}

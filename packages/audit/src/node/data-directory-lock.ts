// Keeps a data directory to one process: two PGlite processes can open the same one, and lose rows without an error.
//
// The holder of the lock listens on its own unix socket in the directory, and a lock file names that socket. The kernel
// closes the socket with the process, so the holder is alive exactly if its socket answers. A pid would prove nothing:
// it may be reused, and in two containers both are 1. The lock file records it for people.
//
// Lock files are numbered (`server.lock.7`). The holder is the highest number, if its socket answers. A process takes
// over from a dead holder n by creating n + 1, which `link` grants to only one process. The highest file is never
// deleted, not even on release: if a number were used twice, a process that slept since it saw n die could win n + 1 a
// second time.
//
// Any user who can write to the directory can take the lock from its holder, so the holder checks it repeatedly
// (`assertHeld`). The next process notices that the holder's database still answers (database.ts).
//
// The directory must be on a file system of this host (a unix socket does not answer across NFS).

import { randomBytes } from 'node:crypto'
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod/mini'
import { shortSocketPath } from './listen.js'

const LOCK_FILE = /^server\.lock\.(\d{1,15})$/

export interface LockHolder {
  pid: number
  host: string
  started_at: string
  /** File name of the socket that answers as long as the holder lives. */
  socket: string
  /** Whether commits reach the disk; undefined until the holder knows, or if its version does not record it. */
  durability?: 'fsync' | 'none' | undefined
}

const Holder: z.ZodMiniType<LockHolder> = z.object({
  pid: z.number(),
  host: z.string(),
  started_at: z.string(),
  socket: z.string().check(z.regex(/^alive-[0-9a-f]+\.sock$/)),
  durability: z.optional(z.enum(['fsync', 'none'])),
})

/** A lock held by this process; the kernel releases it however the process ends. */
export interface DataDirectoryLock {
  /** Records in the lock file whether commits reach the disk, for commands that run alongside this process. */
  writeDurability(durability: 'fsync' | 'none'): void
  /** Checks that the path leads to the locked directory, and that its lock is unchanged. @throws LockLostError */
  assertHeld(): void
  release(): Promise<void>
}

export class DataDirectoryInUseError extends Error {
  override readonly name = 'DataDirectoryInUseError'

  constructor(
    directory: string,
    readonly holder: LockHolder,
  ) {
    super(
      `The data directory ${directory} is in use by process ${holder.pid} on ${holder.host}, started at ` +
        `${holder.started_at}. Two servers on one directory would lose data. Stop that process first, or give this one ` +
        `a data directory of its own; for several servers use PostgreSQL.`,
    )
  }
}

export class LockLostError extends Error {
  override readonly name = 'LockLostError'

  constructor(directory: string, change: string) {
    super(
      `The data directory ${directory} is no longer this process's: ${change}. Another process may have written to the database, or to a copy of ` +
        'it, so this one stopped writing. Find out who can write the directory, and make sure that no process uses it. If the directory or files in ' +
        'it are gone, put them back: without them a start creates a new database. Start the server again, verify every log (eaas audit verify ' +
        '--all), and repeat revocations and rotations of the last minutes.',
    )
  }
}

/** Locks an existing directory, if need be from a dead holder. @throws DataDirectoryInUseError if a holder lives, even this process */
export async function lockDataDirectory(directory: string): Promise<DataDirectoryLock> {
  const token = randomBytes(8).toString('hex')
  const holder: LockHolder = {
    pid: process.pid,
    host: hostname(),
    started_at: new Date().toISOString(),
    socket: `alive-${token}.sock`,
  }
  // The socket listens before a lock file names it, so that a holder never looks dead.
  const alive = await listen(shortSocketPath(directory, holder.socket))
  const draft = join(directory, `lock-draft-${token}`)
  let number: number
  try {
    writeDraft(draft, holder)
    number = await claim(directory, draft)
    await removeLeftovers(directory, number)
  } catch (error) {
    await closed(alive)
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
  let written = holder
  // Kept open, because the system does not reuse the inode number of an open file or directory, or of a bound socket.
  const opened = openSync(directory, 'r')
  const locked = {
    directory: fstatSync(opened, { bigint: true }),
    socket: statSync(join(directory, holder.socket), { bigint: true }),
  }
  let isReleased = false
  return {
    writeDurability(durability) {
      written = { ...holder, durability }
      writeDraft(draft, written)
      renameSync(draft, lockFile(directory, number)) // safe: others change our file only once our socket is dead
    },
    assertHeld() {
      const change = findChange(directory, number, { ...locked, written })
      if (change !== undefined) throw new LockLostError(directory, change)
    },
    release: async () => {
      if (isReleased) return
      isReleased = true
      closeSync(opened)
      await closed(alive)
    },
  }
}

/** Describes for the operator how a lock was changed; undefined if it is unchanged. */
function findChange(
  directory: string,
  number: number,
  locked: { directory: BigIntStats; socket: BigIntStats; written: LockHolder },
): string | undefined {
  try {
    if (!isSame(directory, locked.directory))
      return 'the directory was moved or removed, or another one is in its place'
    if (!isSame(join(directory, locked.written.socket), locked.socket))
      return `somebody removed or exchanged ${locked.written.socket}`
    if (highestLock(directory) > number) return 'another process took its lock'
    const text = readFileSync(lockFile(directory, number), 'utf8')
    return text === textOf(locked.written) ? undefined : `somebody changed server.lock.${number}`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EMFILE' || code === 'ENFILE') return undefined // too many open files: nothing is wrong with the lock
    return code === 'ENOENT' ? `somebody removed server.lock.${number}` : `its lock cannot be read (${message})`
  }
}

function isSame(path: string, known: BigIntStats): boolean {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found?.dev === known.dev && found.ino === known.ino
}

export class ForeignServerError extends Error {
  override readonly name = 'ForeignServerError'

  constructor(socketPath: string, code: string) {
    super(
      `Whether a server holds the data directory cannot be found out (${socketPath}: ${code}), because this user may not use its socket: run this as the user that the server runs as.`,
    )
  }
}

export async function findLockHolder(directory: string): Promise<LockHolder | undefined> {
  const number = highestLock(directory)
  if (number === 0) return undefined

  const holder = readHolder(directory, number)
  // Between the two reads, another process took over and cleaned up.
  if (!holder) return findLockHolder(directory)
  return (await answers(shortSocketPath(directory, holder.socket))) ? holder : undefined
}

/** Whether a process listens on a unix socket. In doubt true, so that the directory counts as in use. */
export function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED' || code === 'ENOENT') return resolve(false)
      // A holder that is stopped (SIGSTOP), with a full backlog.
      if (code === 'EAGAIN' || code === 'ETIMEDOUT') return resolve(true)
      if (code === 'EACCES' || code === 'EPERM') return reject(new ForeignServerError(socketPath, code))
      reject(new Error(`Cannot tell whether a server is running: ${socketPath} gives ${code ?? message}.`))
    })
  })
}

/** Creates the next lock file once the holder of the highest is dead. Returns its number. */
async function claim(directory: string, draft: string): Promise<number> {
  for (;;) {
    const highest = highestLock(directory)
    if (highest > 0) {
      const holder = readHolder(directory, highest)
      if (!holder) continue
      if (await answers(shortSocketPath(directory, holder.socket))) throw new DataDirectoryInUseError(directory, holder)
    }
    const mine = highest + 1
    if (!linkIfAbsent(draft, lockFile(directory, mine))) continue
    // `highest` may be stale: a later holder may have deleted the number that we just created.
    if (highestLock(directory) === mine) return mine
    rmSync(lockFile(directory, mine), { force: true })
  }
}

/**
 * Removes what dead holders left. A lower number may belong to a rival that has not yet noticed that it lost: its
 * socket answers and is kept, since the rival might claim again. A socket that no lock file names yet is also kept.
 */
async function removeLeftovers(directory: string, mine: number): Promise<void> {
  for (const number of lockNumbers(directory)) {
    if (number >= mine) continue
    const loser = readHolder(directory, number)
    if (!loser || (await answers(shortSocketPath(directory, loser.socket)))) continue
    rmSync(join(directory, loser.socket), { force: true })
    rmSync(lockFile(directory, number), { force: true })
  }
}

// Flushed before it becomes a lock file: nobody could tell whether a lock file left empty by a power cut is held.
function writeDraft(draft: string, holder: LockHolder): void {
  writeFileSync(draft, textOf(holder), { mode: 0o600, flag: 'wx', flush: true })
}

function textOf(holder: LockHolder): string {
  return `${JSON.stringify(holder)}\n`
}

function lockFile(directory: string, number: number): string {
  return join(directory, `server.lock.${number}`)
}

function lockNumbers(directory: string): number[] {
  return readdirSync(directory)
    .flatMap((name) => LOCK_FILE.exec(name)?.[1] ?? [])
    .map(Number)
}

function highestLock(directory: string): number {
  return Math.max(0, ...lockNumbers(directory))
}

function readHolder(directory: string, number: number): LockHolder | undefined {
  let text: string
  try {
    text = readFileSync(lockFile(directory, number), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    return Holder.parse(JSON.parse(text))
  } catch {
    throw new Error(
      `The lock file ${lockFile(directory, number)} is damaged. Make sure that no server uses the directory, then ` +
        `delete this file.`,
    )
  }
}

function linkIfAbsent(existing: string, path: string): boolean {
  try {
    linkSync(existing, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', reject)
    server.listen(path, () => {
      chmodSync(path, 0o600)
      server.unref()
      resolve(server)
    })
  })
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

/**
 * Creates directories, and writes them to the disk. Node's `recursive` never returns for a path below /proc, where the
 * kernel answers ENOENT for every new name.
 */
import { mkdirSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** Creates a directory and its missing parents, for their owner alone; returns the first that it created. @throws */
export function createDirectory(path: string): string | undefined {
  const whole = resolve(path)
  const parent = dirname(whole)
  const isMade = make(whole)
  if (isMade !== undefined) return isMade ? whole : undefined
  // The parent is missing. If the error is the same once the parent exists, it is final.
  if (parent === whole) throw missing(whole)
  const first = createDirectory(parent)
  const isMadeNow = make(whole)
  if (isMadeNow === undefined) throw missing(whole)
  return first ?? (isMadeNow ? whole : undefined)
}

/** Writes a directory to the disk; without this, a file that was made in it may be gone after a crash. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Returns true if it made the directory, false if the directory existed, undefined if the system finds no parent. */
function make(path: string): boolean | undefined {
  try {
    mkdirSync(path, { mode: 0o700 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    // The error code for an existing directory differs between systems; on a read-only file system it may be EROFS.
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false
    throw error
  }
}

function missing(path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`ENOENT: no such file or directory, mkdir '${path}'`), { code: 'ENOENT', path })
}

/**
 * Creates directories and syncs them. Not with Node's `recursive`, which never returns for a path below /proc, where
 * the kernel answers ENOENT for every new name.
 */
import { mkdirSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** Creates a directory and its missing parents, accessible to their owner alone. Returns the first that it created. @throws */
export function createDirectory(path: string): string | undefined {
  const whole = resolve(path)
  const parent = dirname(whole)
  const isMade = make(whole)
  if (isMade !== undefined) return isMade ? whole : undefined
  // The parent is missing. If it then exists and the error stays, the error is final.
  if (parent === whole) throw missing(whole)
  const first = createDirectory(parent)
  const isMadeNow = make(whole)
  if (isMadeNow === undefined) throw missing(whole)
  return first ?? (isMadeNow ? whole : undefined)
}

/** Syncs a directory to the disk: otherwise a new file in it may be gone after a crash. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** True if it created the directory, false if that existed, undefined if the parent is missing. */
function make(path: string): boolean | undefined {
  try {
    mkdirSync(path, { mode: 0o700 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    // Systems report an existing directory with different codes; on a read-only file system it may be EROFS.
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false
    throw error
  }
}

function missing(path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`ENOENT: no such file or directory, mkdir '${path}'`), { code: 'ENOENT', path })
}

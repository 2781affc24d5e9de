/** What `eaas doctor` finds of files and directories. Looked at, not tried: a file that is made would be a change. */
import { constants, existsSync } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { isReadableByAll } from '../crypto/root-key.js'
import { assertOwnDirectory } from '../store/embedded/database.js'

export interface Finding {
  check: string
  ok: boolean
  /** well enough to start, and yet to be looked at */
  warning?: true
  /** what was seen, and what to do where it is not well */
  detail: string
}

/** What one look finds; what it throws is found wrong. */
export interface Look<T = never> extends Partial<Omit<Finding, 'check'>> {
  detail: string
  found?: T
}

/** The file that the root key is read from. */
export async function examineKeyFile(path: string): Promise<Look> {
  if (!(await isReadableByAll(path))) return { detail: path }
  return { warning: true, detail: `everybody on this machine can read ${path}: chmod 600` }
}

/** A file that is appended to, and made where it is missing. */
export async function examineFile(variable: string, path: string): Promise<Look> {
  if (!existsSync(path)) return examineWritable(variable, path, dirname(resolve(path)))
  if ((await stat(path)).isDirectory()) return { ok: false, detail: `${variable} names a directory: ${path}` }
  return examineWritable(variable, path, path)
}

/** A directory that is written to, and made where it is missing. */
export async function examineFolder(variable: string, path: string): Promise<Look> {
  return examineWritable(variable, path, nearest(path), { isFolder: true })
}

/** Where a data directory will be made. @throws where it can't */
export async function examineNewDirectory(dataDir: string): Promise<void> {
  const folder = nearest(dataDir)
  await access(folder, constants.W_OK)
  if (folder === dataDir) assertOwnDirectory(folder)
}

async function examineWritable(
  variable: string,
  path: string,
  target: string,
  { isFolder = target !== path } = {},
): Promise<Look> {
  try {
    await access(target, constants.W_OK)
    if (isFolder && !(await stat(target)).isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' })
    return { detail: path }
  } catch (error) {
    return { ok: false, detail: `${variable} can't be written (${(error as NodeJS.ErrnoException).code}): ${path}` }
  }
}

/** The path itself, or what is there of it. */
function nearest(path: string): string {
  const whole = resolve(path)
  return existsSync(whole) || whole === dirname(whole) ? whole : nearest(dirname(whole))
}

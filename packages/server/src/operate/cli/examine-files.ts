/** Examines files and directories for `eaas doctor`, without creating any. */
import { constants, existsSync } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { isOpenToAll } from '@eaas/audit/node'
import type { TlsSetting } from '../../core/config.js'
import { readTls } from '../../core/http/tls-listener.js'
import { assertOwnDirectory } from '../../embedded/database.js'
import { type Result, warn, wrong } from './output.js'

const SOON_MS = 7 * 86_400_000 // in milliseconds; a certificate should be renewed this long before it expires

export async function examineKeyFile(path: string): Promise<Result> {
  try {
    await access(path, constants.R_OK)
  } catch (error) {
    return wrong(`${path} can't be read (${(error as NodeJS.ErrnoException).code})`)
  }
  if (!(await isOpenToAll(path))) return { detail: path }
  return warn(`everybody on this machine can read or change ${path}: chmod 600`)
}

export async function examineTls(files: TlsSetting): Promise<Result> {
  const { expiresAt } = readTls(files, Date.now())
  const until = `the certificate expires at ${new Date(expiresAt).toISOString()}`
  const key = await examineKeyFile(files.keyFile)
  if (key.warning) return key
  return expiresAt - Date.now() < SOON_MS ? warn(until) : { detail: until }
}

/** Examines a file to which the server appends, and which it creates if missing. */
export async function examineFile(variable: string, path: string): Promise<Result<'directory'>> {
  if (!existsSync(path)) return examineWritable(variable, path, dirname(resolve(path)))
  if ((await stat(path)).isDirectory())
    return { ok: false, found: 'directory', detail: `${variable} names a directory: ${path}` }
  return examineWritable(variable, path, path)
}

/** Examines a directory to which the server writes, and which it creates if missing. */
export async function examineFolder(variable: string, path: string): Promise<Result> {
  return examineWritable(variable, path, nearest(path), { isFolder: true })
}

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
): Promise<Result<never>> {
  try {
    await access(target, constants.W_OK)
    if (isFolder && !(await stat(target)).isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' })
    return { detail: path }
  } catch (error) {
    return wrong(`${variable} can't be written (${(error as NodeJS.ErrnoException).code}): ${path}`)
  }
}

function nearest(path: string): string {
  const whole = resolve(path)
  return existsSync(whole) || whole === dirname(whole) ? whole : nearest(dirname(whole))
}

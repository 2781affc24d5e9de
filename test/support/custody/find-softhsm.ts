// Finds SoftHSM2 and pkcs11-tool, or installs them if we are root on a Debian-like system.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { findOrInstallPrograms } from '../run/apt-program.js'

/**
 * Finds the path of SoftHSM2's PKCS#11 library; prints one line and returns undefined if it or pkcs11-tool is
 * missing.
 */
export function findOrInstallSoftHsm(): string | undefined {
  if (!findOrInstallPrograms(['softhsm2-util', 'pkcs11-tool'], ['softhsm2', 'opensc'])) return undefined
  const found = library()
  if (!found) console.error('!!! NO LIBRARY OF SOFTHSM2 FOUND: nothing is tested against an HSM. Install libsofthsm2.')
  return found
}

function library(): string | undefined {
  const folders = ['/usr/lib', '/usr/local/lib', ...subfolders('/usr/lib')]
  return folders.map((folder) => join(folder, 'softhsm/libsofthsm2.so')).find((path) => existsSync(path))
}

function subfolders(path: string): string[] {
  if (!existsSync(path)) return []
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && entry.name.includes('-linux-') ? [join(path, entry.name)] : [],
  )
}

// Finds SoftHSM2 and pkcs11-tool, or installs them with apt-get where that is allowed.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const INSTALL_TIMEOUT_MS = 5 * 60_000

/** The path of SoftHSM2's PKCS#11 library; undefined, after one line that says so, if it or pkcs11-tool is missing. */
export function findOrInstallSoftHsm(): string | undefined {
  if (!isComplete() && process.env.EAAS_TEST_SOFTHSM !== 'none') {
    console.error('No SoftHSM2 or pkcs11-tool found: installing softhsm2 and opensc with apt-get …')
    try {
      execFileSync('apt-get', ['update', '-qq'], { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
      const packages = ['install', '-y', '-qq', 'softhsm2', 'opensc']
      execFileSync('apt-get', packages, { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
    } catch (error) {
      console.error(`apt-get could not install them: ${error instanceof Error ? error.message.trim() : error}`)
    }
  }
  if (isComplete()) return library()
  console.error('!!! NO SOFTHSM2 FOUND: nothing is tested against an HSM. Install the packages softhsm2 and opensc.')
  return undefined
}

function isComplete(): boolean {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean)
  const has = (program: string) => folders.some((folder) => existsSync(join(folder, program)))
  return library() !== undefined && has('softhsm2-util') && has('pkcs11-tool')
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

// Finds the program age, or installs it with apt-get where that is allowed.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const INSTALL_TIMEOUT_MS = 5 * 60_000

/** Whether age and age-keygen are there; if not, one line says so. */
export function findOrInstallAge(): boolean {
  if (!isComplete() && process.env.EAAS_TEST_AGE !== 'none') {
    console.error('No age found: installing age with apt-get …')
    try {
      execFileSync('apt-get', ['update', '-qq'], { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
      execFileSync('apt-get', ['install', '-y', '-qq', 'age'], { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
    } catch (error) {
      console.error(`apt-get could not install it: ${error instanceof Error ? error.message.trim() : error}`)
    }
  }
  if (isComplete()) return true
  console.error('!!! NO AGE FOUND: the pages about shares and kits are not followed. Install the package age.')
  return false
}

function isComplete(): boolean {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean)
  return ['age', 'age-keygen'].every((program) => folders.some((folder) => existsSync(join(folder, program))))
}

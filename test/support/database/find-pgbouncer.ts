// Finds pgbouncer, or installs it if we are root on a Debian-like system.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin']

/** Finds the program: EAAS_TEST_PGBOUNCER, the PATH, then the usual folders. EAAS_TEST_PGBOUNCER=none means none. */
export function findPgbouncer(): string | undefined {
  const named = process.env.EAAS_TEST_PGBOUNCER
  if (named === 'none') return undefined
  if (named) {
    if (existsSync(named)) return named
    throw new Error(`EAAS_TEST_PGBOUNCER is ${named}, where there is nothing: name the program`)
  }
  const folders = [...(process.env.PATH ?? '').split(delimiter).filter(Boolean), ...FOLDERS]
  return folders.map((folder) => join(folder, 'pgbouncer')).find((path) => existsSync(path))
}

/** Finds pgbouncer, or installs it with apt-get when we are root on a Debian-like system, or else prints one line that there is none. */
export function findOrInstallPgbouncer(): string | undefined {
  const found = findPgbouncer()
  if (found) return found
  if (process.env.EAAS_TEST_PGBOUNCER !== 'none' && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.error('No pgbouncer found: installing the package with apt-get (we are root) …')
    installWithApt()
  }
  const installed = findPgbouncer()
  if (!installed) {
    console.error('!!! NO PGBOUNCER FOUND: nothing is tested through a pooler. Install it or set EAAS_TEST_PGBOUNCER.')
  }
  return installed
}

function installWithApt(): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  try {
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 'ignore', 'inherit'] })
    const install = ['install', '-y', '-qq', '--no-install-recommends', 'pgbouncer']
    execFileSync('apt-get', install, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  } catch (error) {
    console.error(`apt-get could not install pgbouncer: ${error instanceof Error ? error.message : error}`)
  }
}

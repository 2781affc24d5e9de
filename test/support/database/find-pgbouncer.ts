// Finds pgbouncer, or installs it if we are root on a Debian-like system.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { installWithApt } from '../run/apt-program.js'

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

/**
 * Finds pgbouncer, or installs it with apt-get if we are root on a Debian-like system, otherwise prints one line that
 * there is none.
 */
export function findOrInstallPgbouncer(): string | undefined {
  const found = findPgbouncer()
  if (found) return found
  if (process.env.EAAS_TEST_PGBOUNCER !== 'none') installWithApt('pgbouncer', ['pgbouncer'])
  const installed = findPgbouncer()
  if (!installed) {
    console.error('!!! NO PGBOUNCER FOUND: nothing is tested through a pooler. Install it or set EAAS_TEST_PGBOUNCER.')
  }
  return installed
}

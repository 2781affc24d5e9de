// Finds a program, or installs its package if we are root on a Debian-like system.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const FOLDERS = ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin', '/usr/local/go/bin']
const INSTALL_TIMEOUT_MS = 10 * 60_000
const INSTALL = 'apt-get update -qq && apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"'

/** Finds the path of a program; undefined if there is none. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter).filter(Boolean), ...FOLDERS]
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

/**
 * Finds the paths of programs by name, installing missing packages; prints one line and returns undefined if a
 * program is missing.
 */
export function findOrInstallPrograms<Name extends string>(
  names: readonly Name[],
  packages: readonly string[],
): Record<Name, string> | undefined {
  const missing = () => names.filter((name) => findProgram(name) === undefined)
  if (missing().length > 0) installWithApt(missing().join(', '), packages)
  if (missing().length > 0) {
    console.error(`!!! NO ${missing().join(', ')} FOUND: install ${packages.join(' ')}`)
    return undefined
  }
  return Object.fromEntries(names.map((name) => [name, findProgram(name)])) as Record<Name, string>
}

/** Whether apt-get can install packages: we are root on a Debian-like system. */
export function canInstallWithApt(): boolean {
  return process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
}

/** Installs the packages of missing programs if possible, and says so; if it fails, says why. */
export function installWithApt(missing: string, packages: readonly string[]): void {
  if (!canInstallWithApt()) return
  console.error(`No ${missing} found: installing ${packages.join(' ')} with apt-get (we are root) …`)
  const options = {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore' as const, 'ignore' as const, 'inherit' as const],
    timeout: INSTALL_TIMEOUT_MS,
  }
  try {
    // The workers of each back end begin with the same suite: one installs, while the others wait.
    execFileSync('flock', ['/var/lib/apt', 'sh', '-c', INSTALL, 'sh', ...packages], options)
  } catch (error) {
    console.error(`apt-get could not install ${packages.join(' ')}: ${error instanceof Error ? error.message : error}`)
  }
}

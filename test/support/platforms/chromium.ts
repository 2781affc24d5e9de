// Finds a Chromium for the tests of pages, or installs one if we are root on a Debian-like system.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const USUAL = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/**
 * Finds Chromium: CHROMIUM_PATH, then the usual places. If there is none, installs it with apt-get when we are root on a
 * Debian-like system, or else prints one line that there is none. CHROMIUM_PATH=none means none.
 * @throws when CHROMIUM_PATH names a file that does not exist
 */
export function findOrInstallChromium(): string | undefined {
  const named = process.env.CHROMIUM_PATH
  if (named && named !== 'none' && !existsSync(named))
    throw new Error(`CHROMIUM_PATH is ${named}, where there is nothing`)
  const found = named === 'none' ? undefined : named || find()
  if (found) return found
  if (named !== 'none' && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.error('No Chromium found: installing the package chromium with apt-get (we are root) …')
    installWithApt()
  }
  const installed = named === 'none' ? undefined : find()
  if (!installed) {
    console.error('!!! NO CHROMIUM FOUND: what runs in browsers is not tested. Install Chromium or set CHROMIUM_PATH.')
  }
  return installed
}

function find(): string | undefined {
  return USUAL.find((path) => existsSync(path))
}

function installWithApt(): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  try {
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 'ignore', 'inherit'] })
    const install = ['install', '-y', '-qq', '--no-install-recommends', 'chromium']
    execFileSync('apt-get', install, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  } catch (error) {
    console.error(`apt-get could not install chromium: ${error instanceof Error ? error.message : error}`)
  }
}

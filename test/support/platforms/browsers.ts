// Finds the browsers for the tests of pages, or installs them if we are root on a Debian-like system.
import { existsSync } from 'node:fs'
import { installWithApt } from '../run/apt-program.js'

interface Browser {
  name: string
  /** the variable that names its program, or says `none` */
  variable: string
  usual: readonly string[]
  /** Debian's */
  packageName: string
}

const CHROMIUM: Browser = {
  name: 'Chromium',
  variable: 'CHROMIUM_PATH',
  usual: ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
  packageName: 'chromium',
}
const FIREFOX: Browser = {
  name: 'Firefox',
  variable: 'FIREFOX_PATH',
  usual: ['/usr/bin/firefox-esr', '/usr/bin/firefox'],
  packageName: 'firefox-esr',
}

/**
 * Finds Chromium: CHROMIUM_PATH, then the usual places. If there is none, installs it with apt-get if we are root on a
 * Debian-like system, otherwise prints one line that there is none. CHROMIUM_PATH=none means none.
 * @throws when CHROMIUM_PATH names a file that does not exist
 */
export const findOrInstallChromium = () => findOrInstall(CHROMIUM)

/** Finds Firefox in the same way, by FIREFOX_PATH. */
export const findOrInstallFirefox = () => findOrInstall(FIREFOX)

function findOrInstall({ name, variable, usual, packageName }: Browser): string | undefined {
  const { [variable]: named } = process.env
  if (named === 'none') return missing(name, variable)
  if (named && !existsSync(named)) throw new Error(`${variable} is ${named}, where there is nothing`)
  const find = () => named || usual.find((path) => existsSync(path))
  if (!find()) installWithApt(name, [packageName])
  return find() ?? missing(name, variable)
}

function missing(name: string, variable: string): undefined {
  console.error(
    `!!! NO ${name.toUpperCase()} FOUND: what runs in it is not tested. Install ${name} or set ${variable}.`,
  )
}

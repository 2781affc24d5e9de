// Patroni from PyPI, in a cache that the account of a database may read: Debian 12's loses acknowledged commits (see the guide).
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'

const VERSION = '4.1.5'
const INSTALL_TIMEOUT_MS = 5 * 60_000

export type Programs = Record<'patroni' | 'patronictl' | 'etcd' | 'haproxy' | 'nginx', string>

/** The programs of the suite, after installing those that are missing; undefined, after one line that says so, if one is not there. */
export function findOrInstallCluster(): Programs | undefined {
  const packages = ['etcd-server', 'haproxy', 'nginx', 'python3-venv']
  const found = findOrInstallPrograms(['etcd', 'haproxy', 'nginx'], packages)
  const folder = found && findOrInstallPatroni()
  if (!folder) return undefined
  return { ...found, patroni: join(folder, 'bin/patroni'), patronictl: join(folder, 'bin/patronictl') }
}

function findOrInstallPatroni(): string | undefined {
  // Root's own folder, and a Python below it, cannot be read by the account that PostgreSQL runs as then.
  const isRoot = process.getuid?.() === 0
  const cache = process.env.XDG_CACHE_HOME || (isRoot ? '/var/cache' : join(homedir(), '.cache'))
  const folder = join(cache, 'eaas-tests', `patroni-${VERSION}`)
  if (existsSync(join(folder, 'installed'))) return folder
  console.error(`Installing Patroni ${VERSION} from PyPI into ${folder} …`)
  const options = { stdio: 'ignore' as const, timeout: INSTALL_TIMEOUT_MS }
  try {
    mkdirSync(dirname(folder), { recursive: true })
    rmSync(folder, { recursive: true, force: true })
    execFileSync('/usr/bin/python3', ['-m', 'venv', folder], options)
    execFileSync(join(folder, 'bin/pip'), ['install', '-q', `patroni[etcd3,psycopg3]==${VERSION}`], options)
    execFileSync('chmod', ['-R', 'a+rX', folder], options)
    writeFileSync(join(folder, 'installed'), '') // an installation that was cut short has no such file
    return folder
  } catch (error) {
    console.error(`!!! NO PATRONI: high availability was not tested. ${error instanceof Error ? error.message : error}`)
    return undefined
  }
}

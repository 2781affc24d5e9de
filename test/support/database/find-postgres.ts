// Finds the PostgreSQL binaries, or installs them if we are root on a Debian-like system.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { canInstallWithApt, installWithApt } from '../run/apt-program.js'

/** Folders with one PostgreSQL per major version: Debian, Red Hat, Homebrew (both prefixes), Postgres.app. */
const VERSIONED = [
  { parent: '/usr/lib/postgresql', name: /^\d+$/ },
  { parent: '/usr', name: /^pgsql-\d+$/ },
  { parent: '/opt/homebrew/opt', name: /^postgresql(@\d+)?$/ },
  { parent: '/usr/local/opt', name: /^postgresql(@\d+)?$/ },
  { parent: '/Applications/Postgres.app/Contents/Versions', name: /^\d+$/ },
]

/**
 * Finds the folder with `postgres` and `initdb`: EAAS_TEST_POSTGRES_BIN, the PATH, `pg_config --bindir`, then the usual
 * places, newest version first. EAAS_TEST_POSTGRES_BIN=none means none.
 * @throws when EAAS_TEST_POSTGRES_BIN names a folder without the binaries
 */
export function findPostgres(): string | undefined {
  const named = process.env.EAAS_TEST_POSTGRES_BIN
  if (named === 'none') return undefined
  if (named) {
    if (holdsPostgres(named)) return named
    throw new Error(`EAAS_TEST_POSTGRES_BIN is ${named}, where there is no postgres and initdb: name their folder`)
  }
  const candidates = [...pathFolders(), ...pgConfigFolder(), ...versionedFolders()]
  return candidates.find(holdsPostgres)
}

/**
 * Finds PostgreSQL, or installs it with apt-get if we are root on a Debian-like system, otherwise prints one line
 * that there is none.
 */
export function findOrInstallPostgres(): string | undefined {
  const found = findPostgres()
  if (found) return found
  if (process.env.EAAS_TEST_POSTGRES_BIN !== 'none' && canInstallWithApt()) {
    leaveOutMainCluster()
    installWithApt('PostgreSQL', ['postgresql'])
  }
  const installed = findPostgres()
  if (!installed) {
    console.error(
      '!!! NO POSTGRESQL FOUND: the suite runs on the embedded database only. Install PostgreSQL or set EAAS_TEST_POSTGRES_BIN.',
    )
  }
  return installed
}

function holdsPostgres(folder: string): boolean {
  return existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb'))
}

/** Lists the folders of the PATH that have PostgreSQL. Follows links, because initdb needs the share files beside the real binary. */
function pathFolders(): string[] {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder && holdsPostgres(folder))
  return folders.map((folder) => dirname(realpathSync(join(folder, 'postgres'))))
}

function pgConfigFolder(): string[] {
  const answer = spawnSync('pg_config', ['--bindir'], { encoding: 'utf8' })
  return answer.status === 0 ? [answer.stdout.trim()] : []
}

function versionedFolders(): string[] {
  return VERSIONED.flatMap(({ parent, name }) => {
    const versions = existsSync(parent) ? readdirSync(parent).filter((entry) => name.test(entry)) : []
    return versions.sort((a, b) => majorOf(b) - majorOf(a)).map((version) => join(parent, version, 'bin'))
  })
}

function majorOf(version: string): number {
  return Number(/\d+$/.exec(version)?.[0] ?? 0)
}

/** Debian's package would create and start a cluster `main` on 5432; a setting written before it is installed prevents that. */
function leaveOutMainCluster(): void {
  mkdirSync('/etc/postgresql-common/createcluster.d', { recursive: true })
  writeFileSync('/etc/postgresql-common/createcluster.d/no-main-cluster.conf', 'create_main_cluster = false\n')
}

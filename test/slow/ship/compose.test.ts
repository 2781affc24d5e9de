// The compose files by the reference implementation of their specification, and what they mount by the programs that read it. They are
// not started: there is no registry of images here. Their database is made by a PostgreSQL of this machine.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { findPostgres } from '../../support/database/find-postgres.js'
import { startPostgres } from '../../support/database/postgres.js'
import { findOrInstallPrograms, findProgram } from '../../support/run/apt-program.js'
import { runCommandIn } from '../../support/service/command-host.js'
import { ROOT_KEY } from '../../support/service/service.js'
import { ROOT } from '../../support/sources/source-files.js'

const CONTAINER = join(ROOT, 'packages/server/container')
const COMPOSE_GO = 'github.com/compose-spec/compose-go/v2/cmd@v2.16.2'
const BUILD_MS = 10 * 60_000

const folder = mkdtempSync(join(tmpdir(), 'eaas-compose-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const go = findProgram('go')
if (!go) console.error('!!! NO GO FOUND: the compose files were not checked by their reference implementation.')
const found = findOrInstallPrograms(['haproxy', 'promtool'], ['haproxy', 'prometheus'])

it.runIf(go)('compose-go accepts both files', () => {
  const env = { ...process.env, GOBIN: folder }
  execFileSync(go ?? '', ['install', COMPOSE_GO], { env, stdio: 'ignore', timeout: BUILD_MS })
  for (const name of ['compose.yml', 'compose.full.yml']) {
    const { status, stderr } = spawnSync(join(folder, 'cmd'), [name], { cwd: CONTAINER, encoding: 'utf8' })
    expect([name, status, stderr]).toEqual([name, 0, ''])
  }
})

it('the role of the server that compose.yml makes owns its database, and is no superuser', async () => {
  const bin = findPostgres()
  if (!bin) throw new Error('no PostgreSQL to run create-owner.sql')
  const postgres = await startPostgres({ bin })
  try {
    const [admin, secret, script] = [
      new URL(await postgres.createDatabase('eaas')),
      join(folder, 'password'),
      join(folder, 'create-owner.sql'),
    ]
    writeFileSync(secret, "a pass'word\n")
    const sql = readFileSync(join(CONTAINER, 'create-owner.sql'), 'utf8')
    writeFileSync(script, sql.replace('/run/secrets/database-password', secret))
    execFileSync(join(bin, 'psql'), ['-v', 'ON_ERROR_STOP=1', '--no-psqlrc', '-d', admin.href, '-f', script])
    const owner = new URL(admin)
    owner.username = 'eaas'
    owner.password = encodeURIComponent("a pass'word")
    const { stdout } = await runCommandIn({ EAAS_DATABASE_URL: owner.href, EAAS_ROOT_KEY: ROOT_KEY }, ['migrate'])
    expect(stdout).toContain('migrat')
    const roles = execFileSync(join(bin, 'psql'), [
      '-d',
      admin.href,
      '-Atc',
      "select rolsuper, rolcreaterole, rolcreatedb, rolbypassrls from pg_roles where rolname = 'eaas'",
    ])
    expect(roles.toString()).toBe('f|f|f|f\n')
  } finally {
    await postgres.remove()
  }
})

it.runIf(found)('haproxy and promtool accept what is mounted', () => {
  const haproxy = join(folder, 'haproxy.cfg')
  const config = readFileSync(join(CONTAINER, 'haproxy.cfg'), 'utf8')
  writeFileSync(haproxy, config.replaceAll(/eaas-(one|two):/g, '127.0.0.1:'))
  execFileSync(found?.haproxy ?? '', ['-c', '-f', haproxy])
  for (const name of ['container/prometheus.yml', 'monitoring/rules.yml']) {
    cpSync(join(ROOT, 'packages/server', name), join(folder, name.replace(/.*\//, '')))
  }
  execFileSync(found?.promtool ?? '', ['check', 'config', join(folder, 'prometheus.yml')])
})

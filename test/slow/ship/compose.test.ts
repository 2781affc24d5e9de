// The compose files by the reference implementation of their specification, and what they mount by the programs that read it. They are
// not started: there is no registry of images here.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { findOrInstallPrograms, findProgram } from '../../support/run/apt-program.js'
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

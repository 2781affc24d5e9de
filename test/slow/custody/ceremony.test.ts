// The pages about shares and recovery kits, followed: their commands run as they stand there, with the program age.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { guardedDir } from '../../support/run/guarded-dir.js'
import { EAAS } from '../../support/service/eaas-process.js'
import { readGuide } from '../../support/sources/server-docs.js'
import { ROOT } from '../../support/sources/source-files.js'
import { PYTHON } from '../../support/vectors/python.js'

const CLI = join(ROOT, 'packages/cli/dist/main.js')
const PROGRAMS = { eaas: `${process.execPath} ${EAAS}`, 'eaas-cli': `${process.execPath} ${CLI}`, python3: PYTHON }

/** The blocks of a page that are to be run, in order, with the program of this checkout where npx would fetch it. */
function commandsOf(page: string): string[] {
  return [
    ...readGuide(page)
      .replaceAll('npx @eaas/cli', 'eaas-cli')
      .matchAll(/^```sh\n([\s\S]*?)^```$/gm),
  ].map(([, block = '']) => block)
}

const canRun = findOrInstallPrograms(['age', 'age-keygen'], ['age'])

describe.runIf(canRun)('the ceremony', () => {
  let folder: string
  let remove: () => Promise<void>
  beforeAll(() => {
    ;({ path: folder, remove } = guardedDir('eaas-ceremony'))
    mkdirSync(join(folder, '.bin'))
    for (const [name, line] of Object.entries(PROGRAMS)) {
      const path = join(folder, '.bin', name)
      writeFileSync(path, `#!/bin/sh\nexec ${line} "$@"\n`)
      chmodSync(path, 0o755)
    }
  })
  afterAll(() => remove())

  function run(script: string, environment: Record<string, string> = {}) {
    const PATH = `${join(folder, '.bin')}:${process.env.PATH}`
    const env = { PATH, HOME: folder, ...environment }
    const { status, stdout, stderr } = spawnSync('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'], // a socket as standard input would have bash read its settings
    })
    expect([status, stderr]).toEqual([0, expect.not.stringMatching(/^eaas/m)])
    return stdout
  }

  it('is what its page says, from five identities to a copy that each opens alone', () => {
    const blocks = commandsOf('root-key-shares.md')
    expect(blocks.length).toBeGreaterThan(7)
    const stdout = run(blocks.join('\n'))
    expect(stdout).toMatch(/^eaas-root-key-share-v1\.[0-9a-f]{16}\.3\.1$/m)
    const opened = [...stdout.matchAll(/^root key {6}(\w+) .*, which opens this database$/gm)].map(([, kind]) => kind)
    expect(opened).toEqual(['shares', 'shares', 'shares', 'file', 'command'])
    expect(existsSync(join(folder, 'share-1'))).toBe(false)
    expect(stdout).not.toContain('AGE-SECRET-KEY')
    expect(stdout).not.toMatch(/[0-9a-f]{98}/)
  })

  it('goes on with a kit that opens a file without the server', () => {
    const settings = { EAAS_ROOT_KEY_FILE: 'root-key', EAAS_PORT: '0' }
    run(
      `
      eaas api-key create --tenant acme --name x --permissions encrypt,keys:create,keys:read --json > api-key.json
      eaas start > server.log 2>&1 &
      server=$!
      trap 'kill $server; wait $server || true' EXIT
      for second in $(seq 60); do grep -q 'listening on' server.log && break; sleep 1; done
      export EAAS_URL=$(grep -o 'http://127.0.0.1:[0-9]*' server.log | head -n 1)
      export EAAS_API_KEY=$(grep -o '"secret":"[^"]*' api-key.json | cut -d'"' -f4)
      printf 'called twice' > report.txt
      eaas-cli encrypt report.txt --key files --create-key
      rm report.txt`,
      settings,
    )
    const [make = '', open = '', python = ''] = commandsOf('recovery-kit.md')
    run(make, settings)
    for (const block of [
      open,
      python.replace('open_kit.py', join(ROOT, 'packages/server/dist/open-kit/open_kit.py')),
    ]) {
      run(`rm -f report.txt\n${block}`)
      expect(readFileSync(join(folder, 'report.txt'), 'utf8')).toBe('called twice')
    }
  })
})

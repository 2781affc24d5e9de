// `npx @eaas/cli`, the built command, as processes on a real server: the program of its page, and what only a process can show.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { type Service, startService } from '../support/service/service.js'
import { readPage } from '../support/sources/snippets.js'
import { ROOT } from '../support/sources/source-files.js'

const run = promisify(execFile)
const MAIN = join(ROOT, 'packages/cli/dist/main.js')

let service: Service
let apiKey: string
let dir: GuardedDir
let folder: string

beforeAll(async () => {
  service = await startService()
  apiKey = (await service.createTenant({})).secret
  dir = guardedDir('eaas-test-cli-command')
})
afterAll(async () => {
  await service.close()
  await dir.remove()
})
beforeEach(() => {
  folder = mkdtempSync(join(dir.path, 'run-'))
})

const environment = () => ({ PATH: process.env.PATH, EAAS_URL: service.url, EAAS_API_KEY: apiKey })

describe('the command line', () => {
  /** Runs the first commands of a page as they are written. */
  async function runPage(page: string) {
    const [, script = ''] = /```sh\n(.*?)```/s.exec(readPage(page)) ?? []
    writeFileSync(join(folder, '.env.local'), `EAAS_URL=${service.url}\nEAAS_API_KEY=${apiKey}\n`, { mode: 0o600 })
    const npx = `npx() { shift; '${process.execPath}' '${MAIN}' "$@"; }\nset -euo pipefail\n`
    const { stdout, stderr } = await run('bash', ['--norc', '-c', npx + script], {
      cwd: folder,
      env: { PATH: process.env.PATH },
    })
    expect(stderr).toBe('')
    return { script, stdout }
  }

  it('runs the program of its page', async () => {
    const { script, stdout } = await runPage('packages/cli/docs/command-line.md')
    expect(script.match(/npx @eaas\/cli/g)?.length).toBeGreaterThanOrEqual(9)
    expect(stdout).toContain('format              eaas/stream/v1')
    expect(stdout).toMatch(/^ok {4}round trip: /m)
    expect(readdirSync(folder).filter((name) => name.startsWith('.') && name !== '.env.local')).toEqual([])
  })

  it('runs the program of its README', async () => {
    expect((await runPage('packages/cli/README.md')).stdout).toMatch(
      /\nformat {14}eaas\/stream\/v1\n[\s\S]*\ncalled twice\n$/,
    )
  })

  it('ends on Ctrl-C with 130 while it waits for input, and leaves no file', async () => {
    const child = spawn(process.execPath, [MAIN, 'encrypt', '--key', 'files', '--create-key', '-o', 'a.eaas'], {
      cwd: folder,
      env: environment(),
      stdio: ['pipe', 'ignore', 'pipe'],
    })
    child.stdin.write('begun')
    await expect.poll(() => readdirSync(folder).length).toBe(1) // the temporary file
    child.kill('SIGINT')
    const [code] = await once(child, 'close')
    expect({ code, files: readdirSync(folder) }).toEqual({ code: 130, files: [] })
  })

  it('leaves a part of the file where it is killed, which the next one that writes the same file removes', async () => {
    const child = spawn(process.execPath, [MAIN, 'encrypt', '--key', 'files', '--create-key', '-o', 'a.eaas'], {
      cwd: folder,
      env: environment(),
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    child.stdin.on('error', () => undefined)
    child.stdin.write('begun')
    await expect.poll(() => readdirSync(folder).length).toBe(1)
    child.kill('SIGKILL')
    await once(child, 'close')
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^\.a\.eaas\..*\.tmp$/)])
    writeFileSync(join(folder, 'a'), 'whole')
    await run(process.execPath, [MAIN, 'encrypt', 'a', '--key', 'files'], { cwd: folder, env: environment() })
    expect(readdirSync(folder).sort()).toEqual(['a', 'a.eaas'])
  })

  it('ends quietly with 141 where its reader stops', async () => {
    writeFileSync(join(folder, 'a.bin'), Buffer.alloc(4_000_000, 1))
    const command = `'${process.execPath}' '${MAIN}'`
    const script = `${command} encrypt a.bin --key files --create-key
      ${command} decrypt a.bin.eaas -o - | head -c 10 > /dev/null; echo "\${PIPESTATUS[0]}"`
    const { stdout, stderr } = await run('bash', ['--norc', '-c', script], { cwd: folder, env: environment() })
    expect({ last: stdout.trim().split('\n').at(-1), stderr }).toEqual({ last: '141', stderr: '' })
  })

  it('ends with 141 where the reader of rows stops, and with 0 where one of the help does', async () => {
    writeFileSync(join(folder, 'a.csv'), `id,name\n${'1,Ada\n'.repeat(5_000)}`)
    const command = `'${process.execPath}' '${MAIN}'`
    const script = `${command} encrypt-csv a.csv --key files --create-key --model users --columns name -o - | head -n 1; echo "\${PIPESTATUS[0]}"
      ${command} --help | head -n 1; echo "\${PIPESTATUS[0]}"`
    const { stdout, stderr } = await run('bash', ['--norc', '-c', script], { cwd: folder, env: environment() })
    expect({ lines: stdout.trim().split('\n'), stderr }).toEqual({
      lines: ['id,name', '141', 'Usage: eaas-cli <command> [options]', '0'],
      stderr: '',
    })
  })

  it('fails where a file takes only a part of its output', async () => {
    writeFileSync(join(folder, 'a.bin'), Buffer.alloc(5_000, 1))
    const command = `'${process.execPath}' '${MAIN}'`
    // A limit of 1 KiB behaves as a full disk does: the system takes what fits of the only write, and calls that a success.
    const script = `${command} encrypt a.bin --key files --create-key
      (ulimit -f 1; trap '' XFSZ; ${command} decrypt a.bin.eaas -o - > b.bin; echo "$?")`
    const { stdout, stderr } = await run('bash', ['--norc', '-c', script], { cwd: folder, env: environment() })
    expect(statSync(join(folder, 'b.bin')).size).toBe(1_024)
    expect({ last: stdout.trim().split('\n').at(-1), stderr }).toEqual({
      last: '1',
      stderr: 'eaas-cli: standard output cannot be written (EFBIG)\n',
    })
  })

  it('is executable, and named in the manifest', () => {
    const { bin } = JSON.parse(readFileSync(join(ROOT, 'packages/cli/package.json'), 'utf8')) as { bin: object }
    expect(bin).toEqual({ 'eaas-cli': 'dist/main.js' })
    expect(readFileSync(MAIN, 'utf8').startsWith('#!/usr/bin/env node\n')).toBe(true)
    expect(statSync(MAIN).isFile()).toBe(true)
  })
})

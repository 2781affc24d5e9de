// Clients for Go, Python and TypeScript that are generated from the OpenAPI document compile, and do what an application does.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findOrInstallGoGenerator, findOrInstallPythonGenerator } from '../support/platforms/client-generators.js'
import { type Service, startService } from '../support/service/service.js'

const run = promisify(execFile)
const PROGRAMS = fileURLToPath(new URL('generated-clients', import.meta.url))
const forGo = findOrInstallGoGenerator()
const forPython = findOrInstallPythonGenerator()

let service: Service
let folder: string
let document: string
beforeAll(async () => {
  service = await startService()
  folder = await mkdtemp(join(tmpdir(), 'eaas-generated-'))
  cpSync(PROGRAMS, folder, { recursive: true })
  document = join(folder, 'openapi.json')
  writeFileSync(document, await (await fetch(`${service.url}/openapi.json`)).text())
})
afterAll(async () => {
  await service.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a program on a new tenant; returns the lines that it prints. The server is in this process, which must not be blocked. */
async function printed(program: string, ...args: string[]): Promise<string[]> {
  const { secret } = await service.createTenant()
  const env = { ...process.env, EAAS_URL: service.url, EAAS_API_KEY: secret }
  const { stdout } = await run(program, args, { env })
  return stdout.trim().split('\n')
}

const CALLS = ['true 64 E_NAME_TAKEN', 'key.unwrap 1', 'key.wrap 1', 'key.create 1']

describe('a client that is generated', () => {
  it.skipIf(!forGo)('for Go compiles, and calls the service', async () => {
    const { go = '', oapiCodegen = '' } = forGo ?? {}
    const home = join(folder, 'go')
    mkdirSync(join(home, 'client'))
    const to = join(home, 'client/client.go')
    execFileSync(oapiCodegen, ['-generate', 'types,client', '-package', 'client', '-o', to, document])
    execFileSync(go, ['build', '-o', 'program', '.'], { cwd: home, env: { ...process.env, GOWORK: 'off' } })
    expect(await printed(join(home, 'program'))).toEqual(CALLS)
  })

  it.skipIf(!forPython)('for Python has every JSON answer, refusals too, and calls the service', async () => {
    const { bin = '' } = forPython ?? {}
    const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` }
    const args = ['generate', '--path', document, '--meta', 'none', '--output-path', join(folder, 'python/client')]
    const { status, stdout, stderr } = spawnSync(join(bin, 'openapi-python-client'), args, { env, encoding: 'utf8' })
    expect(status).toBe(0)
    // The lines of an export are no JSON.
    expect(`${stdout}${stderr}`.match(/^WARNING .*$/gm)).toEqual([expect.stringContaining('GET /v1/audit/export')])
    expect(await printed(join(bin, 'python'), join(folder, 'python/main.py'))).toEqual(CALLS)
  })

  it('for TypeScript passes the strict type check, and calls the service', async ({ skip }) => {
    const cwd = join(folder, 'typescript')
    const install = ['install', '--no-audit', '--no-fund', '--no-package-lock']
    await run('npm', install, { cwd }).catch((error: unknown) => skip(`cannot be had: ${error}`))
    const bin = join(cwd, 'node_modules/.bin')
    await run(join(bin, 'openapi-typescript'), [document, '--output', 'client.mts'], { cwd })
    await run(join(bin, 'tsc'), ['--strict', '--target', 'es2022', '--module', 'nodenext', 'main.mts'], { cwd })
    expect(await printed(process.execPath, join(cwd, 'main.mjs'))).toEqual(CALLS)
  })
})

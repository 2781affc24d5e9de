// The package as it is published, in what applications are tested and built with: vitest and jest with simulated browsers, and
// Next.js. All of it comes from the npm registry; what cannot be had is skipped, and says why.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findOrInstallChromium } from '../support/platforms/browsers.js'
import { installPackedSdk, type SuiteOutcome } from '../support/platforms/packed-sdk.js'
import { cleanEnvironment } from '../support/platforms/page-app.js'
import { relay } from '../support/service/relay.js'
import { RUNTIMES, rowOf } from '../support/sources/runtime-table.js'

const run = promisify(execFile)
const INSTALL_TIMEOUT_MS = 10 * 60_000
const BUILD_TIMEOUT_MS = 10 * 60_000
/** jsdom 26 is the last one for Node 20. */
const RUNNERS = {
  vitest: '4',
  jsdom: '26',
  'happy-dom': '20',
  jest: '30',
  'jest-environment-jsdom': '30',
  '@happy-dom/jest-environment': '20',
  'ts-jest': '29',
  typescript: '5.9',
  '@types/jest': '30',
}
const TYPED = `
import { createClient, text, type Client } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'

it('compiles and runs', async () => {
  const eaas: Client = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text() } })
  const { email }: { email: string } = await users.decrypt(await users.encrypt({ email: 'ada' }))
  expect(email).toBe('ada')
})
`
const TYPED_CONFIG = `
const tsconfig = { module: 'commonjs', moduleResolution: 'node10', target: 'es2022', strict: true, esModuleInterop: true, types: ['jest'] }
module.exports = { testMatch: ['**/typed.jest.ts'], transform: { '\\\\.ts$': ['ts-jest', { tsconfig }] } }
`

let folder: string
let tarball: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-frameworks-'))
  tarball = await installPackedSdk(folder)
}, INSTALL_TIMEOUT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the package works in', () => {
  it.for([
    ['vitest jsdom', ['vitest', 'run', '--environment', 'jsdom', 'simulated/suite.spec.mjs']],
    ['vitest happy-dom', ['vitest', 'run', '--environment', 'happy-dom', 'simulated/suite.spec.mjs']],
    ['jest node', ['jest', '--env', 'node', '--testMatch', '**/suite.jest.cjs']],
    ['jest jsdom', ['jest', '--env', './simulated/jest-jsdom.cjs', '--testMatch', '**/suite.jest.cjs']],
    ['jest happy-dom', ['jest', '--env', '@happy-dom/jest-environment', '--testMatch', '**/suite.jest.cjs']],
  ] as const)('%s', async ([name, [program, ...args]], { skip }) => {
    const home = await install('runners', RUNNERS).catch((error: unknown) => skip(`cannot be had: ${error}`))
    const outcome = join(home, `outcome-${name}.json`)
    const env = { ...cleanEnvironment(), EAAS_OUTCOME: outcome }
    await run(join(home, 'node_modules/.bin', program), args, { cwd: home, env }).catch((error: unknown) => {
      if (!existsSync(outcome)) throw error // else it says what failed
    })
    const { engines, passed, failed } = JSON.parse(readFileSync(outcome, 'utf8')) as SuiteOutcome
    expect(failed).toEqual([])
    expect(passed).toBeGreaterThan(engines.length * 100)
    expect(engines).toEqual(RUNTIMES[name].engines)
    console.info(rowOf(RUNTIMES[name]))
  })

  it('ts-jest, with the types that node10 finds', async ({ skip }) => {
    const home = await install('runners', RUNNERS).catch((error: unknown) => skip(`cannot be had: ${error}`))
    writeFileSync(join(home, 'typed.jest.ts'), TYPED)
    writeFileSync(join(home, 'jest.typed.cjs'), TYPED_CONFIG)
    const options = { cwd: home, env: cleanEnvironment() }
    const { stderr } = await run(join(home, 'node_modules/.bin/jest'), ['--config', 'jest.typed.cjs'], options)
    expect(stderr).toContain('1 passed')
  })

  it('Next.js: a prerendered page, a server action, a component that asks a route with the broker', async ({
    skip,
  }) => {
    const executablePath = findOrInstallChromium() ?? skip('there is no Chromium')
    const packages = { next: '16', react: '19', 'react-dom': '19' }
    const home = await install('next', packages).catch((error: unknown) => skip(`cannot be had: ${error}`))
    const next = join(home, 'node_modules/.bin/next')
    const env = { ...cleanEnvironment(), NEXT_TELEMETRY_DISABLED: '1' }
    const built = await run(next, ['build'], { cwd: home, env, timeout: BUILD_TIMEOUT_MS })
    expect(built.stdout).toMatch(/○ \/\n/) // prerendered, and so with a client whose environment is missing

    const service = createTestService()
    const { id: keyId } = await createClient(service).keys.create({ name: 'users' })
    const server = createServer((request, response) => void relay(service, request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const EAAS_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const child = spawn(next, ['start', '--hostname', '127.0.0.1', '--port', '0'], {
      cwd: home,
      env: { ...env, EAAS_URL, EAAS_API_KEY: service.apiKey, EAAS_KEY_ID: keyId },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const said: string[] = []
      const url = await new Promise<string>((resolve, reject) => {
        child.once('exit', (code) => reject(new Error(`next ended with ${code}: ${said.join('\n')}`)))
        let address = ''
        createInterface({ input: child.stdout }).on('line', (line) => {
          said.push(line)
          address ||= line.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0] ?? ''
          if (line.includes('Ready')) resolve(address)
        })
      })
      const page = await (await fetch(url)).text()
      expect(page).toContain('not yet') // the client component, rendered by the build
      const form = new FormData()
      form.append('value', 'hello')
      for (const [, name = ''] of page.matchAll(/name="(\$ACTION[^"]*)"/g)) form.append(name, '')
      const acted = await fetch(url, { method: 'POST', body: form, headers: { origin: url } })
      expect(acted.status).toBe(200)
      expect(said).toContain('sealed and opened: hello')

      const onEdge = await fetch(`${url}/api/edge`)
      expect([onEdge.status, await onEdge.text()]).toEqual([200, JSON.stringify(Array(4).fill('7@example.org'))])
      console.info(rowOf(RUNTIMES['next edge']))

      const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
      try {
        const context = await browser.newContext()
        await context.addCookies([{ name: 'session', value: 'ada', url }])
        const tab = await context.newPage()
        await tab.goto(url)
        await tab.fill('input[name=key]', keyId)
        await tab.click('button')
        await tab.getByText('sealed in the page').waitFor()
      } finally {
        await browser.close()
      }
      expect(service.entries().at(-1)?.metadata).toMatchObject({ on_behalf_of: 'ada' })
      console.info(rowOf(RUNTIMES.next))
    } finally {
      child.removeAllListeners('exit').kill()
      server.closeAllConnections()
      server.close()
    }
  })
})

/** Installs the packed SDK and packages of the registry into a folder, with what is in test/packed/runtimes, and returns the folder. */
async function install(name: string, packages: Record<string, string>): Promise<string> {
  const home = join(folder, `home-${name}`)
  if (existsSync(join(home, 'installed'))) return home
  await mkdir(home, { recursive: true })
  const dependencies = { ...packages, '@eaas/sdk': `file:${tarball}` }
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, dependencies }))
  for (const file of ['suite.mjs', 'suite.cjs', 'envelope.vectors.json']) cpSync(join(folder, file), join(home, file))
  cpSync(join(folder, name === 'next' ? 'next' : 'simulated'), join(home, name === 'next' ? '.' : 'simulated'), {
    recursive: true,
  })
  const options = { cwd: home, timeout: INSTALL_TIMEOUT_MS }
  await run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock'], options)
  writeFileSync(join(home, 'installed'), '')
  return home
}

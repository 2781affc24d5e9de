// The suites of test/packed/runtimes on the package as it is published, in runtimes that the npm registry has. Each is installed into
// a folder of its own; a test of one that cannot be had is skipped, and says why.
import { execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DENO, type Exchange, inWorkerd, startExchange } from '../support/platforms/exchange.js'
import { installRuntime } from '../support/platforms/install-runtime.js'
import {
  installPackedSdk,
  runSuite,
  runSuiteBy,
  type SuiteOutcome,
  type SuiteRun,
} from '../support/platforms/packed-sdk.js'
import { relay } from '../support/service/relay.js'
import { RUNTIMES, type Runtime, rowOf } from '../support/sources/runtime-table.js'

const run = promisify(execFile)
const INSTALL_TIMEOUT_MS = 5 * 60_000
const SUITE_TIMEOUT_MS = 2 * 60_000

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-runtimes-'))
  await installPackedSdk(folder)
}, INSTALL_TIMEOUT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the suite of all runtimes passes in', () => {
  it.for([
    ['node@20.19', 'main.mjs'],
    ['node@20.19', 'main.cjs'],
    ['node@22', 'main.mjs'],
    ['node@22', 'main.cjs'],
    ['node@24', 'main.mjs'],
    ['node@24', 'main.cjs'],
    ['node@26', 'main.mjs'],
    ['node@26', 'main.cjs'],
    ['deno@2', 'main.mjs'],
    ['bun@1', 'main.mjs'],
  ] as const)('%s, by %s', async ([source, program], { skip }) => {
    const command = await installRuntime(folder, source).catch((error: unknown) => skip(`cannot be had: ${error}`))
    const args = source === 'deno@2' ? DENO : []
    await expectToPass(RUNTIMES[source], command, () => runSuiteBy(command, args, folder, program))
  })

  // As published, and as far back as it may be dated with the SDK still working.
  it.for(['2026-01-01', '2023-01-01'])('workerd, compatible with %s', async (date, { skip }) => {
    const command = await installRuntime(folder, 'workerd@1').catch((error: unknown) => skip(`cannot be had: ${error}`))
    await expectToPass(RUNTIMES['workerd@1'], command, () => runInWorkerd(command, date))
  })

  it("Vercel's edge-runtime", async ({ skip }) => {
    const home = join(folder, 'edge-runtime')
    await mkdir(home)
    await writeFile(join(home, 'package.json'), '{ "private": true }')
    const install = ['install', '--no-audit', '--no-fund', '--no-package-lock', 'edge-runtime@4']
    await run('npm', install, { cwd: home, timeout: INSTALL_TIMEOUT_MS }).catch((error: unknown) =>
      skip(`cannot be had: ${error}`),
    )
    await expectOutcome(RUNTIMES['edge-runtime@4'], '4', () => runInEdgeRuntime(home))
  })
})

describe('with a real server and values that Node made, the packed SDK works in', () => {
  let exchange: Exchange

  beforeAll(async () => {
    exchange = await startExchange(folder)
  })
  afterAll(() => exchange?.end())

  it.for(['node@26', 'deno@2', 'bun@1'] as const)('%s', async (source, { skip }) => {
    const command = await installRuntime(folder, source).catch((error: unknown) => skip(`cannot be had: ${error}`))
    await exchange.by(RUNTIMES[source].engines, command, source === 'deno@2' ? DENO : [])
  })

  it.for(['2026-01-01', '2023-01-01'])('workerd, compatible with %s', async (date, { skip }) => {
    const command = await installRuntime(folder, 'workerd@1').catch((error: unknown) => skip(`cannot be had: ${error}`))
    await exchange.inWorkerd(RUNTIMES['workerd@1'].engines, command, date)
  })
})

describe('a client at the top of a worker', () => {
  it.for([
    ['workerd@1', '2026-01-01', ''],
    ['workerd@1', '2026-01-01', 'nodejs_compat'],
    ['workerd@1', '2023-01-01', ''],
    ['workerd@1.20260426.1', '2026-01-01', ''], // the last of Miniflare for Node 20: it refuses an AbortController that requests share
  ] as const)(
    'serves 1,000 requests, 50 at a time, of which some are cancelled: %s %s %s',
    async ([source, date, flag], { skip }) => {
      const command = await installRuntime(folder, source).catch((error: unknown) => skip(`cannot be had: ${error}`))
      const service = createTestService()
      const eaas = createClient(service)
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const values = Array.from({ length: 50 }, (_, at) => `shared ${at}`)
      const envelopes = await Promise.all(values.map((value) => eaas.encrypt(value, { keyId, dek: 'call' })))
      const server = createServer((request, response) => void relay(service, request, response))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const BASE_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const define = { BASE_URL, KEY_ID: keyId, ENVELOPES: envelopes }
      try {
        await inWorkerd(folder, command, { entry: 'requests.mjs', date, flag, define }, async (url) => {
          const ask = async (number: number) => {
            const signal = AbortSignal.timeout(isCancelled(number) ? 15 : SUITE_TIMEOUT_MS)
            const response = await fetch(`${url}/?number=${number}`, { signal })
            return `${response.status} ${await response.text()}`
          }
          let next = 0
          const wrong: string[] = []
          const askAll = async () => {
            for (let number = next++; number < 1_000; number = next++) {
              const expected = `200 first ${number}\nsecond ${number}\n${number}@example.org\nshared ${number % 50}`
              const answer = await ask(number).catch(String)
              if (answer !== expected && !isCancelled(number)) wrong.push(`${number}: ${answer}`)
            }
          }
          await Promise.all(Array.from({ length: 50 }, askAll))
          expect(wrong).toEqual([])
        })
      } finally {
        server.closeAllConnections()
        server.close()
      }
    },
  )
})

const isCancelled = (number: number) => number % 20 === 7

async function expectToPass(runtime: Runtime, command: string, play: () => Promise<SuiteRun>): Promise<void> {
  const { stdout: version } = await run(command, ['--version'])
  await expectOutcome(runtime, version.split('\n')[0] ?? '', play)
}

async function expectOutcome(runtime: Runtime, version: string, play: () => Promise<SuiteRun>): Promise<void> {
  const { engines } = runtime
  const started = performance.now()
  const { failed, ...outcome } = await play()
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  console.info(`${rowOf(runtime)} ${version}: ${outcome.passed} checks in ${seconds} s`)
  expect(failed).toEqual([])
  expect(outcome).toEqual({ engines, passed: expect.any(Number), followed: 0 })
  expect(outcome.passed).toBeGreaterThan(engines.length * 100)
}

async function runInWorkerd(command: string, date: string): Promise<SuiteRun> {
  return inWorkerd(folder, command, { entry: 'worker.mjs', date }, runSuiteAt)
}

/** Runs the suite that a worker answers with. */
function runSuiteAt(url: string): Promise<SuiteRun> {
  return runSuite(async (redirecting) => {
    const asked = `${url}/?redirecting=${encodeURIComponent(redirecting)}`
    const response = await fetch(asked, { signal: AbortSignal.timeout(SUITE_TIMEOUT_MS) })
    if (!response.ok) throw new Error(`the worker answered ${response.status}: ${await response.text()}`)
    return (await response.json()) as SuiteOutcome
  })
}

async function runInEdgeRuntime(home: string): Promise<SuiteRun> {
  await build({
    entryPoints: [join(folder, 'edge.mjs')],
    absWorkingDir: folder,
    bundle: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2022',
    outfile: join(home, 'edge.js'),
  })
  const child = spawn(join(home, 'node_modules/.bin/edge-runtime'), ['--listen', '--port=0', 'edge.js'], {
    cwd: home,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const url = await new Promise<string>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => reject(new Error(`edge-runtime ended with ${code}`)))
      createInterface({ input: child.stdout }).on('line', (line) => {
        const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
        if (address !== undefined) resolve(address)
      })
    })
    return await runSuiteAt(url)
  } finally {
    child.kill()
  }
}

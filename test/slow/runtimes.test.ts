// The suite of test/runtimes on the package as it is published, in runtimes that the npm registry has. Each is installed into
// a folder of its own; a test of one that cannot be had is skipped, and says why.
import { execFile, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend } from '../support/database.js'
import { installPackedSdk, runSuite, runSuiteBy, type SuiteOutcome, type SuiteRun } from '../support/packed-sdk.js'

const run = promisify(execFile)
const INSTALL_TIMEOUT_MS = 5 * 60_000
const SUITE_TIMEOUT_MS = 2 * 60_000
const DENO = ['run', '--no-prompt', '--allow-read', '--allow-env', '--allow-net=127.0.0.1', '--node-modules-dir=manual']

/** workerd of that day: what came later is off. */
const WORKERD = `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "suite", worker = .suite), (name = "internet", network = (allow = ["private"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "suite")],
);
const suite :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "COMPATIBILITY_DATE",
);
`

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-runtimes-'))
  await installPackedSdk(folder)
}, INSTALL_TIMEOUT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

// It touches no database: once is enough.
describe.runIf(backend() === 'embedded')('the suite of all runtimes passes in', () => {
  it.for<[string, string, readonly string[]]>([
    ['the oldest Node that will do', 'node@20.19', ['noble', 'node', 'web']],
    ['Node 22', 'node@22', ['noble', 'node', 'web']],
    ['Node 24', 'node@24', ['noble', 'node', 'web']],
    ['Deno', 'deno@2', ['noble', 'node', 'web']],
    ['Bun', 'bun@1', ['noble', 'node', 'web']],
  ])('%s', async ([runtime, source, engines], { skip }) => {
    const [name = ''] = source.split('@')
    const command = await install(source).catch((error: unknown) => skip(`cannot be had: ${error}`))
    await expectToPass(runtime, command, engines, () => runSuiteBy(command, name === 'deno' ? DENO : [], folder))
  })

  // As published, and as far back as it may be dated with the SDK still working.
  it.for(['2026-01-01', '2023-01-01'])('workerd, compatible with %s', async (date, { skip }) => {
    const command = await install('workerd@1').catch((error: unknown) => skip(`cannot be had: ${error}`))
    await expectToPass('workerd', command, ['noble', 'web'], () => runInWorkerd(command, date))
  })
})

async function expectToPass(
  runtime: string,
  command: string,
  engines: readonly string[],
  play: () => Promise<SuiteRun>,
): Promise<void> {
  const { stdout: version } = await run(command, ['--version'])
  const started = performance.now()
  const { failed, ...outcome } = await play()
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  console.info(`${runtime} (${version.split('\n')[0]}): ${outcome.passed} checks in ${seconds} s, ${outcome.engines}`)
  expect(failed).toEqual([])
  expect(outcome).toEqual({ engines, passed: expect.any(Number), followed: 0 })
  expect(outcome.passed).toBeGreaterThan(engines.length * 100)
}

/** Installs a runtime from the registry, and gives the path of its program. */
async function install(source: string): Promise<string> {
  const [name = ''] = source.split('@')
  const home = join(folder, `runtime-${source.replace('@', '-')}`)
  const command = join(home, 'node_modules/.bin', name)
  if (existsSync(command)) return command
  await mkdir(home, { recursive: true })
  await writeFile(join(home, 'package.json'), '{ "private": true }')
  const options = { cwd: home, timeout: INSTALL_TIMEOUT_MS }
  await run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', source], options)
  const works = () =>
    run(command, ['--version']).then(
      () => true,
      () => false,
    )
  if (await works()) return command
  // npm may have been told to run no scripts; what fetches the program is run by hand then.
  const place = join(home, 'node_modules', name)
  const { scripts = {} } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')) as {
    scripts?: Record<string, string>
  }
  for (const script of [scripts.preinstall, scripts.postinstall]) {
    if (script !== undefined) await run('sh', ['-c', script], { ...options, cwd: place })
  }
  if (await works()) return command
  throw new Error(`${source} was installed and does not start`)
}

async function runInWorkerd(command: string, date: string): Promise<SuiteRun> {
  await build({
    entryPoints: [join(folder, 'worker.mjs')],
    absWorkingDir: folder,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['workerd', 'worker', 'browser'],
    target: 'es2022',
    outfile: join(folder, 'worker.js'),
  })
  const config = join(folder, 'workerd.capnp')
  await writeFile(config, WORKERD.replace('COMPATIBILITY_DATE', date))
  const child = spawn(command, ['serve', config, '--control-fd=1'], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const port = await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => reject(new Error(`workerd ended with ${code}`)))
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { event, port } = JSON.parse(line) as { event: string; port: number }
        if (event === 'listen') resolve(port)
      })
    })
    return await runSuite(async (redirecting) => {
      const url = `http://127.0.0.1:${port}/?redirecting=${encodeURIComponent(redirecting)}`
      const response = await fetch(url, { signal: AbortSignal.timeout(SUITE_TIMEOUT_MS) })
      if (!response.ok) throw new Error(`workerd answered ${response.status}: ${await response.text()}`)
      return (await response.json()) as SuiteOutcome
    })
  } finally {
    child.kill()
  }
}

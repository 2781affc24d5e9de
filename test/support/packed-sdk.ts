// `@eaas/sdk` as npm would publish it, unpacked into a folder of its own with only the packages that it declares.
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { ROOT } from './source-files.js'

const run = promisify(execFile)
const SUITE_TIMEOUT_MS = 120_000

/** The outcome of the suite in test/packed/runtimes. */
export interface SuiteOutcome {
  engines: string[]
  passed: number
  failed: string[]
}

export interface SuiteRun extends SuiteOutcome {
  /** The number of requests that arrived because a client followed a redirect. */
  followed: number
}

/**
 * Packs the built SDK and unpacks it below a folder's node_modules. The packages that it declares are links to those of this
 * checkout, so that no network is needed; there are no others. Puts the suite beside it. Returns the path of the tarball.
 */
export async function installPackedSdk(folder: string): Promise<string> {
  const modules = join(folder, 'node_modules')
  const target = join(modules, '@eaas/sdk')
  mkdirSync(target, { recursive: true })
  const tarball = await pack('packages/sdk', folder)
  await run('tar', ['-xzf', tarball, '-C', target, '--strip-components=1'])
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(target, 'package.json'), 'utf8')) as {
    dependencies: object
    peerDependencies: object
  }
  for (const name of Object.keys({ ...dependencies, ...peerDependencies })) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  cpSync(join(ROOT, 'test/packed/runtimes'), folder, { recursive: true })
  cpSync(join(ROOT, 'packages/protocol/src/envelope.vectors.json'), join(folder, 'envelope.vectors.json'))
  await bundleSuite(folder)
  return tarball
}

/** Packs a built package. Returns the path of the tarball. */
export async function pack(path: string, folder: string): Promise<string> {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const { stdout } = await run('npm', args, { cwd: join(ROOT, path) })
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }]
  return join(folder, filename)
}

/** Bundles the suite as CommonJS, which requires the SDK. */
async function bundleSuite(folder: string): Promise<void> {
  await build({
    entryPoints: [join(folder, 'suite.mjs')],
    outfile: join(folder, 'suite.cjs'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    packages: 'external',
  })
}

/** Runs the suite, beside a server that redirects every request. */
export async function runSuite(ask: (redirecting: string) => Promise<SuiteOutcome>): Promise<SuiteRun> {
  let followed = 0
  const server = createServer((request, response) => {
    if (request.url === '/followed') followed += 1
    response.writeHead(307, { location: '/followed', 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const outcome = await ask(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    return { ...outcome, followed }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** Runs the suite by a command that takes a script. @throws with the command's output when it fails */
export function runSuiteBy(
  command: string,
  args: readonly string[],
  folder: string,
  program: 'main.mjs' | 'main.cjs' = 'main.mjs',
): Promise<SuiteRun> {
  return runSuite(
    (redirecting) =>
      new Promise((resolve, reject) => {
        const options = { cwd: folder, timeout: SUITE_TIMEOUT_MS, stdio: ['ignore', 'pipe', 'pipe'] as const }
        const child = spawn(command, [...args, program, redirecting], { ...options, stdio: [...options.stdio] })
        let [output, errors] = ['', '']
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          output += text
        })
        child.stderr.setEncoding('utf8').on('data', (text: string) => {
          errors += text
        })
        child.once('error', reject)
        child.once('close', (code) => {
          if (code === 0 && (errors === '' || program === 'main.mjs')) resolve(JSON.parse(output) as SuiteOutcome)
          else reject(new Error(`${command} ended with ${code}: ${errors.slice(-2_000)}`))
        })
      }),
  )
}

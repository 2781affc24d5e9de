// Our packages as npm would publish them, and `@eaas/sdk` unpacked into a folder of its own with only the packages that it declares.
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { inject } from 'vitest'
import { madeOnce } from '../run/made-once.js'
import { ROOT } from '../sources/source-files.js'

const run = promisify(execFile)
const SUITE_TIMEOUT_MS = 120_000
const MAX_LIST_BYTES = 16 * 1_048_576

/** What `npm pack --json` says about a package. */
interface Listed {
  name: string
  filename: string
  files: { path: string }[]
}

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

/** Our packages that are published. */
export const PUBLISHED = [
  '@eaas/audit',
  '@eaas/sdk',
  '@eaas/console',
  '@eaas/cli',
  '@eaas/conformance',
  '@eaas/drizzle',
  '@eaas/kysely',
  '@eaas/prisma',
  '@eaas/typeorm',
  '@eaas/server',
] as const
export type Published = (typeof PUBLISHED)[number]

/** The adapters for ORMs. */
export const ADAPTERS = ['@eaas/drizzle', '@eaas/kysely', '@eaas/prisma', '@eaas/typeorm'] as const

/**
 * Unpacks the packed SDK and its adapters below a folder's node_modules. The packages that they declare are links to those of this
 * checkout, so that no network is needed; there are no others. Adds the suite. Returns the path of the SDK's tarball.
 */
export async function installPackedSdk(folder: string): Promise<string> {
  const modules = join(folder, 'node_modules')
  for (const ours of ['@eaas/sdk', ...ADAPTERS] as const) {
    const target = join(modules, ours)
    mkdirSync(target, { recursive: true })
    const { tarball } = await pack(ours)
    await run('tar', ['-xzf', tarball, '-C', target, '--strip-components=1'])
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(target, 'package.json'), 'utf8')) as {
      dependencies?: object
      peerDependencies?: object
    }
    for (const name of Object.keys({ ...dependencies, ...peerDependencies })) {
      if (name === '@eaas/sdk') continue // the packed one
      mkdirSync(dirname(join(modules, name)), { recursive: true })
      symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
    }
  }
  const { tarball } = await pack('@eaas/sdk')
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  cpSync(join(ROOT, 'test/packed/runtimes'), folder, { recursive: true })
  cpSync(join(ROOT, 'packages/protocol/src/envelope.vectors.json'), join(folder, 'envelope.vectors.json'))
  await bundleSuite(folder)
  return tarball
}

/** A package as npm publishes it. */
export interface Packed {
  /** the path of the file */
  tarball: string
  /** the paths of the files in it */
  files: string[]
}

/** Packs the built packages, once in a run of the tests, and returns one of them. */
export async function pack(name: Published): Promise<Packed> {
  const folder = await madeOnce(inject('runDir'), 'packed', async (draft) => {
    const packages = PUBLISHED.flatMap((one) => ['-w', one])
    const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', draft, ...packages]
    const { stdout } = await run('npm', args, { cwd: ROOT, maxBuffer: MAX_LIST_BYTES })
    writeFileSync(join(draft, 'packed.json'), stdout)
  })
  const packages = JSON.parse(readFileSync(join(folder, 'packed.json'), 'utf8')) as Listed[]
  const found = packages.find((one) => one.name === name)
  if (!found) throw new Error(`npm has packed ${packages.map((one) => one.name).join(', ')}, not ${name}`)
  return { tarball: join(folder, found.filename), files: found.files.map(({ path }) => path) }
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

/** Runs the suite together with a server that redirects every request. */
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

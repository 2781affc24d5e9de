// A whole release, made of this commit: the same bytes wherever it is built, and what a user installs of it under each Node.
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LocalRegistry } from '../../packed/local-registry.js'
import { installRuntime } from '../../support/platforms/install-runtime.js'
import { PUBLISHED } from '../../support/platforms/packed-sdk.js'
import { environmentOfUser, makeRelease, releaseOfRun, startReleaseRegistry } from '../../support/platforms/release.js'
import { ROOT } from '../../support/sources/source-files.js'

const run = promisify(execFile)
const SETUP_MS = 30 * 60_000
/** Those that bring their dependencies; an adapter brings an ORM that has ranges of its own. */
const WHOLE = ['sdk', 'server', 'audit', 'cli', 'conformance', 'console'].map((name) => `@eaas/${name}`)
/** The oldest of each line. */
const OLDEST = ['node@20.19.0', 'node@22.12.0', 'node@24.0.0', 'node@26.0.0']

const npm = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-release-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a release', () => {
  it('has the same bytes when it is made twice, in folders of other names', async () => {
    const digest = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')
    /** Of the tarballs, and of each file in them, so that a failure names the file. */
    const digests = (tarballs: string) => {
      const unpacked = mkdtempSync(join(folder, 'unpacked-'))
      for (const name of readdirSync(tarballs)) {
        mkdirSync(join(unpacked, name))
        execFileSync('tar', ['-xzf', join(tarballs, name), '-C', join(unpacked, name)])
      }
      const files = readdirSync(unpacked, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
      const paths = files.map(({ parentPath, name }) => join(parentPath, name))
      return {
        tarballs: Object.fromEntries(readdirSync(tarballs).map((name) => [name, digest(join(tarballs, name))])),
        files: Object.fromEntries(paths.map((path) => [relative(unpacked, path), digest(path)])),
      }
    }
    mkdirSync(join(folder, 'another place'))
    const first = digests(await releaseOfRun())
    const names = Object.keys(first.tarballs).map((name) => name.replace(/-\d+\.\d+\.\d+\.tgz$/, ''))
    expect(names.sort()).toEqual(PUBLISHED.map((name) => name.slice(1).replace('/', '-')).sort())
    expect(digests(await makeRelease(join(folder, 'another place/clone')))).toEqual(first)
  })
})

describe('what a user installs', () => {
  let registry: LocalRegistry
  let environment: NodeJS.ProcessEnv
  let user: string

  beforeAll(async () => {
    registry = await startReleaseRegistry()
    user = join(folder, 'user')
    mkdirSync(user)
    environment = { ...environmentOfUser(), npm_config_registry: registry.url, npm_config_cache: join(folder, 'cache') }
    writeFileSync(join(user, 'package.json'), '{ "name": "user", "version": "1.0.0", "private": true }')
    await run('npm', ['install', ...WHOLE], { cwd: user, env: environment })
  }, SETUP_MS)
  afterAll(() => registry.close())

  it.for(OLDEST)('is taken by %s under engine-strict, and its commands start', async (source, { skip }) => {
    const node = await installRuntime(folder, source).catch((error: unknown) => skip(`cannot be had: ${error}`))
    await run(node, [npm, 'ci', '--engine-strict'], { cwd: user, env: environment })
    for (const command of ['eaas', 'eaas-audit', 'eaas-cli', 'eaas-conformance']) {
      const { stdout } = await run(node, [join(user, 'node_modules/.bin', command), '--help'], { env: environment })
      expect(stdout).toContain('Usage: ')
    }
  })

  it('has a bill of materials, in which every part has a version, a licence and a digest', async () => {
    const { stdout } = await run('npm', ['sbom', '--sbom-format=cyclonedx'], { cwd: user, env: environment })
    const { bomFormat, components } = JSON.parse(stdout) as { bomFormat: string; components: Component[] }
    expect(bomFormat).toBe('CycloneDX')
    expect(components.length).toBeGreaterThan(60)
    for (const one of components) expect(one).toMatchObject(PART)
    const ours = components.filter(({ version }) => /^\d+\.\d+\.\d+$/.test(version)).map(({ name }) => name)
    expect(ours).toEqual(expect.arrayContaining(WHOLE))
  })
})

/** The oldest that a developer's own tools take: what is installed to work on the project is more than what users install. */
it.for(['node@20.19.0', 'node@22.13.0', 'node@24.11.0'])(
  'the project installs under engine-strict on %s',
  async (source, { skip }) => {
    const node = await installRuntime(folder, source).catch((error: unknown) => skip(`cannot be had: ${error}`))
    const args = [npm, 'ci', '--dry-run', '--engine-strict', '--ignore-scripts']
    await run(node, args, { cwd: ROOT, env: environmentOfUser() })
  },
)

interface Component {
  name: string
  version: string
}

const PART = {
  version: expect.any(String),
  purl: expect.stringMatching(/^pkg:npm\//),
  licenses: [expect.anything()],
  hashes: [{ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) }],
}

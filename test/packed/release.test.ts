// What a release publishes: its versions and its changelog, where its repository lives, and that the links of its pages lead to what is
// packed. test/slow/ship/release.test.ts makes a whole one.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { pack } from '../support/platforms/packed-sdk.js'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

const NAMES = ['audit', 'cli', 'conformance', 'console', 'drizzle', 'kysely', 'prisma', 'sdk', 'server', 'typeorm'] // in the order of the folders
const PUBLISHED = NAMES.map((name) => `packages/${name}`)
const PACKAGES = NAMES.map((name) => `@eaas/${name}`)
const EXAMPLES = ['examples/lib', 'examples/web-app']
/** The words of a printed page. */
const PAGE = 400
const URL_OF_REPOSITORY = 'https://github.com/owner/name'
const SCRIPT = join(ROOT, '.changeset/fill-repository.mjs')
const { fillRepository } = (await import(SCRIPT)) as {
  fillRepository(root: string, environment: NodeJS.ProcessEnv): string[]
}
const NO_GITHUB = { GITHUB_SERVER_URL: undefined, GITHUB_REPOSITORY: undefined }

type Manifest = Record<string, unknown>

const readManifest = (path: string) => JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as Manifest

/** What a package brings of ours in another version than that of its manifest, `manifestOf` its folder. */
function findStale({ dependencies = {} }: Manifest, manifestOf: (path: string) => Manifest): [string, unknown][] {
  return Object.entries(dependencies as object).filter(
    ([name, range]) => name.startsWith('@eaas/') && range !== manifestOf(name.replace('@eaas', 'packages')).version,
  )
}

/** Copies this project's manifests; `url` takes the place of the root's. */
function copyManifests(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-release-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const path of ['.', ...PUBLISHED, 'packages/protocol', ...EXAMPLES]) {
    const manifest = readManifest(join(ROOT, path))
    if (path === '.') manifest.repository = { type: 'git', url }
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'package.json'), JSON.stringify(manifest))
  }
  return { folder, manifestOf: (path: string) => readManifest(join(folder, path)) }
}

/** Runs the script. */
function fill(folder: string, environment: NodeJS.ProcessEnv = {}) {
  const env = { ...process.env, ...NO_GITHUB, ...environment }
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT], { cwd: folder, env, encoding: 'utf8' })
  return { status, stdout, stderr }
}

describe('a raise of the versions', () => {
  it('writes the changelogs of what is published, and changes nothing of what stays private', () => {
    const { folder, manifestOf } = copyManifests('')
    cpSync(join(ROOT, '.changeset/config.json'), join(folder, '.changeset/config.json'))
    const raised = PACKAGES.map((name) => `'${name}': minor\n`).join('')
    writeFileSync(join(folder, '.changeset/news.md'), `---\n${raised}---\n\nSomething new.\n`)
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    const before = Object.fromEntries(EXAMPLES.map((path) => [path, manifestOf(path)]))
    execFileSync('git', ['init', '--quiet', '--initial-branch=main'], { cwd: folder })
    execFileSync(join(ROOT, 'node_modules/.bin/changeset'), ['version'], { cwd: folder, stdio: 'pipe' })

    for (const path of PUBLISHED) {
      const manifest = readManifest(join(ROOT, path))
      const [major, minor] = String(manifest.version).split('.')
      const next = `${major}.${Number(minor) + 1}.0`
      const { version, peerDependencies } = manifestOf(path)
      expect([path, version, findStale(manifestOf(path), manifestOf)]).toEqual([path, next, []])
      expect(peerDependencies).toEqual(manifest.peerDependencies)
      const changelog = readFileSync(join(folder, path, 'CHANGELOG.md'), 'utf8')
      expect(changelog).toContain(`\n## ${next}\n\n### Minor Changes\n\n- Something new.\n`)
    }
    for (const path of ['packages/protocol', ...EXAMPLES]) {
      expect(manifestOf(path)).toEqual(before[path] ?? readManifest(join(ROOT, path)))
      expect(existsSync(join(folder, path, 'CHANGELOG.md'))).toBe(false)
    }
  })
})

describe('the changelogs', () => {
  const parts = PUBLISHED.map((path) => readFileSync(join(ROOT, path, 'CHANGELOG.md'), 'utf8').split(/^## /m))

  it('have a page at most for each version, the newest of which is that of the manifest', () => {
    for (const [at, [title, ...versions]] of parts.entries()) {
      const manifest = readManifest(join(ROOT, PUBLISHED[at] ?? ''))
      expect([title, versions[0]?.split('\n')[0]]).toEqual([`# ${manifest.name}\n\n`, manifest.version])
      expect(findStale(manifest, (path) => readManifest(join(ROOT, path)))).toEqual([])
      for (const version of versions) expect(version.split(/\s+/).length).toBeLessThanOrEqual(PAGE)
    }
  })

  it('say what each package itself does: no two are alike', () => {
    expect(new Set(parts.map(([, newest]) => newest)).size).toBe(PUBLISHED.length)
  })
})

describe('a release', () => {
  // changesets publishes several packages at once: builds of each would read what the others write.
  it('begins with the check of the repository, builds all packages in their order, and then packs them as they are', () => {
    const { scripts } = readManifest(ROOT) as { scripts: Record<string, string> }
    expect(scripts.release).toBe(
      'node .changeset/fill-repository.mjs && npm run build && npm_config_ignore_scripts=true changeset publish',
    )
    for (const name of NAMES) {
      const manifest = readManifest(join(ROOT, 'packages', name)) as { scripts: Record<string, string> }
      expect([name, manifest.scripts.prepack]).toEqual([name, 'npm run build'])
    }
  })

  it.each(PUBLISHED)('publishes %s in public, with provenance', (path) => {
    const { publishConfig, keywords } = readManifest(join(ROOT, path))
    expect(publishConfig).toEqual({ access: 'public', provenance: true })
    expect(keywords).toContain('encryption')
  })

  it('gives the types of the server nothing to import that is bundled', () => {
    const types = readFileSync(join(ROOT, 'packages/server/dist/index.d.ts'), 'utf8')
    const imported = [...types.matchAll(/ from '([^']+)'/g)].map(([, name]) => name)
    const packages = imported.filter((name) => !name?.startsWith('.') && !isBuiltin(name ?? ''))
    expect(new Set(packages)).toEqual(new Set(['@eaas/audit/node', 'fastify']))
  })

  it.each([URL_OF_REPOSITORY, `${URL_OF_REPOSITORY}/`, `git+${URL_OF_REPOSITORY}.git`])(
    'writes the repository into each manifest that is published, from %s',
    (url) => {
      const { folder, manifestOf } = copyManifests(url)
      expect(fillRepository(folder, {})).toEqual(PACKAGES)
      for (const path of PUBLISHED) {
        expect(manifestOf(path)).toEqual({
          ...readManifest(join(ROOT, path)),
          repository: { type: 'git', url: `git+${URL_OF_REPOSITORY}.git`, directory: path },
          homepage: `${URL_OF_REPOSITORY}/tree/main/${path}#readme`,
          bugs: `${URL_OF_REPOSITORY}/issues`,
        })
      }
      expect(manifestOf('packages/protocol')).not.toHaveProperty('repository')
    },
  )

  it.each(['', 'https://github.com/', 'https://github.com/owner', 'git@github.com:owner/name.git', 'owner/name'])(
    'is refused while the repository is %j',
    (url) => {
      const { folder, manifestOf } = copyManifests(url)
      const message = `package.json: repository.url must be where the repository lives, such as "https://github.com/OWNER/NAME", got ${JSON.stringify(url)}`
      expect(() => fillRepository(folder, {})).toThrow(message)
      expect(manifestOf('packages/sdk')).not.toHaveProperty('repository')
    },
  )

  it('is refused in a workflow of another repository, such as a fork', () => {
    const server = { GITHUB_SERVER_URL: 'https://github.com' }
    const { folder } = copyManifests(URL_OF_REPOSITORY)
    expect(fill(folder, { ...server, GITHUB_REPOSITORY: 'Owner/name' })).toEqual({
      status: 0,
      stdout: `Wrote the repository into the manifests of ${PACKAGES.join(', ')}.\n`,
      stderr: '',
    })
    expect(fill(folder, { ...server, GITHUB_REPOSITORY: 'fork/name' })).toEqual({
      status: 1,
      stdout: '',
      stderr: `package.json: repository.url is ${URL_OF_REPOSITORY}, but this is a build of https://github.com/fork/name\n`,
    })
  })
})

describe.each([
  ['packages/audit', '@eaas/audit'],
  ['packages/cli', '@eaas/cli'],
  ['packages/sdk', '@eaas/sdk'],
  ['packages/server', '@eaas/server'],
] as const)('the tarball of %s', (path, name) => {
  let files: Set<string>
  beforeAll(async () => {
    files = new Set((await pack(name)).files)
  }, 60_000)

  it('holds what the links of its pages lead to, so that they work without the repository', () => {
    const pages = [...files].filter((file) => file.endsWith('.md'))
    expect(pages).toContain('README.md')
    expect(pages.length).toBeGreaterThan(3)
    const links = pages.flatMap((page) => {
      const targets = readFileSync(join(ROOT, path, page), 'utf8').matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g)
      return [...targets].map(([, target = '']) => ({ page, target }))
    })
    const own = links.filter(({ target }) => !/^https?:/.test(target))
    expect(own.length).toBeGreaterThan(5)
    const dead = own.filter(({ page, target }) => !files.has(posix.join(posix.dirname(page), target)))
    expect(dead).toEqual([])
  })

  it.skipIf(name === '@eaas/cli')('holds the vectors that its specifications name, beside them', () => {
    const named = [...files].flatMap((page) => {
      const text = page.endsWith('.md') ? readFileSync(join(ROOT, path, page), 'utf8') : ''
      const vectors = text.matchAll(/^## [\d. ]*Vectors\n[^`]*`([\w-]+\.vectors\.json)`/gm)
      return [...vectors].map(([, vector = '']) => posix.join(posix.dirname(page), vector))
    })
    expect(named.length).toBeGreaterThan(3)
    expect(named.filter((vector) => !files.has(vector))).toEqual([])
  })
})

describe('the tarball of the server', () => {
  it('holds the specifications that its README looks for in dist/formats, and the program that opens kits', {
    timeout: 60_000,
  }, async () => {
    const { files } = await pack('@eaas/server')
    const protocol = filesBelow('packages/protocol/src').filter((path) => path.endsWith('.md'))
    expect(protocol.length).toBeGreaterThan(1)
    const readme = readFileSync(join(ROOT, 'packages/server/README.md'), 'utf8')
    expect(readme).toContain('`dist/formats`')
    for (const path of protocol) expect(files).toContain(`dist/formats/${posix.basename(path)}`)
    expect(files).toContain('dist/open-kit/open_kit.py')
    expect(files).toContain('dist/formats/formats.sha256') // SECURITY.md: the release signs it
  })
})

// What comes with a package of ours, as dependencies or inside its bundles: it runs on the Node that the package names (under
// `engine-strict` npm refuses it otherwise, and elsewhere it only warns), runs nothing when it is installed, and may be passed on.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PUBLISHED } from '../support/platforms/packed-sdk.js'
import { ROOT } from '../support/sources/source-files.js'

/** The oldest that we support, `engines` of each manifest. */
const NODE_MAJOR = 20
/** Each lets others use, change and pass on what is under it, also beside other licences. */
const LICENCES = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'Unlicense']
/** Its text need not be passed on. */
const WITHOUT_NOTICE = 'Unlicense'

interface Locked {
  version: string
  license?: string
  link?: boolean
  hasInstallScript?: boolean
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  engines?: { node?: string }
}

const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, Locked>
}

/** Where a package finds another one: in its own node_modules, or in one further up. */
function locate(from: string, name: string): string {
  const folders = from.split('/node_modules/').map((_, at, all) => all.slice(0, all.length - at).join('/node_modules/'))
  const found = [...folders.map((folder) => `${folder}/node_modules/${name}`), `node_modules/${name}`]
  const path = found.find((candidate) => candidate in packages)
  if (path === undefined) throw new Error(`${name}, which ${from} needs, is not locked`)
  return path
}

function installedWith(from: string, seen = new Set<string>()): Set<string> {
  for (const name of Object.keys(packages[from]?.dependencies ?? {})) {
    const path = locate(from, name)
    if (seen.has(path)) continue
    seen.add(path)
    installedWith(packages[path]?.link ? path.replace('node_modules/@eaas', 'packages') : path, seen)
  }
  return seen
}

/** Ranges as packages write them: `>=18`, `20 || >=22`, `^20.19.0 || >=22.12.0`. */
function isTakenBy(range: string): boolean {
  return range.split('||').some((part) => Number(/\d+/.exec(part)?.[0]) <= NODE_MAJOR)
}

/** The packages whose code is in the scripts of a package, by the comments that its bundler leaves. */
function inlinedIn(home: string): string[] {
  const dist = join(ROOT, home, 'dist')
  const scripts = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((path) => /\.c?js$/.test(path))
  const texts = scripts.map((path) => readFileSync(join(dist, path), 'utf8'))
  const comments = texts.flatMap((text) => [
    ...text.matchAll(/^\/\/ (?:\.\.\/)+node_modules\/((?:@[\w-]+\/)?[\w.-]+)/gm),
  ])
  return [...new Set(comments.map(([, name = '']) => name))].sort()
}

function licenceOf(name: string): string {
  const home = join(ROOT, 'node_modules', name)
  const file = readdirSync(home).find((one) => /^licen[cs]e(\.\w+)?$/i.test(one)) ?? 'LICENSE'
  return readFileSync(join(home, file), 'utf8')
}

/** `@noble/hashes` → `noble-hashes.txt` */
const fileOf = (name: string) => `${name.replace('@', '').replace('/', '-')}.txt`

describe.each(PUBLISHED)('what comes with %s', (name) => {
  const home = name.replace('@eaas', 'packages')
  const { bundled = {}, ...manifest } = JSON.parse(readFileSync(join(ROOT, home, 'package.json'), 'utf8')) as {
    bundled?: Record<string, string>
    scripts: Record<string, string>
  }
  const paths = [...installedWith(home)]

  it(`runs on Node ${NODE_MAJOR}`, () => {
    const others = paths.filter((path) => !isTakenBy(packages[path]?.engines?.node ?? '>=0'))
    expect(others.map((path) => `${path} ${packages[path]?.version} needs ${packages[path]?.engines?.node}`)).toEqual(
      [],
    )
  })

  it('runs no script when it is installed', () => {
    expect(paths.filter((path) => packages[path]?.hasInstallScript)).toEqual([])
    expect(Object.keys(manifest.scripts)).toEqual(['build', 'prepack'])
  })

  it('is under a licence that lets others pass it on', () => {
    const foreign = paths.filter((path) => !packages[path]?.link)
    const licences = [...foreign, ...Object.keys(bundled).map((one) => `node_modules/${one}`)].map((path) => [
      path,
      packages[path]?.license,
    ])
    expect(licences.filter(([, licence = 'none']) => !LICENCES.includes(licence))).toEqual([])
  })

  it('is named where it is bundled, with its version and its licence', () => {
    // The scripts of the console are minified, without comments: its build compares the list.
    if (name !== '@eaas/console') expect(inlinedIn(home)).toEqual(Object.keys(bundled).sort())
    for (const [one, version] of Object.entries(bundled)) {
      const locked = packages[`node_modules/${one}`]
      expect([one, version]).toEqual([one, locked?.version])
      if (locked?.license === WITHOUT_NOTICE) continue
      const shipped = readFileSync(join(ROOT, home, 'licenses', fileOf(one)), 'utf8')
      expect(shipped).toBe(licenceOf(one))
    }
  })
})

describe('the lists', () => {
  it('are not empty', () => {
    expect(installedWith('packages/server').size).toBeGreaterThan(50)
    expect(inlinedIn('packages/server')).toContain('zod')
  })
})

// The README of a source folder names its files: a newcomer finds each of them there, and none that is gone.
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesBelow, ROOT, sourcesBelow } from '../support/sources/source-files.js'

/** A name of a file in a README; `*` stands for any part of it. */
const FILE_NAME = /[\w*][\w*.-]*\.ts\b/g

const sources = [
  ...sourcesBelow('packages/protocol/src'),
  ...sourcesBelow('packages/audit/src'),
  ...sourcesBelow('packages/sdk/src'),
  ...sourcesBelow('packages/cli/src'),
  ...sourcesBelow('packages/server/src'),
]
const paths = sources.map(({ path }) => path)
const everyPath = [...filesBelow('packages'), ...filesBelow('test'), ...filesBelow('docs/openapi')].filter(
  (path) => !path.includes('/dist/'),
)

/** The READMEs that list the files of their folder. That of the SDK's sources has a test of its own, below. */
const readmes = [
  'packages/protocol/README.md',
  'packages/audit/src/README.md',
  ...filesBelow('packages/sdk/src').filter((path) => /\/src\/.+\/README\.md$/.test(path)),
  ...filesBelow('packages/server/src').filter((path) => path.endsWith('/README.md')),
]

const ownOf = (readme: string) => (readme === 'packages/protocol/README.md' ? 'packages/protocol/src' : dirname(readme))

/** The folders that a README is about: its own, and those below it without one of their own. */
function foldersOf(readme: string): string[] {
  const own = ownOf(readme)
  const hasOwn = (folder: string): boolean =>
    folder !== own && (existsSync(join(ROOT, folder, 'README.md')) || hasOwn(dirname(folder)))
  const below = new Set(paths.filter((path) => path.startsWith(`${own}/`)).map((path) => dirname(path)))
  return [...below].filter((folder) => !hasOwn(folder))
}

/** The files that a README may name without their folder: those below its own, those above it, and those of the protocol. Tests may be anywhere. */
function mayNameAlone(readme: string, path: string): boolean {
  const folder = dirname(path)
  const isAbove = /\/src(\/|$)/.test(folder) && `${dirname(readme)}/`.startsWith(`${folder}/`)
  return (
    isAbove || path.startsWith(`${ownOf(readme)}/`) || folder === 'packages/protocol/src' || path.endsWith('.test.ts')
  )
}

/** Files of the protocol that its README need not name: formats, which have a page of their own, and what only exports others. */
function needsNoName(path: string): boolean {
  if (!path.startsWith('packages/protocol/')) return false
  return basename(path) === 'index.ts' || existsSync(join(ROOT, path.replace(/ts$/, 'md')))
}

/** The files of a folder that a README does not name. A folder below its own that it describes as a whole has none. */
function findUnnamed(readme: string, folder: string, isNamed: (path: string) => boolean): string[] {
  const files = paths.filter((path) => dirname(path) === folder)
  const isWhole = !files.some(isNamed) && readFileSync(join(ROOT, readme), 'utf8').includes(`\`${basename(folder)}/`)
  return isWhole ? [] : files.filter((path) => !isNamed(path) && !needsNoName(path))
}

describe.each(readmes)('%s', (readme) => {
  const text = readFileSync(join(ROOT, readme), 'utf8')
  const patternOf = (name: string) => new RegExp(`^${name.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
  const patterns = (text.match(FILE_NAME) ?? []).map(patternOf)
  const isNamed = (path: string) => patterns.some((pattern) => pattern.test(basename(path)))

  it('names every file of its folder', () => {
    expect(foldersOf(readme).flatMap((folder) => findUnnamed(readme, folder, isNamed))).toEqual([])
  })

  it('names no file that is gone or elsewhere', () => {
    const near = everyPath.filter((path) => mayNameAlone(readme, path)).map((path) => basename(path))
    const alone = [...text.matchAll(/`([\w*][\w*.-]*\.ts)`/g)].map(([, name = '']) => name)
    expect(alone.filter((name) => !near.some((path) => patternOf(name).test(path)))).toEqual([])
    const inFolders = text.match(/`[\w/-]+\/[\w.-]+\.ts`/g) ?? []
    expect(
      inFolders.filter((name) => !everyPath.some((path) => `/${path}`.endsWith(`/${name.replaceAll('`', '')}`))),
    ).toEqual([])
  })
})

it('the README of the SDK follows one encrypt() through files that are there, of at most fifteen', () => {
  const readme = readFileSync(join(ROOT, 'packages/sdk/src/README.md'), 'utf8')
  const named = [...readme.matchAll(/`([\w/-]+\.ts)`/g)].map(([, path = '']) => path)
  const placed = (path: string) => (path.startsWith('protocol/') ? path.replace('/', '/src/') : `sdk/src/${path}`)
  expect(named.filter((path) => !existsSync(join(ROOT, 'packages', placed(path))))).toEqual([])
  const steps = [...readme.matchAll(/^\d+\. `[\w/-]+\.ts` /gm)]
  expect(steps.length).toBeGreaterThan(10)
  expect(steps.length).toBeLessThanOrEqual(15)
})

// Specs and those who cite them: a section that a comment names exists, and each spec has its vectors and its test.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

// The links of READMEs and pages are readme.test.ts's.
const files = filesBelow('packages').filter(
  (path) =>
    /\.(ts|mjs|sql|md)$/.test(path) && basename(path) !== 'README.md' && !/^packages\/[a-z]+\/docs\//.test(path),
)
const specs = files.filter((path) => /^packages\/[a-z]+\/src\/.*\.md$/.test(path))

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

interface Citation {
  path: string
  spec: string
  section: string | undefined
}

/** What tells a vector from the others of its list. */
interface Vector {
  name?: string
  kind?: string
  pad?: number
  value?: unknown
}

function citationsOf(path: string, text: string): Citation[] {
  return [...text.matchAll(/([A-Za-z0-9-]+\.md)\b(?:(?: section)? (\d+(?:\.\d+)*))?/g)].map(
    ([, spec = '', section]) => ({
      path,
      spec,
      section,
    }),
  )
}

function sectionsOf(text: string): string[] {
  return [...text.matchAll(/^#{2,4} (\d+(?:\.\d+)*)\.? /gm)].map(([, section = '']) => section)
}

function sectionsByName(): Map<string, string[]> {
  return new Map(specs.map((path) => [basename(path), sectionsOf(read(path))]))
}

describe('a citation', () => {
  const citations = files.flatMap((path) => citationsOf(path, read(path)))
  const sections = sectionsByName()

  it('is found where there are many', () => {
    expect(citations.filter(({ section }) => section !== undefined).length).toBeGreaterThan(15)
    expect(citationsOf('a.ts', '// chain.md 2 and wrapped-key.md, see envelope.md section 10')).toEqual([
      { path: 'a.ts', spec: 'chain.md', section: '2' },
      { path: 'a.ts', spec: 'wrapped-key.md', section: undefined },
      { path: 'a.ts', spec: 'envelope.md', section: '10' },
    ])
    expect(sectionsOf('# 1. a\n## 2. b\n### 2.1 c\ntext ## 3. d')).toEqual(['2', '2.1'])
  })

  it('names a spec that exists', () => {
    expect(
      citations
        .filter(
          ({ spec }) => !sections.has(spec) && !existsSync(join(ROOT, spec)) && !existsSync(join(ROOT, 'docs', spec)),
        )
        .map(({ path, spec }) => `${path} cites ${spec}`),
    ).toEqual([])
  })

  it('names a section that exists', () => {
    expect(
      citations
        .filter(({ spec, section }) => section !== undefined && sections.get(spec)?.includes(section) === false)
        .map(({ path, spec, section }) => `${path} cites ${spec} ${section}`),
    ).toEqual([])
  })
})

describe('a spec', () => {
  it('has a name of its own, so that a citation means one', () => {
    const names = specs.map((path) => basename(path))
    expect(specs.length).toBeGreaterThanOrEqual(5)
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
  })

  it.each(specs)('stands beside its code, its vectors and its test: %s', (path) => {
    const stem = path.replace(/\.md$/, '')
    for (const ending of ['.ts', '.vectors.json', '.test.ts']) {
      expect(existsSync(join(ROOT, stem + ending)), stem + ending).toBe(true)
    }
  })

  it.each(specs)('numbers its sections from 1 without a gap: %s', (path) => {
    const sections = sectionsOf(read(path)).filter((section) => !section.includes('.'))
    expect(sections).toEqual(sections.map((_, at) => String(at + 1)))
    expect(sections.length).toBeGreaterThan(1)
  })

  it.each(specs)('names its vectors, and each list in them: %s', (path) => {
    const vectors = path.replace(/\.md$/, '.vectors.json')
    expect(read(path)).toContain(basename(vectors))
    expect(JSON.parse(read(vectors))).toMatchObject({ format: expect.any(String), about: expect.any(String) })
  })

  it.each(specs)('has more vectors to refuse than others, and no two of one name in a list: %s', (path) => {
    const members = Object.entries<unknown>(JSON.parse(read(path.replace(/\.md$/, '.vectors.json'))))
    const lists = members.flatMap(([name, list]) => (Array.isArray(list) ? [{ name, list: list as Vector[] }] : []))
    const [refused = 0, others = 0] = [true, false].map((isRefused) =>
      lists.filter(({ name }) => name.includes('refuse') === isRefused).reduce((sum, { list }) => sum + list.length, 0),
    )
    expect(refused).toBeGreaterThan(others)
    for (const { name, list } of lists) {
      expect(list, name).not.toEqual([])
      // The codecs pad two values to one length, under one name.
      const names = list.flatMap(({ kind, name, pad, value }) =>
        name ? [JSON.stringify([kind, name, pad && value])] : [],
      )
      expect([name, names.filter((other, at) => names.indexOf(other) !== at)]).toEqual([name, []])
    }
  })
})

describe('docs/formats.sha256', () => {
  it('lists each spec and its vectors with their SHA-256, as `sha256sum` writes and checks it; -u writes it', async () => {
    const listed = specs.flatMap((path) => [path, path.replace(/\.md$/, '.vectors.json')]).sort()
    const sha256 = (path: string) =>
      createHash('sha256')
        .update(readFileSync(join(ROOT, path)))
        .digest('hex')
    const text = listed.map((path) => `${sha256(path)}  ${path}\n`).join('')
    await expect(text).toMatchFileSnapshot(join(ROOT, 'docs/formats.sha256'))
  })
})

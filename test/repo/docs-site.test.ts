// The site of `npm run docs`: every page is in it, every link leads somewhere, and everything that is exported is described.
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as audit from '../../packages/audit/src/index.js'
import * as backfill from '../../packages/cli/src/backfill.js'
import * as drizzle from '../../packages/drizzle/src/index.js'
import * as kysely from '../../packages/kysely/src/index.js'
import * as prisma from '../../packages/prisma/src/index.js'
import * as adapter from '../../packages/sdk/src/adapter.js'
import * as broker from '../../packages/sdk/src/broker.js'
import * as sdk from '../../packages/sdk/src/index.js'
import * as maintenance from '../../packages/sdk/src/maintenance.js'
import * as offline from '../../packages/sdk/src/offline.js'
import * as streams from '../../packages/sdk/src/streams.js'
import * as sync from '../../packages/sdk/src/sync.js'
import * as testing from '../../packages/sdk/src/testing.js'
import * as typeorm from '../../packages/typeorm/src/index.js'
import { PAGES } from '../support/sources/snippets.js'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

interface Page {
  source: string
  path: string
  markdown: string
}

/** Pages whose programs another test runs: first-steps.test.ts. */
const RUN_ELSEWHERE = ['packages/audit/README.md', 'packages/server/README.md']

let target: string
let pages: Page[] = []
let failure: unknown
beforeAll(async () => {
  target = mkdtempSync(join(tmpdir(), 'eaas-site-'))
  try {
    const { buildSite } = await import(pathToFileURL(join(ROOT, 'docs/site/build.mjs')).href)
    pages = buildSite(target)
  } catch (error) {
    // Thrown here, it would leave the tests below skipped.
    failure = error
  }
})
afterAll(() => rmSync(target, { recursive: true, force: true }))

const read = (path: string) => readFileSync(join(target, path), 'utf8')
const idsOf = (html: string) => [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)

describe('the site', () => {
  it('is made', () => {
    expect(failure).toBeUndefined()
  })

  it('has every page for users, and every specification', () => {
    const folders = [
      'docs',
      'packages/sdk/docs',
      'packages/cli/docs',
      'packages/server/docs',
      'packages/sdk/src',
      'packages/server/src',
    ]
    const markdown = [...folders, 'packages/protocol/src'].flatMap(filesBelow).filter((path) => path.endsWith('.md'))
    const expected = markdown.filter(
      (path) => !/\/src\/.*README\.md$/.test(path) && !path.startsWith('docs/performance/'),
    )
    expect(expected.length).toBeGreaterThan(20)
    expect(pages.map(({ source }) => source)).toEqual(expect.arrayContaining(expected))
  })

  it('names every page in its navigation, once', () => {
    const [, nav = ''] = read('index.html').split('<nav')
    const links = [...nav.matchAll(/href="([^"#]+)"/g)].map(([, href = '']) => href)
    expect(links.sort()).toEqual(
      pages
        .map(({ path }) => path)
        .filter((path) => path !== 'index.html')
        .sort(),
    )
  })

  it('has no link that leads nowhere, and no two anchors of one name on a page', () => {
    const dead: string[] = []
    let checked = 0
    for (const { path } of pages) {
      const html = read(path)
      expect(new Set(idsOf(html)).size, path).toBe(idsOf(html).length)
      for (const [, href = ''] of html.matchAll(/ (?:href|src)="([^"]+)"/g)) {
        if (/^https?:/.test(href)) continue
        const [file = '', anchor] = href.split('#')
        const linked = file === '' ? path : join(dirname(path), file)
        const isThere = existsSync(join(target, linked))
        if (!isThere || (anchor !== undefined && !idsOf(read(linked)).includes(anchor))) dead.push(`${path}: ${href}`)
        checked++
      }
    }
    expect(checked).toBeGreaterThan(1_000)
    expect(dead).toEqual([])
  })

  it('has no script, and loads nothing but its own style and images', () => {
    for (const { path } of pages)
      expect(read(path), path).not.toMatch(
        /<script|<img src="(?!(?:performance|images)\/)|<link(?! rel="stylesheet" href="[./]*style\.css")/,
      )
  })

  it('shows only TypeScript that a test compiles and runs', () => {
    const withPrograms = pages.filter(({ source, markdown }) => source.endsWith('.md') && /^```ts$/m.test(markdown))
    expect(withPrograms.length).toBeGreaterThan(5)
    expect(
      withPrograms
        .map(({ source }) => source)
        .filter((page) => !PAGES.includes(page))
        .sort(),
    ).toEqual(RUN_ELSEWHERE)
  })

  it.each([
    ['audit', audit],
    ['sdk', sdk],
    ['sdk-adapter', adapter],
    ['cli-backfill', backfill],
    ['sdk-broker', broker],
    ['sdk-maintenance', maintenance],
    ['drizzle', drizzle],
    ['kysely', kysely],
    ['sdk-offline', offline],
    ['prisma', prisma],
    ['sdk-streams', streams],
    ['sdk-sync', sync],
    ['sdk-testing', testing],
    ['typeorm', typeorm],
  ])('describes everything that an application can import: api/%s.html', (name, entry) => {
    const html = read(`api/${name}.html`)
    const exported = Object.keys(entry)
    expect(exported.length).toBeGreaterThan(0)
    expect(idsOf(html)).toEqual(expect.arrayContaining(exported.map((one) => one.toLowerCase())))
  })

  it('has a description of every function that an application can import', () => {
    for (const { source, markdown } of pages.filter(({ path }) => path.startsWith('api/'))) {
      const [functions = ''] = markdown.split('\n## Functions\n').slice(1)
      for (const section of functions.split(/^## /m)[0]?.split(/^### /m).slice(1) ?? []) {
        const text = section
          .replaceAll(/^```.*?^```$|<pre.*?<\/pre>/gms, '')
          .split('\n')
          .slice(1)
          .join('')
          .trim()
        expect(text, `${source}: ${section.split('\n')[0]}`).not.toBe('')
      }
    }
  })

  it('links to each method, and from a signature to the types that it names', () => {
    const html = read('api/sdk.html')
    expect(idsOf(html)).toContain('keys-rotate')
    expect(idsOf(html)).toContain('client-health') // of an interface without an entry, which Client extends
    expect(html).toMatch(/<pre class="signature">[^\n]*createMany\(.*<a href="#createdkeys">CreatedKeys<\/a>/)
    // A type that another entry describes.
    expect(read('api/sdk-streams.html')).toMatch(/<pre class="signature">.*<a href="sdk\.html#/s)
  })

  it('opens only the section of the page in its navigation', () => {
    for (const { path } of pages) {
      const opened = [...read(path).matchAll(/<details open>.*?<\/details>/gs)].map(([section]) => section)
      expect(opened, path).toHaveLength(1)
      expect(opened[0], path).toContain('aria-current="page"')
    }
  })
})

describe('npm run docs', () => {
  /** Runs it on a project of one page and one entry. */
  function run({ page = '# Page', source = '/** Does it. */\nexport function f(): void {}' }) {
    const root = mkdtempSync(join(tmpdir(), 'eaas-docs-'))
    try {
      const folder = join(root, 'docs/site')
      mkdirSync(join(folder, 'dist'), { recursive: true })
      for (const name of readdirSync(join(ROOT, 'docs/site'), { withFileTypes: true }))
        if (name.isFile()) copyFileSync(join(ROOT, 'docs/site', name.name), join(folder, name.name))
      symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
      const files = {
        'README.md': page,
        'index.ts': source,
        'tsconfig.json': '{ "compilerOptions": { "module": "esnext", "noLib": true } }',
        'docs/site/dist/before.html': '',
        'docs/site/pages.mjs': `
          export const API_ENTRIES = [{ name: '@eaas/sdk', source: 'index.ts' }]
          export const listSections = () => [{ title: 'Start', pages: ['README.md'] }]`,
      }
      for (const [name, text] of Object.entries(files)) writeFileSync(join(root, name), text)
      const { status, stderr } = spawnSync(process.execPath, [join(folder, 'build.mjs')], { encoding: 'utf8' })
      const folders = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
      return {
        status,
        stderr,
        folders: folders.map(({ name }) => name),
        dist: readdirSync(join(folder, 'dist')).sort(),
      }
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  }

  it('replaces the site that was there', () => {
    const made = { status: 0, stderr: '', folders: ['dist'], dist: ['api', 'index.html', 'style.css'] }
    expect(run({ page: '# Page\n\n[itself](README.md#page)' })).toEqual(made)
  })

  it('names a broken link without a stack trace, and leaves the site that was there', () => {
    expect(run({ page: '# Page\n\n[gone](gone.md)' })).toEqual({
      status: 1,
      stderr: 'links that lead nowhere:\nREADME.md: gone.md\n',
      folders: ['dist'],
      dist: ['before.html'],
    })
  })

  it('refuses a type that a public function or method names and its package does not export', () => {
    const source = `
      interface Age { days: number }
      interface Unused { days: number }
      export interface Keys<T> { age(of: T): Promise<Age> }
      export function f(age: Age): number { const unused: Unused = age; return unused.days }`
    const to = 'names the type Age, which @eaas/sdk does not export: export it from index.ts'
    expect(run({ source })).toMatchObject({ status: 1, stderr: `f ${to}\nKeys.age ${to}\n` })
  })
})

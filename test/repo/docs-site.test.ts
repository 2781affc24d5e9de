// The site of `npm run docs`: every page is in it, every link leads somewhere, and everything that is exported is described.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as backfill from '../../packages/sdk/src/backfill.js'
import * as broker from '../../packages/sdk/src/broker.js'
import * as drizzle from '../../packages/sdk/src/drizzle.js'
import * as sdk from '../../packages/sdk/src/index.js'
import * as kysely from '../../packages/sdk/src/kysely.js'
import * as offline from '../../packages/sdk/src/offline.js'
import * as prisma from '../../packages/sdk/src/prisma.js'
import * as streams from '../../packages/sdk/src/streams.js'
import * as sync from '../../packages/sdk/src/sync.js'
import * as testing from '../../packages/sdk/src/testing.js'
import * as typeorm from '../../packages/sdk/src/typeorm.js'
import { PAGES } from '../support/snippets.js'
import { filesBelow, ROOT } from '../support/source-files.js'

interface Page {
  source: string
  path: string
  markdown: string
}

/** A page whose program another test runs: first-steps.test.ts. */
const RUN_ELSEWHERE = 'packages/server/README.md'

let target: string
let pages: Page[]
beforeAll(async () => {
  target = mkdtempSync(join(tmpdir(), 'eaas-site-'))
  const { buildSite } = await import(pathToFileURL(join(ROOT, 'docs/site/build.mjs')).href)
  pages = buildSite(target)
}, 60_000)
afterAll(() => rmSync(target, { recursive: true, force: true }))

const read = (path: string) => readFileSync(join(target, path), 'utf8')
const idsOf = (html: string) => [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)

describe('the site', () => {
  it('has every page for users, and every specification', () => {
    const folders = ['docs', 'packages/sdk/docs', 'packages/server/docs', 'packages/sdk/src', 'packages/server/src']
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
        /<script|<img src="(?!performance\/)|<link(?! rel="stylesheet" href="[./]*style\.css")/,
      )
  })

  it('shows only TypeScript that a test compiles and runs', () => {
    const withPrograms = pages.filter(({ source, markdown }) => source.endsWith('.md') && /^```ts$/m.test(markdown))
    expect(withPrograms.length).toBeGreaterThan(5)
    expect(withPrograms.map(({ source }) => source).filter((page) => !PAGES.includes(page))).toEqual([RUN_ELSEWHERE])
  })

  it.each([
    ['sdk', sdk],
    ['sdk-backfill', backfill],
    ['sdk-broker', broker],
    ['sdk-drizzle', drizzle],
    ['sdk-kysely', kysely],
    ['sdk-offline', offline],
    ['sdk-prisma', prisma],
    ['sdk-streams', streams],
    ['sdk-sync', sync],
    ['sdk-testing', testing],
    ['sdk-typeorm', typeorm],
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
          .replaceAll(/^```.*?^```$/gms, '')
          .split('\n')
          .slice(1)
          .join('')
          .trim()
        expect(text, `${source}: ${section.split('\n')[0]}`).not.toBe('')
      }
    }
  })
})

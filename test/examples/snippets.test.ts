// Every TypeScript snippet of the pages for users compiles, and runs against the service in memory if that answers its calls. The
// examples in the comments of the sources compile.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { compilePrograms, ON_DATABASES, PAGES, programOf, readPage } from '../support/sources/snippets.js'
import { findExamples } from './docstring-examples.js'
import { runPage } from './run-page.js'
import { createPrelude } from './snippet-prelude.js'

const prelude = fileURLToPath(new URL('./snippet-prelude.js', import.meta.url))
/** Pages that must fail, each by one mistake on its line 3. */
const MISTAKES = {
  'a wrong type': 'Text\n```ts\nawait eaas.encrypt(1, { keyId })\n```\n',
  'a name that nobody declared': 'Text\n```ts\nawait eaas.decryptText(envelope)\n```\n',
}

const examples = findExamples()

let dir: GuardedDir
let errors: Map<string, string[]>
beforeAll(async () => {
  dir = guardedDir('eaas-test-snippets')
  const pages = new Map([...PAGES.map((page) => [page, readPage(page)] as const), ...Object.entries(MISTAKES)])
  const programs = new Map([...pages].map(([page, markdown]) => [page, programOf(markdown)]))
  for (const [path, { program }] of examples) programs.set(path, program)
  const { globals } = await createPrelude(createTestService())
  errors = await compilePrograms(programs, prelude, Object.keys(globals))
}, 120_000)
afterAll(() => dir.remove())

/** What the service in memory leaves to a real one: pages with it run in snippets.db.test.ts alone. */
const LEFT_OUT = /\b(apiKeys|audit)\.|\.usage\(/

describe.each(PAGES)('%s', (page) => {
  it('has TypeScript that compiles', () => {
    expect(errors.get(page)).toEqual([])
  })

  const isLeftOut = ON_DATABASES.includes(page) || LEFT_OUT.test(programOf(readPage(page)))
  it.skipIf(isLeftOut)('has TypeScript that runs', () => run(readPage(page)))
})

describe('the examples in the comments', () => {
  it('are there, and are code', () => {
    expect(examples.size).toBeGreaterThanOrEqual(9)
    for (const [path, { marked, blocks }] of examples) expect([path, blocks]).toEqual([path, marked])
  })

  it.each([...examples.keys()])('compile: %s', (path) => {
    expect(errors.get(path)).toEqual([])
  })
})

describe('the pages', () => {
  it('have snippets where a reader looks for them', () => {
    const guides = PAGES.filter((page) => !page.startsWith('docs/coming-from/')) // comparisons
    const lacking = guides.filter((page) => programOf(readPage(page)) === '')
    // test/slow/page-apps.test.ts runs the applications, test/cli/leaving.test.ts the commands.
    expect(lacking).toEqual([
      'packages/sdk/docs/full-stack.md',
      'packages/sdk/docs/servers.md',
      'packages/cli/docs/leaving.md',
    ])
  })

  it.each(Object.keys(MISTAKES))('do not compile with %s, and are told the line', (mistake) => {
    expect(errors.get(mistake)).toEqual([expect.stringMatching(new RegExp(`^${mistake}:3: `))])
  })

  it('share what they declare, and may declare it anew', async () => {
    const blocks = ['const a: number = 1', 'const b: number = a + 1', "const a = 'x'\nconsole.log(a, b) // → x 2"]
    await run(blocks.map((code) => `\`\`\`ts\n${code}\n\`\`\`\n`).join('Text\n'))
  })

  it('fail where something is printed that they do not promise, or something is thrown', async () => {
    const printing = '```ts\nconst n: number = 1\nconsole.log({ n }) // → { n: 2 }\n```\n'
    await expect(run(printing)).rejects.toThrow('promises { n: 2 }, and { n: 1 } is printed')
    await expect(run("```ts\nthrow new Error('on purpose')\n```\n")).rejects.toThrow('on purpose')
  })
})

function run(markdown: string): Promise<void> {
  return runPage(markdown, createTestService({ envelopeOnly: false }), dir.path)
}

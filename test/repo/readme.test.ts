// The documents that a newcomer reads: their links lead somewhere. What their snippets do is in snippets.test.ts.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { filesBelow } from '../support/sources/source-files.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folders = [
  '.',
  'docs',
  'docs/coming-from',
  'packages/audit',
  'packages/audit/docs',
  'packages/cli',
  'packages/conformance',
  'packages/cli/docs',
  'packages/sdk',
  'packages/drizzle',
  'packages/kysely',
  'packages/prisma',
  'packages/typeorm',
  'packages/sdk/docs',
  'packages/server',
  'packages/server/docs',
  ...readdirSync(join(root, 'examples')).map((name) => `examples/${name}`),
]
const documents = folders.flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md') // it grows with each release, whose part has at most a page
    .map((name) => join(folder, name)),
)

describe('README.md', () => {
  it('names only scripts that package.json has', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    for (const name of ['README.md', 'CONTRIBUTING.md']) {
      for (const [, script = ''] of read(name).matchAll(/npm run ([\w:-]+)/g)) expect(scripts).toHaveProperty([script])
    }
  })
})

describe('the first screen of README.md', () => {
  const [screen = ''] = read('README.md').split(/^## /m)

  it('has at most 150 words', () => {
    expect(countWords(screen)).toBeLessThanOrEqual(150)
  })

  it('shows lines of the program of @eaas/drizzle, which runs', () => {
    const lines = /^```js\n(.*?)^```$/ms.exec(screen)?.[1]?.trimEnd().split('\n') ?? []
    const program = read('packages/drizzle/README.md').split('\n')
    expect(lines.length).toBeGreaterThan(3)
    expect(lines.map((line) => line.replace(/ \/\/ .*$/, '')).filter((line) => !program.includes(line))).toEqual([])
  })
})

describe('docs/README.md', () => {
  it('lists every page', () => {
    const linked = [...read('docs/README.md').matchAll(/\]\(([^)#]+)/g)].map(([, target = '']) => join('docs', target))
    expect(
      documents.filter((document) => !linked.includes(document) && !['README.md', 'docs/README.md'].includes(document)),
    ).toEqual([])
  })
})

describe('the pages', () => {
  it('have at most 88,000 words together', () => {
    expect(
      documents.map((document) => countWords(read(document))).reduce((sum, count) => sum + count),
    ).toBeLessThanOrEqual(88_000)
  })
})

describe.each(documents.filter((document) => document.startsWith('docs/coming-from/')))('%s', (document) => {
  it('says what is missing here, and when its sources were read, and uses each of them', () => {
    const headings = [...read(document).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
    expect(headings).toEqual(
      expect.arrayContaining(['Alike', 'Better here', 'Missing here', 'Move the data', 'Sources']),
    )
    expect(read(document)).toMatch(/^## Sources\n\n(?:.+\n)*?.*\b\d{4}-\d\d-\d\d\b/m)
    const sources = [...read(document).matchAll(/^\[(\w+)\]: https:/gm)].map(([, name]) => name)
    const cited = [...read(document).matchAll(/\]\[(\w+)\]/g)].map(([, name]) => name)
    expect([...new Set(cited)].sort()).toEqual(sources.sort())
  })
})

describe('CONTRIBUTING.md', () => {
  it('names only tests that there are', () => {
    const named = [...read('CONTRIBUTING.md').matchAll(/(\S+\.test\.ts).* -t (?:'([^']+)'|(\w+))/g)]
    expect(named.length).toBeGreaterThan(1)
    for (const [, file = '', quoted, word = ''] of named) {
      const titles = [...read(file).matchAll(/\b(?:it|describe)\S*\(\s*'([^']+)'/g)].map(([, title]) => title)
      expect([file, titles]).toEqual([file, expect.arrayContaining([expect.stringContaining(quoted ?? word)])])
    }
  })
})

describe('every text of the project', () => {
  it('runs the server by npx under the name of its package: the bare name is a stranger in the registry', () => {
    const sources = ['packages', 'examples', 'test']
      .flatMap(filesBelow)
      .filter((path) => /\.(ts|mjs|json|md)$/.test(path))
    expect(sources.length).toBeGreaterThan(300)
    const bare = /\bnpx (?:-y |--yes |--no-install )*eaas\b|\bnpm (?:exec|x) (?:-- )?eaas\b/
    expect([...documents, ...sources].filter((path) => bare.test(read(path)))).toEqual([])
    for (const text of ['npx', 'npx -y', 'npm exec']) expect(`${text} eaas start`).toMatch(bare)
    expect('npx @eaas/server start, or npx -p @eaas/server eaas start').not.toMatch(bare)
  })

  it('has no password of a database in a command, where the history of a shell keeps it', () => {
    const password = /postgres(?:ql)?:\/\/\S*@/
    const commands = documents.flatMap((document) =>
      [...read(document).matchAll(/^```sh\n(.*?)^```/gms)].map(([, text = '']) => ({ document, text })),
    )
    expect(commands.length).toBeGreaterThan(20)
    expect(commands.filter(({ text }) => password.test(text))).toEqual([])
    expect('export EAAS_DATABASE_URL=postgres://user:password@localhost:5432/eaas').toMatch(password)
  })

  it('can run it so: the package has one command, which npx then takes', () => {
    const { bin } = JSON.parse(read('packages/server/package.json')) as { bin: Record<string, string> }
    expect(Object.keys(bin)).toEqual(['eaas'])
  })
})

describe.each(documents)('%s', (document) => {
  it('has paragraphs, points and cells of at most 90 words', () => {
    const text = read(document).replaceAll(/^ *```.*?^ *```$/gms, '')
    const parts = text.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#)|\n\||\s\|\s/)
    expect(parts.filter((part) => countWords(part) > 90)).toEqual([])
  })

  it('has no link that leads nowhere', () => {
    const links = [...read(document).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
    expect(links.filter((link) => !/^https?:/.test(link) && !leadsSomewhere(document, link))).toEqual([])
  })
})

function countWords(text: string): number {
  return text.trim().split(/\s+/).length
}

function leadsSomewhere(document: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? document : join(dirname(document), path)
  return existsSync(join(root, target)) && (anchor === undefined || anchorsOf(read(target)).includes(anchor))
}

/** The headings of a page as links name them: in lower case, without punctuation, with a dash for each blank. */
function anchorsOf(markdown: string): string[] {
  const headings = markdown.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

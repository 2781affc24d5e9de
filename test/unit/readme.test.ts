// The documents that a newcomer reads: their links lead somewhere. What their snippets do is in snippets.test.ts.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folders = [
  '.',
  'docs',
  'packages/sdk',
  'packages/sdk/docs',
  'packages/server',
  'packages/server/docs',
  ...readdirSync(join(root, 'examples')).map((name) => `examples/${name}`),
]
const documents = folders.flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
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

describe.each(documents)('%s', (document) => {
  it('has no link that leads nowhere', () => {
    const links = [...read(document).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
    expect(links.filter((link) => !/^https?:/.test(link) && !leadsSomewhere(document, link))).toEqual([])
  })
})

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

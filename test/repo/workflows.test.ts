// The workflows of .github: they run pinned actions, the project's own scripts, and every version of Node that we support.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, PUBLISHED } from '../support/platforms/packed-sdk.js'
import { ROOT } from '../support/sources/source-files.js'

const FOLDER = '.github/workflows'
const workflows = readdirSync(join(ROOT, FOLDER)).filter((name) => name.endsWith('.yml'))
const read = (name: string) => readFileSync(join(ROOT, FOLDER, name), 'utf8')
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
  engines: { node: string }
}

/** What a workflow uses that is not of this repository and not pinned by the SHA of a commit, with its version beside it. */
function unpinned(text: string): string[] {
  const uses = [...text.matchAll(/^\s*(?:- )?uses: (.*)$/gm)].map(([, used = '']) => used)
  return uses.filter((used) => !used.startsWith('./') && !/^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(used))
}

describe.each(workflows)('%s', (name) => {
  it('pins each action by the SHA of a commit', () => {
    expect(read(name)).toContain('uses: ')
    expect(unpinned(read(name))).toEqual([])
  })

  it('begins with no permission but to read', () => {
    expect(read(name)).toMatch(/^permissions:\n {2}contents: read\n\n/m)
  })

  it('runs only scripts that package.json has', () => {
    const scripts = [...read(name).matchAll(/npm run ([\w:-]+)/g)].map(([, script]) => script)
    expect(scripts.filter((script) => script === undefined || !(script in manifest.scripts))).toEqual([])
  })
})

describe('the workflows', () => {
  it('would not pass with an action by its tag or its branch', () => {
    const sha = 'a'.repeat(40)
    expect(unpinned(`- uses: a/b@v4\n  uses: a/b@main\n- uses: a/b@${sha}\n- uses: a/b@${sha} # v1.2.3`)).toHaveLength(
      3,
    )
  })

  it('test each line of Node that engines allows, and the least version of 20', () => {
    const lines = [...manifest.engines.node.matchAll(/(?:\^|>=)(\d+)\.(\d+)\.0/g)]
    const tested = lines.map(([, major, minor]) => `'${major === '20' ? `20.${minor}` : major}'`)
    expect(tested).toHaveLength(4)
    expect(read('test.yml')).toContain(`node: [${tested.join(', ')}]`)
  })

  it('release only what the tests passed', () => {
    expect(read('release.yml')).toContain('uses: ./.github/workflows/test.yml')
    expect(read('release.yml')).toContain('needs: test')
  })

  it('release a list of what each package brings, but for the adapters, which bring nothing', () => {
    const listed = [...read('release.yml').matchAll(/ -w (@eaas\/\w+)/g)].map(([, name]) => name)
    expect(listed.sort()).toEqual(PUBLISHED.filter((name) => !(ADAPTERS as readonly string[]).includes(name)).sort())
  })
})

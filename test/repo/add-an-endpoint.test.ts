// The protocol's README walks through the files of one endpoint: they are all files that name it, and at most seven.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesBelow } from '../support/sources/source-files.js'

const MOST_FILES = 7
const README = 'packages/protocol/README.md'
const ENDPOINT = 'setRotation'

const section = /## To add an endpoint\n([\s\S]*)$/.exec(readFileSync(README, 'utf8'))?.[1] ?? ''
const [, steps = '', more = ''] = /^([\s\S]*?)\n\nThe OpenAPI document follows([\s\S]*)$/.exec(section) ?? []
const linked = (text: string) =>
  [...text.matchAll(/\]\(([^)]+\.ts)\)/g)].map(([, path = '']) => join(dirname(README), path))

describe('the walk through an endpoint', () => {
  it(`takes at most ${MOST_FILES} files, one for each step`, () => {
    expect(steps.match(/^\d+\. /gm)).toHaveLength(linked(steps).length)
    expect(linked(steps).length).toBeLessThanOrEqual(MOST_FILES)
  })

  it('names every source file that names the endpoint, and of those of a new audit action no other', () => {
    const naming = [...filesBelow('packages'), ...filesBelow('test/support')]
      .filter((path) => /\.(?:ts|json)$/.test(path) && !/\.test\.ts$|^packages\/conformance\/src\/cases\//.test(path))
      .filter((path) => withoutComments(readFileSync(path, 'utf8')).includes(ENDPOINT))
    const ofActions = linked(more).filter((path) => naming.includes(path))
    expect(naming.sort()).toEqual([...linked(steps), ...ofActions].sort())
    expect(ofActions.map((path) => path.replace(/.*\//, ''))).toEqual(['recorded-permissions.ts', 'rights-history.ts'])
  })
})

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
}

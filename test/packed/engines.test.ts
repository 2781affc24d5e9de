// What an application installs with a package of ours runs on the Node that the package names: under `engine-strict` npm
// refuses it otherwise, and elsewhere it only warns.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../support/sources/source-files.js'

/** The oldest that we support, `engines` of each manifest. */
const NODE_MAJOR = 20

interface Locked {
  version: string
  dependencies?: Record<string, string>
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
    installedWith(path, seen)
  }
  return seen
}

/** Ranges as packages write them: `>=18`, `20 || >=22`, `^20.19.0 || >=22.12.0`. */
function isTakenBy(range: string): boolean {
  return range.split('||').some((part) => Number(/\d+/.exec(part)?.[0]) <= NODE_MAJOR)
}

describe.each(['packages/audit', 'packages/server', 'packages/sdk', 'packages/cli', 'packages/conformance'])(
  'all that is installed with %s',
  (home) => {
    it(`runs on Node ${NODE_MAJOR}`, () => {
      const paths = [...installedWith(home)]
      expect(paths.length).toBeGreaterThan(1)
      const others = paths.filter((path) => !isTakenBy(packages[path]?.engines?.node ?? '>=0'))
      expect(others.map((path) => `${path} ${packages[path]?.version} needs ${packages[path]?.engines?.node}`)).toEqual(
        [],
      )
    })
  },
)

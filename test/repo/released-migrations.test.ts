// The migrations of a release never change: databases have run them. A change of the schema is another file, with a later number.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { DIGESTS, digestMigrations, RELEASED } from '../support/database/migrations.js'
import { ROOT } from '../support/sources/source-files.js'

const releases = readdirSync(RELEASED).sort()

it.each(releases)('the migrations of %s are as they were, and others come after them', (release) => {
  const then = readFileSync(join(RELEASED, release, DIGESTS), 'utf8')
  expect(digestMigrations().slice(0, then.length)).toBe(then)
})

it('each release of the server left its state, on both back ends', () => {
  const changelog = readFileSync(join(ROOT, 'packages/server/CHANGELOG.md'), 'utf8')
  const versions = [...changelog.matchAll(/^## (\d+\.\d+\.\d+)$/gm)].map(([, version]) => version)
  expect(versions.length).toBeGreaterThan(0)
  expect(releases).toEqual(versions.sort())
  for (const release of releases) {
    expect(readdirSync(join(RELEASED, release)).sort()).toEqual(['embedded', DIGESTS, 'postgres'])
  }
})

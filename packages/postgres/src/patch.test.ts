// The changes to the database driver: each says why it is there and names a test that exists, and a driver that it does not fit is refused.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../../test/support/sources/source-files.js'
import { patchPostgres } from './patch.js'

const FOLDER = join(ROOT, 'packages/postgres/patches')
const CONNECTION = join(ROOT, 'node_modules/postgres/src/connection.js')
const driver = readFileSync(CONNECTION, 'utf8')

/** No test provokes it: the head says why. */
const UNTESTED = ['02-unsent-bytes.diff']

describe.each(readdirSync(FOLDER))('the change %s', (name) => {
  const [head = ''] = readFileSync(join(FOLDER, name), 'utf8').split(/^--- a\//m)

  it('says whether upstream knows it', () => {
    expect(head).toMatch(/^Upstream: (none known|.*\d{3})/m)
  })

  it.skipIf(UNTESTED.includes(name))('names the test that is red without it', () => {
    const [, file = '', title = ''] = /^Red without it: (\S+),\s+"(.+)"$/m.exec(head) ?? []
    expect(readFileSync(join(ROOT, file), 'utf8')).toContain(`'${title}'`)
  })
})

describe('the driver', () => {
  it('is the release that the changes were written for', () => {
    expect(patchPostgres(driver, CONNECTION)).not.toBe(driver)
  })

  it.each([
    ['lacks a line that a change names', driver.replace('clearImmediate(nextWriteTimer)', '')],
    ['has such lines twice', driver + driver],
    ['was changed already', patchPostgres(driver, CONNECTION)],
  ])('is refused where it %s', (_, other) => {
    expect(() => patchPostgres(other, CONNECTION)).toThrow(/^patches\/\d\d-\S+\.diff does not fit this release/)
  })
})

// The tiers of the tests: each file has one, and `npm test` holds every promise. promises.json says which test holds which.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROUTES } from '../../packages/protocol/src/routes.js'
import { ROOT } from '../support/sources/source-files.js'
import { hasTest } from '../support/sources/test-titles.js'
import { FIRST_ON_DATABASE, isNamed, isOnDatabase, LATER, listTests, SHARDS, SLOW, tierOf } from '../tiers.mjs'

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
/** The suite that runs the cases of the conformance kit against our server. */
const RUNS_CASES = 'test/api/conformance.test.ts'
/** The titles of tests by their files, for each promise of SECURITY.md and for each call, status and rule of the API. */
const promises: Record<'SECURITY.md' | 'API', Record<string, Record<string, string[]>>> = JSON.parse(
  read('test/repo/promises.json'),
)
const tests = listTests()

describe('a test file', () => {
  it('has one tier: the lists name files that exist, and none of them twice', () => {
    const named = [...SLOW, ...FIRST_ON_DATABASE, ...LATER]
    expect(named.filter((path) => !tests.some((file) => isNamed([path], file)))).toEqual([])
    expect(tests.filter((file) => named.filter((path) => isNamed([path], file)).length > 1)).toEqual([])
    expect(FIRST_ON_DATABASE.filter((file) => !isOnDatabase(file) || tierOf(file) !== 'test')).toEqual([])
    expect(new Set(tests.map(tierOf))).toEqual(new Set(['test', 'test:all', 'test:slow']))
  })

  it('is in one shard, unless only `npm run test:slow` runs it', () => {
    const shardsOf = (file: string) => Object.values(SHARDS).filter((paths) => isNamed(paths, file)).length
    const others = tests.filter((file) => shardsOf(file) !== (file.startsWith('test/slow/') ? 0 : 1))
    expect(others).toEqual([])
  })
})

describe('a promise', () => {
  it('of SECURITY.md is each on the list', () => {
    const [, guarantees = ''] = /## What is guaranteed\n([\s\S]*?)\n## /.exec(read('SECURITY.md')) ?? []
    const bullets = guarantees.split(/^- /m).slice(1)
    const listed = Object.keys(promises['SECURITY.md'])
    expect(bullets.map((bullet) => listed.filter((start) => bullet.startsWith(start)).length)).toEqual(
      listed.map(() => 1),
    )
  })

  it('of the API has each call and each status of a refusal', () => {
    const statuses = [400, 401, 403, 404, 409, 413, 415, 422, 429, 500].map((status) => `status ${status}`)
    const rows = [...Object.keys(ROUTES), 'GET /metrics', 'GET /openapi.json', 'GET /docs', ...statuses]
    expect(rows.filter((row) => !Object.hasOwn(promises.API, row))).toEqual([])
  })

  it('is held by tests that `npm test` runs', () => {
    const all = Object.values(promises).flatMap((part) => Object.entries(part))
    const titles = all.flatMap(([promise, files]) =>
      Object.entries(files).flatMap(([path, names]) => names.map((title) => ({ promise, path, title }))),
    )
    expect(
      titles.filter(({ path, title }) => tierOf(runnerOf(path)) !== 'test' || !hasTest(read(path), title)),
    ).toEqual([])
    expect(all.filter(([promise]) => !titles.some((one) => one.promise === promise))).toEqual([])
  })
})

/** Returns the suite that runs the tests of a file: its own, unless it has cases of the conformance kit. */
function runnerOf(path: string): string {
  return path.startsWith('packages/conformance/src/cases/') ? RUNS_CASES : path
}

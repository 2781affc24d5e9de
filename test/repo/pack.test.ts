// `npm run pack`: what it says when it packs nothing. test/packed/first-steps.test.ts installs what it packs.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BUILT } from '../built.mjs'

let folder: string
/** The repository without the builds. */
let repository: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-pack-'))
  repository = join(folder, 'repository')
  for (const path of ['.changeset/pack.mjs', 'test/built.mjs', ...BUILT.map((path) => `${path}/package.json`)])
    cpSync(path, join(repository, path))
  writeFileSync(join(folder, 'file'), '')
})
afterAll(() => rmSync(folder, { recursive: true }))

it.each([
  [['--help'], 0, '', 'npm run pack -- FOLDER'],
  [[], 2, '', 'npm run pack -- FOLDER'],
  [['one', 'two'], 2, '', 'npm run pack -- FOLDER'],
  [['file'], 2, 'file is a file; give the folder of an application\n', ''],
  [['my app'], 1, 'The build is missing or older than the sources. Run: npm run build\n', ''],
])('packs nothing for %j, and makes no folder', (args, code, errors, shown) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [join(repository, '.changeset/pack.mjs'), ...args], {
    cwd: folder,
    env: { ...process.env, INIT_CWD: folder },
    encoding: 'utf8',
  })
  expect([status, stderr, stdout.split('\n')[0]]).toEqual([code, errors, shown])
  expect(existsSync(join(folder, 'my app'))).toBe(false)
})

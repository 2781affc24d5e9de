// What `backfill` and `inspect-table` refuse before they reach a database. test/cli/tables.test.ts has them work on one.
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { openState } from './backfill-state.js'
import type { Io } from './io.js'
import { runCommand, useFolder } from './test-support/command.js'

const URL = 'postgres://app:hidden@127.0.0.1:1/app'

const folder = useFolder('eaas-cli-backfill')
beforeEach(() => {
  writeFileSync(join(folder, 'model.mjs'), 'export default () => ({})\nexport const users = {}\n')
  writeFileSync(join(folder, 'broken.mjs'), 'import "./none.mjs"\n')
})

const command = (argv: string[], env: Record<string, string> = {}) =>
  runCommand(argv, { env: { DATABASE_URL: URL, EAAS_API_KEY: 'key', ...env }, folder })

describe.each(['backfill', 'inspect-table'])('%s', (name) => {
  it.each([
    [['--table', 't'], "missing required argument 'module'"],
    [['model.mjs'], '--table is missing'],
    [['none.mjs', '--table', 't'], 'none.mjs: it does not exist'],
    [['model.mjs', '--table', 't', '--export', 'toString'], 'no export "toString". It has: "default", "users"'],
    [['model.mjs', '--table', 't', '--batch-size', '0'], '--batch-size must be a whole number'],
    [['model.mjs', '--table', 't', '--rows-per-second', '1e3'], '--rows-per-second must be a whole number'],
    [['model.mjs', '--table', 't', '--column', 'email'], '--column takes name=value'],
    [['model.mjs', '--table', 't', '--driver', 'mysql'], 'Allowed choices are pg, postgres.'],
    [['model.mjs', '--table', 't'], 'no driver of PostgreSQL: run npm install pg'], // beside the module there is none
    [['model.mjs', '--table', 't', '--work', 'seal', '--dry-run', '--open', '--state', 's'], "unknown option '--"],
  ])('exits with 2 and says what is wrong: %j', async (argv, message) => {
    expect(await command([name, ...argv])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it('takes the database from the environment alone, and shows no part of a URL', async () => {
    expect(await command([name, 'model.mjs', '--table', 't'], { DATABASE_URL: '' })).toMatchObject({
      code: 2,
      err: expect.stringContaining('set DATABASE_URL'),
    })
    for (const argv of [[URL], ['--database-url', URL], [`--database-url=${URL}`]]) {
      const { code, err } = await command([name, 'model.mjs', '--table', 't', ...argv])
      expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('use DATABASE_URL') })
      expect(err).not.toMatch(/hidden|127/)
    }
  })

  it('shows what a driver says of a connection, without the password', async () => {
    const home = `${name}-home` // of its own: Node.js remembers where it found a package
    const pg = join(folder, home, 'node_modules/pg')
    mkdirSync(pg, { recursive: true })
    writeFileSync(join(folder, home, 'model.mjs'), 'export default () => ({})')
    writeFileSync(
      join(pg, 'index.js'),
      'exports.Pool = class { constructor({ connectionString: url }) { throw new Error(url + " or " + decodeURIComponent(new URL(url).password)) } }',
    )
    const env = { DATABASE_URL: 'postgres://app:hid%2Fden@127.0.0.1:1/app' }
    expect(await command([name, `${home}/model.mjs`, '--table', 't'], env)).toMatchObject({
      code: 1,
      err: 'eaas-cli: no connection to the database of DATABASE_URL: *** or ***\n',
    })
  })

  it('shows the error of a module that does not load', async () => {
    const { code, err } = await command([name, 'broken.mjs', '--table', 't'])
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringMatching(/none\.mjs/) })
  })
})

describe('backfill', () => {
  it('does no work that it does not know', async () => {
    const { code, err } = await command(['backfill', 'model.mjs', '--table', 't', '--work', 'steal'])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('seal, index, rewrap, reseal') })
  })

  it.each([
    [['--kit', 'kit'], '--kit is for --work open and check'],
    [['--kit', 'kit', '--work', 'reseal'], '--kit is for --work open and check'],
    [['--kit', 'kit', '--work', 'open', '--export', 'users'], '--kit is for a function'],
    [['--kit', 'none', '--work', 'open'], 'none: it does not exist'],
    [['--work', 'open', '--create-key', '--key', 'k'], 'leave out --create-key'],
    [['--work', 'check', '--create-key', '--key', 'k'], 'leave out --create-key'],
    [['--work', 'open', '--constrain'], '--work open seals nothing: leave out --constrain'],
    [['--create-key'], '--create-key needs --key'],
    [['--plan', '--work', 'index'], '--plan prints each step with its command: leave out --work'],
    [['--plan', '--dry-run'], 'leave out --dry-run'],
    [['--plan', '--state', 's'], 'leave out --state'],
    [['--plan', '--constrain'], 'leave out --constrain'],
    [['--plan', '--kit', 'kit'], 'leave out --kit'],
  ])('exits with 2 and says what does not belong together: %j', async (argv, message) => {
    const pg = join(folder, 'node_modules/pg')
    mkdirSync(pg, { recursive: true })
    const answers = 'exports.Pool = class { on() {} async query() { return { rows: [{ r: "1" }] } } async end() {} }'
    writeFileSync(join(pg, 'index.js'), answers)
    const { code, err } = await command(['backfill', 'model.mjs', '--table', 't', ...argv])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it('keeps no state of a dry run', async () => {
    const { code, err } = await command(['backfill', 'model.mjs', '--table', 't', '--dry-run', '--state', 's'])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('leave out --state') })
  })
})

describe('the state of a backfill', () => {
  const run = { table: 't' }
  const stand = { after: '["7"]', done: { rows: 7, changed: 7, current: 0, failed: 0, gone: 0 } }
  const open = () => openState({ folder } as Io, 'state', run)

  it('is written through no symbolic link that somebody put beside it', async () => {
    const other = join(folder, 'other')
    writeFileSync(other, 'of somebody else')
    symlinkSync(other, join(folder, 'state.new'))
    const state = await open()
    await state.save(stand)
    await state.save({ ...stand, after: '["8"]' })
    expect(readFileSync(other, 'utf8')).toBe('of somebody else')
    expect(statSync(join(folder, 'state')).mode & 0o777).toBe(0o600)
    expect((await open()).found).toEqual({ ...stand, after: '["8"]' })
  })

  it('leaves no other file behind', async () => {
    const before = readdirSync(folder)
    const state = await open()
    await state.save(stand)
    expect(readdirSync(folder).sort()).toEqual([...before, 'state'].sort())
    await state.clear()
    expect(readdirSync(folder)).toEqual(before)
  })
})

// A disk that is full: each command names the file that it could not write and says what to do, and leaves no part of it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { openState } from './backfill-state.js'
import type { Io } from './io.js'
import { useFiles } from './test-support/command.js'

/** The system call that fails, after this many that do not. */
const full = vi.hoisted(() => ({ at: '', after: 0 }))

function noSpace(syscall: string): Error {
  const message = `ENOSPC: no space left on device, ${syscall}`
  return Object.assign(new Error(message), { code: 'ENOSPC', syscall })
}

vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>()
  const failing =
    <A extends unknown[], R>(syscall: string, call: (...args: A) => Promise<R>) =>
    async (...args: A) => {
      if (full.at === syscall && full.after-- <= 0) throw noSpace(syscall)
      return call(...args)
    }
  const open = async (...args: Parameters<typeof actual.open>): Promise<FileHandle> => {
    const file = await actual.open(...args)
    return Object.assign(file, {
      writeFile: failing('write', file.writeFile.bind(file)),
      sync: failing('fsync', file.sync.bind(file)),
    })
  }
  return {
    ...actual,
    open: failing('open', open),
    mkdir: failing('mkdir', actual.mkdir),
    link: failing('rename', actual.link),
    rename: failing('rename', actual.rename),
  }
})

const { folder, command } = useFiles('eaas-cli-full-disk')
const CSV = ['--key', 'files', '--model', 'm', '--columns', 'name', '--bind', 'id', '--out', 'out']
const explained = (name: string) =>
  `eaas-cli: ${join(folder, name)} cannot be written (ENOSPC), and nothing was. Its disk is full: make room there, or name another path.\n`

beforeEach(async () => {
  Object.assign(full, { at: '', after: 0 })
  writeFileSync(join(folder, 'rows.csv'), 'id,name\n1,Ada\n')
  expect(await command(['encrypt', 'rows.csv', '--key', 'files', '--out', 'sealed'])).toMatchObject({ code: 0 })
  expect(await command(['encrypt-csv', 'rows.csv', ...CSV.with(-1, 'sealed.csv')])).toMatchObject({ code: 0 })
})

describe.each(['open', 'write', 'fsync', 'rename'])('on a disk that is full when it comes to %s', (syscall) => {
  it.each([
    ['encrypt', 'rows.csv', '--key', 'files', '--out', 'out'],
    ['encrypt', 'rows.csv', '--key', 'files', '--format', 'text', '--out', 'out'],
    ['decrypt', 'sealed', '--out', 'out'],
    ['rewrap', 'sealed', '--out', 'out'],
    ['encrypt-csv', 'rows.csv', ...CSV],
    ['decrypt-csv', 'sealed.csv', ...CSV],
  ])('%s says so, and leaves nothing', async (...argv) => {
    const before = readdirSync(folder)
    full.at = syscall
    expect(await command(argv)).toMatchObject({ code: 1, err: explained('out') })
    expect(readdirSync(folder)).toEqual(before)
  })
})

it.each(['open', 'write', 'fsync', 'rename'])(
  'leaves the earlier state of a backfill on a full disk: %s',
  async (at) => {
    const state = await openState({ folder } as Io, 'state', {})
    const stand = { after: '["1"]', done: { rows: 1, changed: 1, current: 0, failed: 0, gone: 0 } }
    await state.save(stand)
    const before = [readdirSync(folder), readFileSync(join(folder, 'state'), 'utf8')]
    full.at = at
    await expect(state.save({ ...stand, after: '["2"]' })).rejects.toThrow(
      expect.objectContaining({ name: 'CommandError', message: explained('state').slice('eaas-cli: '.length, -1) }),
    )
    expect([readdirSync(folder), readFileSync(join(folder, 'state'), 'utf8')]).toEqual(before)
  },
)

it('leaves the file that rewrap would replace', async () => {
  const before = readFileSync(join(folder, 'sealed'))
  full.at = 'write'
  expect(await command(['rewrap', 'sealed'])).toMatchObject({ code: 1, err: explained('sealed') })
  expect(readFileSync(join(folder, 'sealed'))).toEqual(before)
})

it.each([[['decrypt', 'sealed', '--out', '-']], [['--version']]])(
  'says that standard output took no %j',
  async (argv) => {
    const stdout = new Writable({ write: (_chunk, _encoding, done) => done(noSpace('write')) })
    stdout.on('error', () => undefined)
    expect(await command(argv, { stdout })).toMatchObject({
      code: 1,
      err: 'eaas-cli: standard output cannot be written (ENOSPC)\n',
    })
  },
)

describe('init on a full disk', () => {
  const argv = ['init', '--table', 'users', '--fields', 'name', '--search', 'name', '--yes']
  const TABLES = `import { pgTable, serial, text } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/node-postgres'
export const users = pgTable('users', { id: serial().primaryKey(), name: text() })
`
  beforeEach(() => {
    writeFileSync(join(folder, 'package.json'), '{}')
    writeFileSync(join(folder, 'db.ts'), TABLES)
  })

  it.each(['mkdir', 'open', 'write', 'fsync'].flatMap((at) => [0, 1, 2].map((after) => [at, after] as const)))(
    'writes nothing: %s, after %d that succeed',
    async (at, after) => {
      const before = readdirSync(folder)
      Object.assign(full, { at, after })
      const { code, err } = await command(argv)
      expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/\(ENOSPC\).*\. Nothing was written\n$/) })
      expect([readdirSync(folder), readFileSync(join(folder, 'db.ts'), 'utf8')]).toEqual([before, TABLES])
    },
  )

  it('says which files are written, and finishes the next time', async () => {
    Object.assign(full, { at: 'rename', after: 1 })
    const { code, err } = await command(argv)
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringContaining('. Only written: .env; not: eaas-users.ts, db.ts. Then run init again'),
    })
    expect(err).not.toContain('nothing was')
    expect(readFileSync(join(folder, 'db.ts'), 'utf8')).toBe(TABLES)
    full.at = ''
    expect(await command(argv)).toMatchObject({ code: 0 })
    expect(readFileSync(join(folder, 'db.ts'), 'utf8')).toContain('nameIndex')
    expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([])
  })
})

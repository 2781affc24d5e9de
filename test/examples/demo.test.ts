// The quickstart and `npm run demo` as a newcomer runs them: on the sample, on awkward files, interrupted, tampered with. On the built packages.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { rounds } from '../support/run/rounds.js'
import { createTenantInProcess } from '../support/service/eaas-process.js'
import { interruptProgram, readResult, runProgram } from './program.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const main = join(root, 'examples/encrypt-csv/main.mjs')
/** A demo may share the machine with the other suites. */
const TIMEOUT_MS = 120_000
const AWKWARD = [
  '\ufeffid;full name;mail;note',
  '1;"Ada ""the first""";ada@example.org;"two\r\nlines"',
  '2;;;',
  '3;  blanks  ;ada@example.org;é é =1+1 "',
  '4;"quoted; with separator";ben@example.org;"\n"',
  '',
  '',
].join('\r\n')

let dir: GuardedDir
let readArguments: (argv: string[], folder: string) => object
let tellStory: (choice: object, stage: object) => Promise<string[]>
beforeAll(async () => {
  dir = guardedDir('eaas-test-demo')
  readArguments = (await load('encrypt-csv/arguments.mjs')).readArguments
  tellStory = (await load('encrypt-csv/demo.mjs')).demo
}, TIMEOUT_MS)
afterAll(() => dir.remove())

describe('the demo', { timeout: TIMEOUT_MS }, () => {
  it('gets the whole sample back with one wrap on a database of its own, whatever the environment names', async () => {
    const environment = { EAAS_DATABASE_URL: 'postgres://127.0.0.1:1/none', EAAS_ROOT_KEY: 'wrong', EAAS_UNKNOWN: '1' }
    const { code, out, err } = await runDemo([], environment)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(readResult(out)).toEqual({
      rows: '1,200',
      'cells encrypted': '8,400',
      wraps: '1',
      unwraps: '1', // by the other client
      'audit entries': '7', // the index secret of each client among them
      'chain valid': 'yes',
      differences: '0',
      seconds: expect.stringMatching(/^\d+\.\d$/),
    })
    expect(out).toMatch(/row 601 was hashed in this process; the index column has that hash in row 601\./)
    expect(out).not.toContain('/v1/hash')
    expect(out).toContain('eaas.2.')
  })

  it('exits 1 when one bit of the encrypted file was altered, and names the cell', async () => {
    const { code, out, err } = await runDemo([
      write('tamper.csv', 'a,b\nx,1\ny,2\nz,3\n'),
      '--columns',
      'a',
      '--tamper',
    ])
    expect(code).toBe(1)
    expect(err).toContain('Row 2, field "a": could not decrypt')
    expect(out).not.toContain('Result')
  })

  const interruptions = [
    ['SIGINT', 130, 'the server creates its database', /Read customers\.csv \(/],
    ['SIGKILL', null, 'values are hashed', /Create a key \(/],
    ['SIGKILL', null, 'the server creates its database', /Read customers\.csv \(/],
    ['SIGTERM', 143, 'values are hashed', /Create a key \(/],
  ] as const
  it.each(interruptions.slice(0, rounds(2, interruptions.length)))(
    'leaves nothing behind after %s, exit code %j, while %s',
    async (signal, code, _, at) => {
      expect(await interruptProgram({ main, folder: dir.path }, signal, at)).toBe(code)
    },
  )
})

describe('the demo’s story', { timeout: TIMEOUT_MS }, () => {
  let server: { folder: string; listening: Promise<string>; stop: () => Promise<void> }
  beforeAll(async () => {
    server = (await load('lib/server.mjs')).startServer()
    await server.listening
  }, TIMEOUT_MS)
  afterAll(() => server.stop())

  /** Tells it in this process, for a tenant of its own on a server that these tests share: starting one costs most of a demo. */
  async function tell(file: string, ...args: string[]): Promise<string> {
    let out = ''
    const { createOutput } = await load('lib/output.mjs')
    const database = {
      backend: 'embedded',
      dataDir: join(server.folder, 'server'),
      drop: async () => undefined,
    } as const
    const createTenant = async () => (await createTenantInProcess({ database, rootKey: null }, file)).api_key.secret
    const write = (text: string) => {
      out += text
    }
    const problems = await tellStory(readArguments([file, ...args], dir.path), {
      output: createOutput({ write }),
      openServer: () => ({ ...server, createTenant, folder: mkdtempSync(join(dir.path, 'story-')) }),
      signal: new AbortController().signal,
    })
    expect(problems).toEqual([])
    return out
  }

  it('takes anyone’s file, with quotes, line breaks, blanks, empty cells and equal values', async () => {
    const file = write('awkward.csv', AWKWARD.replaceAll('é é =1+1 "', 'e\u0301 é =1+1'))
    const sealedFile = join(dir.path, 'sealed.csv')
    const args = ['--columns', 'note,full name', '--index', 'mail', '--delimiter', ';', '--out', sealedFile]
    const out = await tell(file, ...args)
    expect(readResult(out)).toMatchObject({ rows: '4', 'cells encrypted': '12', wraps: '1', differences: '0' })
    expect(out).toContain('the index column has that hash in rows 1, 3.')
    expect(out).not.toContain('the first')
    const sealed = readFileSync(sealedFile, 'utf8')
    expect(sealed).toMatch(/^id;full name;mail;note;mail_index\r\n/)
    // Each with a character that base64 doesn't have, so that no ciphertext holds it by chance.
    for (const plain of ['Ada ', 'ada@', 'two\r', '  blanks', ' separator', 'ben@']) expect(sealed).not.toContain(plain)
  })

  it('takes a file of a header only', async () => {
    const out = await tell(write('header.csv', 'a,b\n'), '--columns', 'a', '--index', 'a')
    expect(readResult(out)).toMatchObject({
      rows: '0',
      wraps: '0',
      unwraps: '0',
      differences: '0',
      'chain valid': 'yes',
    })
  })

  it('takes one column with empty rows', async () => {
    const out = await tell(write('one.csv', 'a\n\n\nx\n'), '--columns', 'a', '--index', 'a')
    expect(readResult(out)).toMatchObject({ rows: '3', 'cells encrypted': '3', wraps: '1', differences: '0' })
  })
})

describe('the quickstart', { timeout: TIMEOUT_MS }, () => {
  it('prints the row that it stores, finds and decrypts, and leaves nothing behind', async () => {
    const quickstart = join(root, 'examples/quickstart/quickstart.mjs')
    const { code, out, err } = await runProgram({ main: quickstart, folder: dir.path })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^stored: \{\n {2}id: 7,\n {2}email: \{\n {4}ciphertext: '/)
    const [stored = '', rest] = out.split('found: ')
    expect(rest).toBe(
      "true\ndecrypted: { id: 7, email: 'ada@example.org', notes: 'called twice' }\n" +
        'audit log: key.wrap, key.index_secret, key.create, api_key.create\n',
    )
    expect(stored).not.toContain('ada@')
  })
})

describe('the demo’s command line', () => {
  const ragged = 'a,b\n1,2\n3\n'
  it.each([
    ['a column that is not there', 'a,b\n1,2\n', ['--columns', 'c'], 'no column "c". It has: "a", "b"'],
    ['an index column that is not there', 'a,b\n1,2\n', ['--index', ''], 'no column "". It has: "a", "b"'],
    ['no column to encrypt', 'a,b\n1,2\n', [], 'Name the columns to encrypt with --columns. The file has: "a", "b"'],
    ['a file that is not UTF-8', Buffer.from([0x61, 0x0a, 0xff]), ['--columns', 'a'], 'is not UTF-8'],
    [
      'a row with a cell too few',
      ragged,
      ['--columns', 'a'],
      'ends on line 3 must have as many cells as the header, 2',
    ],
    ['two columns of one name', 'a,a\n1,2\n', ['--columns', 'a'], 'two columns named "a"'],
    ['an empty file', '', ['--columns', 'a'], 'there must be a header line'],
    ['an open quote', 'a\n"x\n', ['--columns', 'a'], 'is not CSV'],
    ['an unknown option', 'a\nx\n', ['--colums', 'a'], "Unknown option '--colums'"],
    ['an --out that is there', 'a\nx\n', ['--columns', 'a', '--out', main], 'is there already'],
  ])('refuses %s, before it starts a server', async (name, content, args, message) => {
    const [{ UsageError }, { createOutput }] = await Promise.all([load('lib/usage-error.mjs'), load('lib/output.mjs')])
    const openServer = vi.fn()
    const stage = { output: createOutput({ write: () => true }), openServer, signal: new AbortController().signal }
    const refused = async () => tellStory(readArguments([write(`${name}.csv`, content), ...args], dir.path), stage)
    const error = await refused().catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect((error as Error).message).toContain(message)
    expect(openServer).not.toHaveBeenCalled()
  })

  it('ends with exit code 2 at what its user can correct: a file that is not there, columns without a file', async () => {
    expect(await runDemo([join(dir.path, 'none.csv'), '--columns', 'a'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('There is no file'),
    })
    expect(await runDemo(['--columns', 'a'])).toMatchObject({ code: 2, err: expect.stringContaining('go with a file') })
  })

  it('explains itself with --help', async () => {
    expect(await runDemo(['--help'])).toMatchObject({ code: 0, err: '', out: expect.stringContaining('--index c') })
  })
})

describe('the comparison', () => {
  const table = () => ({
    columns: ['a', 'b'],
    rows: [
      { a: 'é', b: '' },
      { a: ' x', b: '2' },
    ],
  })
  let findDifferences: (original: unknown, returned: unknown) => string[]
  beforeAll(async () => {
    findDifferences = (await load('encrypt-csv/compare.mjs')).findDifferences
  })

  it('finds nothing between equal tables', () => {
    expect(findDifferences(table(), table())).toEqual([])
  })

  it('finds each cell that changed, if only in its normal form or by a blank', () => {
    const returned = {
      ...table(),
      rows: [
        { a: 'e\u0301', b: '' },
        { a: 'x', b: '2' },
      ],
    }
    expect(findDifferences(table(), returned)).toEqual(['row 1, column "a"', 'row 2, column "a"'])
  })

  it('finds a lost row and a lost column', () => {
    expect(findDifferences(table(), { ...table(), rows: table().rows.slice(1) })).toHaveLength(3)
    expect(findDifferences(table(), { ...table(), columns: ['b', 'a'] })).toEqual(['the columns are not the same'])
  })
})

/** Loads a module of the examples into this process. */
function load(path: string) {
  return import(join(root, 'examples', path))
}

function runDemo(args: string[], environment: Record<string, string> = {}) {
  return runProgram({ main, args, environment, folder: dir.path })
}

function write(name: string, content: string | Buffer): string {
  const path = join(mkdtempSync(join(dir.path, 'file-')), name)
  writeFileSync(path, content)
  return path
}

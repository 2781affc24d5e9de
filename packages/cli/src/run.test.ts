// The commands in this process, on a service in memory. test/cli/command-line.test.ts starts the built command.
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { createClient, isEnvelope, text } from '@eaas/sdk'
import { describe, expect, it } from 'vitest'
import { type CommandOptions, type Ran, useFiles } from './test-support/command.js'

const ENVELOPE_CONTEXT = ['--context', 'table=users', '--context', 'row=7']

const files = useFiles('eaas-cli')
const { folder } = files

/** Runs a command line. What it reads from standard input is `input`. */
const command = (argv: string[], input?: string | Uint8Array | Readable, more: Partial<CommandOptions> = {}) =>
  files.command(argv, { input, ...more })

function put(name: string, content: string | Uint8Array): string {
  writeFileSync(join(folder, name), content)
  return name
}

const get = (name: string) => readFileSync(join(folder, name))

/** What a run printed, where it must have succeeded. */
async function done(ran: Promise<Ran>): Promise<Buffer> {
  const { code, out, err } = await ran
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

/** Raises the number of the key's version that stands beside the wrapped key from 1 to 7. */
function raise(sealed: Buffer, format: string): Buffer {
  if (format !== 'text')
    return Buffer.from(sealed.toString('latin1').replace('"key_version":1', '"key_version":7'), 'latin1')
  const bytes = Buffer.from(sealed.toString().split('.')[2] ?? '', 'base64url')
  bytes.writeUInt32BE(7, 16) // behind the id of the key (envelope-text.md 1)
  return Buffer.from(`eaas.2.${bytes.toString('base64url')}\n`)
}

it('names .env.local where an API key is missing and the file is there', async () => {
  const without = async () => (await command(['doctor'], undefined, { env: {} })).err
  const message = 'no API key: set EAAS_API_KEY, or pass --api-key-file <file>'
  expect(await without()).toContain(`${message}\n`)
  put('.env.local', '')
  expect(await without()).toContain(`${message}. If .env.local has it: set -a; . ./.env.local; set +a\n`)
})

describe('encrypt and decrypt', () => {
  it.each([0, 1, 65_535, 65_536, 300_001])(
    'restore a file of %d bytes exactly, readable by its owner alone',
    async (length) => {
      const bytes = randomBytes(length)
      put('a.bin', bytes)
      await done(command(['encrypt', 'a.bin', '--key', 'files']))
      // The few bytes of a short file occur in any ciphertext by chance.
      if (length >= 32) expect(get('a.bin.eaas').includes(bytes.subarray(0, 32))).toBe(false)
      rmSync(join(folder, 'a.bin'))
      await done(command(['decrypt', 'a.bin.eaas']))
      expect(get('a.bin').equals(bytes)).toBe(true)
      expect(statSync(join(folder, 'a.bin')).mode & 0o777).toBe(0o600)
      expect(readdirSync(folder).sort()).toEqual(['a.bin', 'a.bin.eaas'])
    },
  )

  it.each(['stream', 'text', 'json'])('restore standard input exactly, by the format %s', async (format) => {
    const bytes = Buffer.concat([Buffer.from('é\r\n\0'), randomBytes(1_000), Buffer.from('\n\n')])
    const sealed = await done(
      command(['encrypt', '--key', files.keyId, '--format', format, ...ENVELOPE_CONTEXT], bytes),
    )
    if (format !== 'stream') expect(isEnvelope(sealed.toString().trim())).toBe(true)
    expect(await done(command(['decrypt', ...ENVELOPE_CONTEXT], sealed))).toEqual(bytes)
    const elsewhere = await command(['decrypt', '--context', 'row=8'], sealed)
    expect(elsewhere).toMatchObject({
      code: 3,
      out: Buffer.alloc(0),
      err: expect.stringContaining('could not decrypt'),
    })
  })

  it.each(['stream', 'text'])("need the application's secret that was mixed in, by the format %s", async (format) => {
    const [secret, other] = [randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString('base64'))
    put('secret', `${secret}\n`)
    put('other', other ?? '')
    put('short', 'AAAA')
    const withSecret = ['--secret-file', 'secret']
    for (const file of ['secret', 'other', 'short']) chmodSync(join(folder, file), 0o600)
    const sealed = await done(command(['encrypt', '--key', 'files', '--format', format, ...withSecret], 'hello'))
    expect(await done(command(['decrypt', ...withSecret], sealed))).toEqual(Buffer.from('hello'))
    expect(await command(['decrypt'], sealed)).toMatchObject({ code: 3, err: expect.stringContaining('secret') })
    put('kit', JSON.stringify(await createClient(files.service).keys.export(files.keyId)))
    chmodSync(join(folder, 'kit'), 0o600)
    expect(await done(command(['decrypt', '--kit', 'kit', ...withSecret], sealed))).toEqual(Buffer.from('hello'))
    expect(await command(['decrypt', '--kit', 'kit'], sealed)).toMatchObject({ code: 3 })
    expect(await command(['decrypt', '--secret-file', 'other'], sealed)).toMatchObject({ code: 3 })
    const { code, err } = await command(['decrypt', '--secret-file', 'short'], sealed)
    expect([code, err.includes('AAAA'), err.includes('base64 of 32 bytes')]).toEqual([2, false, true])
    expect(String(await done(command(['inspect'], sealed)))).toMatch(/^needs_secret +true$/m)
  })

  it('report what they did as JSON', async () => {
    put('a.txt', 'hello')
    const printed = JSON.parse(String(await done(command(['encrypt', 'a.txt', '--key', 'files', '--json']))))
    expect(printed).toEqual({ out: 'a.txt.eaas', format: 'stream', key_id: files.keyId, bytes: 512 + 5 + 16 })
    const back = JSON.parse(String(await done(command(['decrypt', 'a.txt.eaas', '-o', 'b.txt', '--json']))))
    expect(back).toEqual({ out: 'b.txt', bytes: 5 })
  })

  it('replace no file unless told to', async () => {
    put('a.txt', 'new')
    put('a.txt.eaas', 'old')
    const refused = await command(['encrypt', 'a.txt', '--key', 'files'])
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('--force replaces it') })
    expect(get('a.txt.eaas').toString()).toBe('old')
    await done(command(['encrypt', 'a.txt', '--key', 'files', '--force']))
    await done(command(['decrypt', 'a.txt.eaas', '--force']))
    expect(get('a.txt').toString()).toBe('new')
  })

  it('replace no file that appeared while they wrote', async () => {
    const slow = Readable.from(
      (async function* () {
        yield Buffer.from('a')
        put('b.eaas', 'of somebody else')
        yield Buffer.from('b')
      })(),
    )
    const ran = await command(['encrypt', '--key', 'files', '-o', 'b.eaas'], slow)
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('it exists already') })
    expect(get('b.eaas').toString()).toBe('of somebody else')
    expect(readdirSync(folder)).toEqual(['b.eaas'])
  })

  it('leave no file where the data is altered, cut or lengthened', async () => {
    put('a.bin', randomBytes(200_000))
    await done(command(['encrypt', 'a.bin', '--key', 'files']))
    const sealed = get('a.bin.eaas')
    const altered = Buffer.from(sealed)
    altered.writeUInt8(altered.readUInt8(150_000) ^ 1, 150_000)
    for (const wrong of [
      altered,
      sealed.subarray(0, -1),
      sealed.subarray(0, 66_064),
      Buffer.concat([sealed, sealed]),
    ]) {
      put('wrong.eaas', wrong)
      expect(await command(['decrypt', 'wrong.eaas'])).toMatchObject({ code: 3, out: Buffer.alloc(0) })
    }
    expect(readdirSync(folder).sort()).toEqual(['a.bin', 'a.bin.eaas', 'wrong.eaas'])
  })

  it('leave no file where they are interrupted, and exit with the code of the signal', async () => {
    const interruption = new AbortController()
    const endless = Readable.from(
      (async function* () {
        for (let at = 0; ; at++) {
          if (at === 3) interruption.abort('SIGINT')
          yield randomBytes(70_000)
          await new Promise((resolve) => setImmediate(resolve))
        }
      })(),
    )
    const ran = await command(['encrypt', '--key', 'files', '-o', 'a.eaas'], endless, { signal: interruption.signal })
    expect(ran).toMatchObject({ code: 130, err: '' })
    expect(readdirSync(folder)).toEqual([])
  })

  it('exit with 141 and say nothing where standard output was closed', async () => {
    put('a.bin', randomBytes(200_000))
    await done(command(['encrypt', 'a.bin', '--key', 'files']))
    const closed = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })),
    }).on('error', () => undefined)
    expect(await command(['decrypt', 'a.bin.eaas', '-o', '-'], undefined, { stdout: closed })).toMatchObject({
      code: 141,
      err: '',
    })
  })

  it('write no bytes to a terminal', async () => {
    put('a.txt', 'x')
    const terminal = Object.assign(new Writable({ write: (_chunk, _encoding, done) => done() }), { isTTY: true })
    const ran = await command(['encrypt', 'a.txt', '-o', '-', '--key', 'files'], undefined, { stdout: terminal })
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('standard output is a terminal') })
  })

  it('show how far they are on a terminal alone', async () => {
    put('a.bin', randomBytes(1_000_000))
    const shown: string[] = []
    await command(['encrypt', 'a.bin', '--key', 'files'], undefined, { onTerminal: (text) => shown.push(text) })
    expect(shown.join('')).toMatch(/^\r.{3}encrypting \[#*\.+\] \d+ % \d\.\d MB.*\r.\[K$/s)
  })
})

describe('a key', () => {
  it('is found by its name, and created only if told to', async () => {
    const refused = await command(['encrypt', '--key', 'none'], 'x')
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('there is no key "none"') })
    const examined = await command(['doctor', '--key', 'none'])
    expect(`${examined.out}${examined.err}`).toContain('there is no key "none": create it first, with eaas key create')
    const sealed = await done(command(['encrypt', '--key', 'none', '--create-key'], 'x'))
    expect(await done(command(['decrypt'], sealed))).toEqual(Buffer.from('x'))
  })

  it('is found by its id in any case, before a key whose name is that id', async () => {
    const id = files.keyId.toUpperCase()
    const eaas = createClient(files.service)
    await eaas.keys.ensure({ name: id })
    eaas.close()
    const sealed = await done(command(['encrypt', '--key', id, '--format', 'json'], 'x'))
    expect(JSON.parse(String(sealed))).toMatchObject({ key_id: files.keyId })
  })

  it('that is disabled is refused, and it is said why', async () => {
    const eaas = createClient(files.service)
    await eaas.keys.disable(files.keyId)
    eaas.close()
    const ran = await command(['encrypt', '--key', 'files'], 'x')
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('is disabled: enable it first') })
    const { out } = await command(['doctor', '--key', 'files'])
    expect(String(out)).toContain('FAIL  round trip: the key "files" is disabled: enable it first')
  })
})

describe('an API key', () => {
  it('is read from a file, with a warning if others can read it too', async () => {
    put('key', `${files.service.apiKey}\n`)
    chmodSync(join(folder, 'key'), 0o600)
    const env = { EAAS_URL: files.service.baseUrl }
    await done(command(['encrypt', '--key', 'files', '--api-key-file', 'key'], 'x', { env }))
    chmodSync(join(folder, 'key'), 0o644)
    const { code, err } = await command(['encrypt', '--key', 'files', '--api-key-file', 'key'], 'x', { env })
    expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining('chmod 600') })
    put('key', `The tenant main was created.\n${files.service.apiKey}\n`)
    const other = await command(['encrypt', '--key', 'files', '--api-key-file', 'key'], 'x', { env })
    expect(other).toMatchObject({ code: 2, err: expect.stringContaining('nothing but the API key, on one line') })
  })

  it.each([[['--api-key', 'eaas_sk_SECRET']], [['--api-key=eaas_sk_SECRET']], [['--apikey=eaas_sk_SECRET']]])(
    'is refused on the command line, and not repeated: %j',
    async (more) => {
      const { code, out, err } = await command(['encrypt', '--key', 'files', ...more], 'x')
      expect(code).toBe(2)
      expect(err).toContain('EAAS_API_KEY or --api-key-file')
      expect(out.toString() + err).not.toContain('SECRET')
    },
  )

  it('is not repeated where its option is misspelt', async () => {
    const { code, out, err } = await command(['encrypt', '--key', 'files', '--apikee=eaas_sk_SECRET'], 'x')
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining("unknown option '--apikee'") })
    expect(out.toString() + err).not.toContain('SECRET')
  })

  it('is named where it is missing', async () => {
    expect(await command(['encrypt', '--key', 'files'], 'x', { env: {} })).toMatchObject({
      code: 2,
      err: expect.stringContaining('set EAAS_API_KEY'),
    })
  })

  it('stands in no output, also where the service refuses it', async () => {
    const env = { EAAS_URL: files.service.baseUrl, EAAS_API_KEY: 'eaas_sk_WRONG' }
    const { code, out, err } = await command(['doctor', '--key', 'files'], undefined, { env })
    expect(code).toBe(1)
    expect(out.toString()).toContain('FAIL')
    expect(out.toString() + err).not.toContain('WRONG')
  })
})

describe('inspect', () => {
  const offline = { env: {}, fetch: () => expect.unreachable('inspect uses no network') }

  it('shows format, key and lengths of a stream, offline', async () => {
    put('a.bin', randomBytes(100_000))
    await done(command(['encrypt', 'a.bin', '--key', 'files']))
    const printed = JSON.parse(String(await done(command(['inspect', 'a.bin.eaas', '--json'], undefined, offline))))
    expect(printed).toEqual({
      format: 'eaas/stream/v1',
      form: 'stream',
      key_id: files.keyId,
      key_version: 1,
      ciphertext_bytes: 100_032,
      plaintext_bytes: 100_000,
    })
  })

  it.each([
    ['text', 2],
    ['json', 1],
  ])('shows an envelope as %s, of format v%d, and none of its secrets', async (format, version) => {
    const context = version === 2 ? ENVELOPE_CONTEXT : ['--envelope', '1']
    const sealed = await done(command(['encrypt', '--key', 'files', '--format', format, ...context], 'hello'))
    const printed = String(await done(command(['inspect'], sealed, offline)))
    expect(printed).toContain(`envelope v${version}`)
    expect(printed).toContain(files.keyId)
    expect(printed).toMatch(/plaintext_bytes +5\n/)
    expect(printed.split('\n').filter((line) => /[A-Za-z0-9_-]{40}/.test(line))).toEqual([])
  })

  it.each(['stream', 'text', 'json'])(
    'shows which version wrapped the data key of a %s whose number was raised',
    async (format) => {
      const sealed = await done(command(['encrypt', '--key', 'files', '--format', format], 'hello'))
      const raised = raise(sealed, format)
      const { code, out, err } = await command(['inspect', '--json'], raised, offline)
      expect({ code, ...JSON.parse(String(out)) }).toMatchObject({ code: 0, key_version: 1, claimed_key_version: 7 })
      expect(err).toBe(
        'version 1 wrapped the data key, and not version 7, which stands beside it: that number was changed\n',
      )
      expect(JSON.parse(String((await command(['inspect', '--json'], sealed, offline)).out))).not.toHaveProperty(
        'claimed_key_version',
      )
      const eaas = createClient(files.service)
      await eaas.keys.rotate(files.keyId)
      eaas.close()
      put('raised.eaas', raised)
      const rewrapped = await command(['rewrap', 'raised.eaas', '--json'])
      expect({ code: rewrapped.code, ...JSON.parse(String(rewrapped.out)) }).toMatchObject({
        code: 0,
        key_version_before: 1,
        key_version: 2,
      })
      expect(rewrapped.err).toBe(err)
      expect(await done(command(['decrypt', 'raised.eaas', '-o', '-']))).toEqual(Buffer.from('hello'))
    },
  )

  it('shows no version of a wrapped key whose bytes it does not know', async () => {
    const sealed = String(await done(command(['encrypt', '--key', 'files', '--format', 'json'], 'hello')))
    const foreign = JSON.stringify({ ...JSON.parse(sealed), wrapped_key: 'AAAA' })
    const { out, err } = await command(['inspect'], foreign, offline)
    expect(String(out)).toMatch(/^claimed_key_version 1$/m)
    expect(String(out)).not.toMatch(/^key_version/m)
    expect(err).toContain('of an unknown format')
  })

  it.each([
    ['hello', 'neither an encrypted stream'],
    ['', 'neither an encrypted stream'],
    ['eaas.1.AAAA', 'not an envelope'],
    ['{"ciphertext":', 'not an envelope'],
    ['{"format":"eaas/stream/v2"}\n', 'not an encrypted stream'],
    ['{"format":"eaas/stream/v1"', 'not an encrypted stream'],
  ])('refuses %j', async (input, message) => {
    const { code, err } = await command(['inspect'], input, offline)
    expect(code).not.toBe(0)
    expect(err).toContain(message)
  })
})

describe('rewrap', () => {
  it.each(['stream', 'text', 'json'])(
    'moves a file of the format %s to the current version, in its place',
    async (format) => {
      put('a.txt', 'hello')
      await done(command(['encrypt', 'a.txt', '--key', 'files', '--format', format]))
      chmodSync(join(folder, 'a.txt.eaas'), 0o640)
      const eaas = createClient(files.service)
      await eaas.keys.rotate(files.keyId)
      eaas.close()
      const printed = String(await done(command(['rewrap', 'a.txt.eaas', '--json'])))
      expect(JSON.parse(printed)).toEqual({ out: 'a.txt.eaas', key_version_before: 1, key_version: 2 })
      expect(statSync(join(folder, 'a.txt.eaas')).mode & 0o777).toBe(0o640)
      expect(await done(command(['decrypt', 'a.txt.eaas', '-o', '-']))).toEqual(Buffer.from('hello'))
      expect(readdirSync(folder).sort()).toEqual(['a.txt', 'a.txt.eaas'])
    },
  )

  it('leaves the file as it is where the service refuses', async () => {
    put('a.txt', 'hello')
    await done(command(['encrypt', 'a.txt', '--key', 'files']))
    const before = get('a.txt.eaas')
    files.service.failNext({ operation: 'rewrap', code: 'E_STATE' })
    expect(await command(['rewrap', 'a.txt.eaas'])).toMatchObject({ code: 1 })
    expect(get('a.txt.eaas').equals(before)).toBe(true)
    expect(readdirSync(folder).sort()).toEqual(['a.txt', 'a.txt.eaas'])
  })
})

describe('encrypt-csv and decrypt-csv', () => {
  const AWKWARD = [
    '\ufeffid;name;mail;note',
    '1;"Ada ""the first""";ada@example.org;"two\r\nlines"',
    '2;;;',
    '3;  blanks  ;ada@example.org;é =1+1',
    '4;"quoted; with separator";ben@example.org;"\n"',
    '',
  ].join('\r\n')
  const CHOICE = [
    '--key',
    'files',
    '--model',
    'users',
    '--columns',
    'name,mail,note',
    '--index',
    'mail',
    '--bind',
    'id',
  ]
  const SEMICOLON = ['--delimiter', ';']

  it('bring all cells back, with byte order mark and line breaks', async () => {
    put('a.csv', AWKWARD)
    await done(command(['encrypt-csv', 'a.csv', ...CHOICE, ...SEMICOLON]))
    const sealed = get('a.csv.eaas').toString()
    expect(sealed).toContain('\ufeffid;name;mail;note;mail_index\r\n')
    for (const secret of ['the first', 'ada@example.org', 'lines', 'blanks']) expect(sealed).not.toContain(secret)
    await done(command(['decrypt-csv', 'a.csv.eaas', ...CHOICE, ...SEMICOLON, '-o', 'b.csv']))
    expect(get('b.csv').toString()).toBe(AWKWARD)
    expect(statSync(join(folder, 'b.csv')).mode & 0o777).toBe(0o600)
  })

  it('handle more rows than a block under one wrap', async () => {
    const csv = `id,name\n${Array.from({ length: 2_500 }, (_, at) => `${at},n${at}\n`).join('')}`
    const choice = ['--key', 'files', '--model', 'users', '--columns', 'name']
    const sealed = await done(command(['encrypt-csv', ...choice], csv))
    expect(String(await done(command(['decrypt-csv', ...choice], sealed)))).toBe(csv)
    expect(files.service.entries().map(({ action }) => action)).toEqual(
      expect.arrayContaining(['key.wrap', 'key.unwrap']),
    )
    expect(files.service.entries().filter(({ action }) => action === 'key.wrap')).toHaveLength(1)
  })

  it('make rows that a model reads and finds', async () => {
    const sealed = String(await done(command(['encrypt-csv', ...CHOICE], 'id,name,mail,note\n1,Ada,a@b.c,x\n')))
    const [, row = ''] = sealed.trim().split('\n')
    const [id = '', name = '', mail = '', note = '', mail_index] = row.split(',')
    const eaas = createClient(files.service)
    const fields = { name: text(), mail: text({ index: 'mail_index' }), note: text() }
    const users = eaas.model({ name: 'users', keyId: files.keyId, bind: ['id'], format: 'text', fields })
    expect(await users.decrypt({ id, name, mail, note })).toMatchObject({ name: 'Ada', mail: 'a@b.c', note: 'x' })
    expect((await users.index({ mail: 'a@b.c' })).mail_index).toBe(mail_index)
    eaas.close()
  })

  it('leave nothing where a cell was moved to another row, and name it', async () => {
    put('a.csv', 'id,name,mail,note\n1,Ada,a,x\n2,Ben,b,y\n')
    await done(command(['encrypt-csv', 'a.csv', ...CHOICE]))
    const lines = get('a.csv.eaas').toString().split('\n')
    const [one = [], two = []] = [lines[1]?.split(','), lines[2]?.split(',')]
    put('a.csv.eaas', [lines[0], lines[1], [two[0], one[1], ...two.slice(2)].join(','), ''].join('\n'))
    const ran = await command(['decrypt-csv', 'a.csv.eaas', ...CHOICE, '-o', 'b.csv'])
    expect(ran).toMatchObject({ code: 3, err: expect.stringContaining('row 2, column "name"') })
    expect(existsSync(join(folder, 'b.csv'))).toBe(false)
  })

  it.each([
    ['id,name,mail,note\n1,"Ada,a,x\n', 'a quote is never closed'],
    ['id,name,mail,note\n1,A"da,a,x\n', 'line 2: a quote stands within a cell'],
    ['id,name,mail,note\n1,"A"da,a,x\n', 'line 2: text follows a closing quote'],
    ['id,name,mail,note\n1,Ada,a\n', 'row 1 has 3 cells, and the header 4'],
    ['id,name,mail\n1,Ada,a\n', 'the file has no column "note"'],
    ['id,name,mail,note,name\n', 'the file has two columns "name"'],
    ['id,name,mail,note,mail_index\n', 'the file already has a column "mail_index"'],
    ['name,mail,note\n', 'the file has no column "id"'],
    ['', 'the file has no header line'],
    [Buffer.from('id,name,mail,note\n1,\xff,a,x\n', 'latin1'), 'the file is not UTF-8'],
  ])('refuse %j', async (input, message) => {
    put('a.csv', input)
    expect(await command(['encrypt-csv', 'a.csv', ...CHOICE])).toMatchObject({
      code: 2,
      err: expect.stringContaining(message),
    })
    expect(readdirSync(folder)).toEqual(['a.csv'])
  })
})

describe('doctor', () => {
  it('goes all the way, and prints neither secrets nor values', async () => {
    const printed = String(await done(command(['doctor', '--key', 'files'])))
    expect(printed.split('\n').map((line) => line.slice(0, 4))).toEqual(['ok  ', 'ok  ', 'ok  ', ''])
    expect(printed).not.toContain(files.service.apiKey)
  })

  it('needs no right to read keys', async () => {
    files.service.failNext({ operation: 'getTenant', code: 'E_MISSING_PERMISSION' })
    const printed = String(await done(command(['doctor', '--key', files.keyId])))
    expect(printed).toMatch(/^ok {4}API key: the service knows it; its tenant is not shown: requested with failNext$/m)
    expect(printed).toMatch(/^ok {4}round trip: /m)
  })

  it('says which step fails, and what to do', async () => {
    files.service.failNext({ operation: 'wrap', code: 'E_STATE' })
    const { code, out } = await command(['doctor', '--key', 'files', '--json'])
    const { ok, findings } = JSON.parse(String(out)) as { ok: boolean; findings: { check: string; ok: boolean }[] }
    expect({ code, ok }).toEqual({ code: 1, ok: false })
    expect(findings.map((finding) => [finding.check, finding.ok])).toEqual([
      ['service', true],
      ['API key', true],
      ['round trip', false],
    ])
  })
})

describe('the command line', () => {
  it.each([
    'encrypt',
    'decrypt',
    'inspect',
    'rewrap',
    'encrypt-csv',
    'decrypt-csv',
    'backfill',
    'inspect-table',
    'doctor',
  ])('describes %s, without a service', async (name) => {
    const printed = String(await done(command([name, '--help'], undefined, { env: {} })))
    expect(printed).toContain(`Usage: eaas-cli ${name}`)
    expect(String(await done(command(['--help'])))).toContain(`  ${name} `)
    expect(printed.split('\n').filter((line) => line.length > 80)).toEqual([])
  })

  it.each([
    [['encrypt', 'a', 'b', '--key', 'k'], "too many arguments for 'encrypt'. Expected 1 argument but got 2.\n"],
    [['encrypt', '--key', 'a', '--key', 'b'], '--key may be given once only'],
    [['encrypt', '--keys', 'a'], "unknown option '--keys'\n(Did you mean --key?)\n"],
    [['encrypt', '--xyz'], "unknown option '--xyz'\n"],
    [['encrypt', '-x'], "unknown option '-x'\n"],
    [['encrypt', '--key'], "option '--key <name>' argument missing\n"],
    [['encrypt', '--key', '--force'], 'is given as --key=<value>'],
    [['encrypt', '--force=yes'], '--force takes no value'],
    [['encrypt'], '--key is missing'],
    [['encrypt', '--key='], '--key is missing'],
    [['encryt'], "unknown command 'encryt'\n(Did you mean encrypt?)\nnpx @eaas/cli --help lists the commands.\n"],
    [['doctor', 'a'], "too many arguments for 'doctor'. Expected 0 arguments but got 1."],
    [['encrypt', '--key', 'k', '--context', 'row'], '--context takes name=value'],
    [['encrypt', '--key', 'k', '--format', 'pem'], 'Allowed choices are stream, text, json.'],
    [['encrypt', '--key', 'k', '--json'], '--json needs --out'],
    [['decrypt', 'a.txt'], 'its name does not end with .eaas'],
    [['decrypt', 'none.eaas'], 'none.eaas: it does not exist'],
    [['steal'], "unknown command 'steal'"],
    [['toString'], "unknown command 'toString'"],
    [['encrypt-csv', '--key', 'k', '--model', 'm'], '--columns is missing'],
    [['encrypt-csv', '--key', 'k', '--model', 'm', '--columns', 'a', '--index', 'b'], 'is none of --columns'],
  ])('that is wrong exits with 2 and says what is wrong: %j', async (argv, message) => {
    expect(await command(argv, 'x')).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it('names its help where an option is wrong, and not where a file is', async () => {
    expect((await command(['encrypt', '--xyz'], 'x')).err).toMatch(
      /\nnpx @eaas\/cli encrypt --help lists the options\.\n$/,
    )
    expect((await command(['decrypt', 'none.eaas'], 'x')).err).toBe('eaas-cli: none.eaas: it does not exist\n')
  })

  it('lays its help out in columns', async () => {
    const printed = String(await done(command(['backfill', '--help'])))
    const described = printed.split('\n').filter((line) => /^ {2}\S/.test(line))
    expect(described.length).toBeGreaterThan(15)
    for (const line of described) expect(line).toMatch(/^ {2}\S.{22} \S/)
    expect(printed).toContain(
      '\n  --work <work>           seal: rows that are not sealed as the model seals, and\n                          indexes that',
    )
  })

  it.each([
    [{ EAAS_URL: 'http://eaas.example.org' }, 2, 'EAAS_URL is http to another', 'also pass --allow-insecure.'],
    [{ EAAS_URL: 'eaas.example.org' }, 2, 'EAAS_URL must be an http or https URL', 'Set it to an absolute URL'],
    [{ EAAS_API_KEY: 'two words' }, 2, 'the API key must be text', 'where the API key is read from'],
    [{ EAAS_API_KEY: 'eaas_sk_WRONG' }, 1, '401', 'it is missing, unknown, expired or revoked.\n'],
    [{ EAAS_URL: '' }, 1, 'no answer from http://127.0.0.1:8420', 'EAAS_URL is not set'],
  ])('says in its own words what is wrong with %j', async (wrong, exitCode, message, hint) => {
    const env = { EAAS_URL: files.service.baseUrl, EAAS_API_KEY: files.service.apiKey, ...wrong }
    const unreachable = async () => Promise.reject(new TypeError('fetch failed'))
    const fetch = env.EAAS_URL === '' ? unreachable : files.service.fetch
    for (const argv of [['encrypt', '--key', 'files'], ['doctor']]) {
      const { code, out, err } = await command(argv, 'x', { env, fetch })
      const printed = String(out) + err
      expect(printed).toContain(message)
      expect(printed).toContain(hint)
      expect(printed).not.toMatch(/baseUrl|allowInsecure|apiKey|broker/)
      if (argv[0] === 'encrypt') expect(code).toBe(exitCode)
    }
  })

  it('prints the version', async () => {
    expect(String(await done(command(['--version'])))).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

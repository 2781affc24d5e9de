// What the commands do with the file that they write: who may read it, what it replaces, and what is left of
// it. On a service in memory.
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  createReadStream,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { type CommandOptions, useFiles } from './test-support/command.js'

const CHOICE = ['--key', 'files', '--model', 'users', '--columns', 'name', '--bind', 'id']
const isRoot = process.getuid?.() === 0

const files = useFiles('eaas-cli-output')
const { folder, command } = files

const done = async (argv: string[], more: Partial<CommandOptions> = {}) => {
  const { code, err, out } = await command(argv, more)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}
const at = (name: string) => join(folder, name)
function put(name: string, content: string | Uint8Array, mode = 0o644) {
  writeFileSync(at(name), content)
  chmodSync(at(name), mode)
}
const get = (name: string) => readFileSync(at(name), 'utf8')
const modeOf = (name: string) => statSync(at(name)).mode & 0o777

/** Standard output that is a terminal. */
function terminal() {
  const shown: Buffer[] = []
  const stdout = new Writable({
    write(chunk, _, done) {
      shown.push(Buffer.from(chunk))
      done()
    },
  })
  return { stdout: Object.assign(stdout, { isTTY: true }), shown: () => Buffer.concat(shown).toString('latin1') }
}

describe('who may read the new file', () => {
  it.each([
    ['encrypt', ['--key', 'files']],
    ['encrypt', ['--key', 'files', '--format', 'text']],
    ['encrypt-csv', CHOICE],
  ])('may read the source of %s %j', async (name, options) => {
    for (const mode of [0o600, 0o640, 0o644]) {
      put('a.txt', 'id,name\n1,Ada\n', mode)
      await done([name, 'a.txt', '-o', `${mode}.eaas`, ...options])
      expect(modeOf(`${mode}.eaas`)).toBe(mode & ~process.umask())
    }
  })

  it('may read the source that is standard input', async () => {
    put('a.txt', 'hello', 0o600)
    const input = createReadStream(at('a.txt'))
    await once(input, 'open')
    await done(['encrypt', '--key', 'files', '-o', 'a.eaas'], { input })
    expect(modeOf('a.eaas')).toBe(0o600)
  })

  it('may read the file that it replaces', async () => {
    put('a.txt', 'hello')
    put('a.txt.eaas', 'old', 0o600)
    await done(['encrypt', 'a.txt', '--key', 'files', '--force'])
    expect(modeOf('a.txt.eaas')).toBe(0o600)
  })

  it('is its owner alone where it was decrypted', async () => {
    put('a.txt', 'id,name\n1,Ada\n', 0o644)
    await done(['encrypt', 'a.txt', '--key', 'files'])
    await done(['encrypt-csv', 'a.txt', ...CHOICE, '-o', 'csv.eaas'])
    put('b.txt', 'old', 0o644)
    await done(['decrypt', 'a.txt.eaas', '-o', 'b.txt', '--force'])
    await done(['decrypt-csv', 'csv.eaas', ...CHOICE, '-o', 'c.txt'])
    expect([modeOf('b.txt'), modeOf('c.txt')]).toEqual([0o600, 0o600])
  })

  it('is whoever may read what is rewrapped in its place, and the owner of a copy can write it', async () => {
    put('a.txt', 'hello')
    await done(['encrypt', 'a.txt', '--key', 'files'])
    chmodSync(at('a.txt.eaas'), 0o664)
    await done(['rewrap', 'a.txt.eaas', '--json'])
    expect(modeOf('a.txt.eaas')).toBe(0o664) // whatever the umask
    chmodSync(at('a.txt.eaas'), 0o440)
    await done(['rewrap', 'a.txt.eaas', '-o', 'b.eaas', '--json'])
    expect(modeOf('b.eaas')).toBe(0o640 & ~process.umask())
  })

  // Only root can give a file to a group that it is not a member of.
  it.runIf(isRoot)('is no other group than that of the source, whose owner keeps what is rewrapped', async () => {
    put('a.txt', 'hello', 0o640)
    chownSync(at('a.txt'), 0, 12_345)
    await done(['encrypt', 'a.txt', '--key', 'files'])
    expect(modeOf('a.txt.eaas')).toBe(0o600)
    chownSync(at('a.txt.eaas'), 12_345, 12_346)
    chmodSync(at('a.txt.eaas'), 0o640)
    await done(['rewrap', 'a.txt.eaas', '--json'])
    expect(statSync(at('a.txt.eaas'))).toMatchObject({ uid: 12_345, gid: 12_346, mode: 0o100640 })
  })
})

describe('what the new file replaces', () => {
  it('is the file that a symbolic link leads to, and not the link', async () => {
    mkdirSync(at('elsewhere'))
    put('elsewhere/real.eaas', 'old')
    symlinkSync('elsewhere/real.eaas', at('link.eaas'))
    put('a.txt', 'hello')
    const refused = await command(['encrypt', 'a.txt', '--key', 'files', '-o', 'link.eaas'])
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('--force replaces it') })
    await done(['encrypt', 'a.txt', '--key', 'files', '-o', 'link.eaas', '--force'])
    expect(lstatSync(at('link.eaas')).isSymbolicLink()).toBe(true)
    expect(get('elsewhere/real.eaas')).toContain('eaas/stream/v1')
    await done(['rewrap', 'link.eaas', '--json'])
    expect(lstatSync(at('link.eaas')).isSymbolicLink()).toBe(true)
    expect(readdirSync(at('elsewhere'))).toEqual(['real.eaas'])
    expect(await done(['decrypt', 'link.eaas', '-o', '-'])).toEqual(Buffer.from('hello'))
  })

  it.each([[[]], [['--force']]])('is no link to a file that does not exist %j', async (force) => {
    put('a.txt', 'hello')
    symlinkSync('none', at('link.eaas'))
    const refused = await command(['encrypt', 'a.txt', '--key', 'files', '-o', 'link.eaas', ...force])
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^eaas-cli: link\.eaas: it is a symbolic link to a file that does not exist\n/),
    })
    expect(readdirSync(folder).sort()).toEqual(['a.txt', 'link.eaas'])
  })

  // Never on a real device: a test that fails would replace it, and the tests may run as root.
  it('is nothing that is no file, such as a FIFO or a socket, and no link to one', async () => {
    put('a.txt', 'hello')
    execFileSync('mkfifo', [at('pipe')])
    symlinkSync('pipe', at('to-pipe'))
    const server = createServer().listen(at('socket'))
    await once(server, 'listening')
    for (const name of ['pipe', 'to-pipe', 'socket']) {
      for (const force of [[], ['--force']]) {
        const ran = await command(['encrypt', 'a.txt', '--key', 'files', '-o', name, ...force])
        expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(`${name}: it is a device, a FIFO`) })
      }
    }
    expect([lstatSync(at('pipe')).isFIFO(), lstatSync(at('socket')).isSocket()]).toEqual([true, true])
    expect(readdirSync(folder).sort()).toEqual(['a.txt', 'pipe', 'socket', 'to-pipe'])
    await new Promise((resolve) => server.close(resolve))
  })

  it.each(['-', '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1'])(
    'is nothing where it is standard output: %s',
    async (name) => {
      put('a.txt', 'hello')
      const sealed = await done(['encrypt', 'a.txt', '--key', 'files', '-o', name])
      expect(await done(['decrypt', '-o', name], { input: sealed })).toEqual(Buffer.from('hello'))
      const asJson = await command(['encrypt', 'a.txt', '--key', 'files', '-o', name, '--json'])
      expect(asJson).toMatchObject({ code: 2, err: expect.stringContaining('--json needs --out') })
    },
  )

  it.each<[string, (file: string) => void]>([
    ['another file took its name', (file) => renameSync(at('other'), file)],
    ['another file of the same bytes took its name', (file) => renameSync(at('copy'), file)],
    ['it was written', (file) => writeFileSync(file, 'newer content')],
    ['it was touched', (file) => utimesSync(file, 1, 1)],
    ['it was removed', (file) => rmSync(file)],
  ])('is not what is rewrapped in its place where %s meanwhile', async (_, change) => {
    put('a.txt', 'hello')
    for (const format of ['stream', 'text']) {
      await done(['encrypt', 'a.txt', '--key', 'files', '--force', '--format', format])
      put('other', 'newer content')
      copyFileSync(at('a.txt.eaas'), at('copy'))
      let after: string | undefined
      const ran = await command(['rewrap', 'a.txt.eaas'], {
        fetch: (...call) => {
          if (after === undefined) change(at('a.txt.eaas'))
          after ??= existsSync(at('a.txt.eaas')) ? get('a.txt.eaas') : 'none'
          return files.service.fetch(...call)
        },
      })
      expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('a.txt.eaas: it was changed meanwhile') })
      expect(existsSync(at('a.txt.eaas')) ? get('a.txt.eaas') : 'none').toBe(after)
      expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([])
    }
  })

  it('is no directory, and has a name', async () => {
    put('a.txt', 'hello')
    mkdirSync(at('folder'))
    for (const [out, message] of [
      ['folder', 'folder: it is a directory'],
      ['', '--out is empty'],
      ['none/b', 'none/b: its folder does not exist'],
      // A folder that root cannot write to either.
      ...(process.platform === 'linux' ? [['/sys/b', '/sys/b: its folder is not writable']] : []),
    ] as const) {
      const ran = await command(['encrypt', 'a.txt', '--key', 'files', '--force', '-o', out])
      expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(message) })
    }
    expect(await command(['encrypt', '/dev/null', '--key', 'files'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('/dev/null: no file is made beside it, so pass --out'),
    })
  })
})

describe('what a killed command left', () => {
  const machine = createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
  // The greatest number that Linux gives a process is 4,194,304.
  const name = (of: string, pid: number, where = machine) => `.${of}.${where}-${pid}-0123456789ab.tmp`

  it('is removed by the next one that writes the same file, and nothing else', async () => {
    put('a.txt', 'hello')
    const dead = name('a.txt.eaas', 2 ** 30)
    const own = name('a.txt.eaas', process.pid) // of an earlier process of the same number
    const kept = [
      name('a.txt.eaas', process.ppid), // which runs
      name('a.txt.eaas', 2 ** 30, '00000000'), // of another machine, which shares the folder
      name('b.txt.eaas', 2 ** 30),
      `${dead}.old`,
    ]
    for (const one of [dead, own, ...kept]) put(one, 'part')
    await done(['encrypt', 'a.txt', '--key', 'files'])
    expect(readdirSync(folder).sort()).toEqual([...kept, 'a.txt', 'a.txt.eaas'].sort())
  })

  it('has a name that is short enough for a file of the longest name', async () => {
    const long = 'é'.repeat(120)
    put(long, 'hello')
    await done(['encrypt', long, '--key', 'files'])
    expect(readdirSync(folder).sort()).toEqual([long, `${long}.eaas`].sort())
  })
})

describe('a terminal', () => {
  it('gets text, and nothing that it would obey', async () => {
    put('a.txt', 'é\tline\r\n')
    put('b.txt', `text ${'x'.repeat(70_000)}\u001b]0;title\u0007`)
    put('c.txt', randomBytes(2_000))
    for (const name of ['a.txt', 'b.txt', 'c.txt']) await done(['encrypt', name, '--key', 'files'])
    const plain = terminal()
    expect(await command(['decrypt', 'a.txt.eaas', '-o', '-'], plain)).toMatchObject({ code: 0, err: '' })
    expect(Buffer.from(plain.shown(), 'latin1').toString()).toBe('é\tline\r\n')
    for (const name of ['b.txt.eaas', 'c.txt.eaas']) {
      const { stdout, shown } = terminal()
      const refused = await command(['decrypt', name, '-o', '-'], { stdout })
      expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('standard output is a terminal') })
      expect(shown()).toMatch(/^(text x+)?$/)
      const forced = terminal()
      expect(await command(['decrypt', name, '-o', '-', '--force'], forced)).toMatchObject({ code: 0, err: '' })
      expect(forced.shown()).toBe(readFileSync(at(name.replace('.eaas', ''))).toString('latin1'))
    }
  })

  it('gets an encrypted stream only if forced', async () => {
    put('a.txt', 'hello')
    await done(['encrypt', 'a.txt', '--key', 'files'])
    for (const argv of [
      ['encrypt', 'a.txt', '--key', 'files', '-o', '-'],
      ['rewrap', 'a.txt.eaas', '-o', '-'],
    ]) {
      const { stdout, shown } = terminal()
      expect(await command(argv, { stdout })).toMatchObject({ code: 2, err: expect.stringContaining('is a terminal') })
      expect(shown()).toBe('')
      const forced = terminal()
      expect(await command([...argv, '--force'], forced)).toMatchObject({ code: 0 })
      expect(forced.shown()).toContain('eaas/stream/v1')
    }
    const text = terminal()
    const argv = ['encrypt', 'a.txt', '--key', 'files', '-o', '-', '--format', 'text']
    expect(await command(argv, text)).toMatchObject({ code: 0 })
    expect(text.shown()).toMatch(/^eaas\.2\.[\w-]+\n$/)
  })
})

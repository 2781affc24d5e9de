// A root key in shares: from files and from a terminal, with what people do wrong and what an attacker among them tries.
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeRootKey } from '../../packages/server/src/root-keys/generate.js'
import { openProvider } from '../../packages/server/src/root-keys/open-provider.js'
import { splitRootKey } from '../../packages/server/src/root-keys/root-key-share.js'
import { type ProviderUnderTest, testProvider } from '../support/custody/provider-suite.js'
import { freshDatabase, type TestDatabase } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { EAAS, environmentOf } from '../support/service/eaas-process.js'
import { PYTHON } from '../support/vectors/python.js'

const TERMINAL = new URL('../support/custody/terminal.py', import.meta.url).pathname
const SPLIT = { shares: 5, threshold: 3 }
const login = { tokenFile: undefined, appRoleFile: undefined }

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-shares-'))
})
afterAll(() => rm(folder, { recursive: true }))

let made = 0
/** Makes a root key in shares. */
async function makeShares(): Promise<{ files: string[]; lines: string[] }> {
  const { files } = await makeRootKey({ path: join(folder, `set-${++made}`), recipients: [], split: SPLIT })
  return { files, lines: (await Promise.all(files.map((file) => readFile(file, 'utf8')))).map((text) => text.trim()) }
}

const open = (files: readonly string[]) => openProvider({ kind: 'shares', value: files.join(','), login })

/** Opens shares with these texts. */
async function openTexts(texts: readonly string[]) {
  const files = texts.map((_, at) => join(folder, `text-${++made}-${at}`))
  await Promise.all(files.map((file, at) => writeFile(file, texts[at] ?? '')))
  return open(files)
}

describe('a root key in shares', () => {
  testProvider(async (): Promise<ProviderUnderTest> => {
    const { files } = await makeShares()
    const [, second = '', , fourth, fifth] = files
    return {
      health: 'none',
      environment: { EAAS_ROOT_KEY_SHARES: [fifth, second, fourth].join(',') },
      takeAway: () => rename(second, `${second}.away`),
      bringBack: () => rename(`${second}.away`, second),
      remove: async () => undefined,
    }
  })

  it('is the same from any shares that are enough, whatever ends their lines', async () => {
    const { lines } = await makeShares()
    const [a = '', b = '', c = '', d = '', e = ''] = lines
    const wrapped = await (await openTexts([a, b, c])).wrap(Buffer.alloc(36, 7))
    for (const texts of [
      [`${e}\r\n`, `${c}\r\n`, `${a}\r\n`],
      [`\ufeff${b}\n\n`, `  ${d}\t\n`, e],
      [a, b, c, d, e],
    ]) {
      expect(Buffer.from(await (await openTexts(texts)).unwrap(wrapped))).toEqual(Buffer.alloc(36, 7))
    }
  })

  it('is refused with a message that says why, and holds nothing of a share', async () => {
    const { lines, files } = await makeShares()
    const [a = '', b = '', c = ''] = lines
    const { lines: others } = await makeShares()
    const [x = ''] = others
    const flipped = a.replace(/(?<=\.3\.1\..{20})./, (digit) => (digit === '0' ? '1' : '0'))
    const set = /\.([0-9a-f]{16})\./.exec(a)?.[1]
    for (const [texts, message] of [
      [[a, b], `The set ${set} needs 3 shares, got 2: 1, 2.`],
      [[a, b, a], 'was given twice.'],
      [[a, b, x], 'Shares of two sets do not go together'],
      [[a, b, flipped], 'its checksum is wrong'],
      [[a, b, c.replace(/.$/, 'x')], 'its checksum is wrong'],
      [[a, b, c.slice(0, -1)], 'its checksum is wrong'],
      [[a, b, `${b}\n${c}`], 'is not a share of a root key'],
      [[a, b, ''], 'is not a share of a root key'],
      [[a, b, '-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n'], 'is still encrypted'],
      [[a, b, 'age-encryption.org/v1\n-> X25519 '], 'is still encrypted'],
      [[a, b, Buffer.alloc(32, 9).toString('base64')], 'is not a share of a root key'],
    ] as const) {
      const error = await openTexts(texts).catch((reason: Error) => reason)
      expect(error).toMatchObject({ name: 'RootKeyError', message: expect.stringContaining(message) })
      const secrets = texts.flatMap((text) => text.match(/[0-9a-f]{90,}|[A-Za-z0-9+/]{43}=/g) ?? [])
      for (const secret of secrets) expect(`${error} ${(error as Error).stack}`).not.toContain(secret.slice(10, 40))
    }
    await expect(open([...files.slice(0, 2), join(folder, 'nowhere')])).rejects.toThrow('cannot be read (ENOENT)')
    await expect(open([files[0] ?? '', ''])).rejects.toThrow('an empty name between its commas')
  })

  it('is not chosen by one who hands in a share of the point 0', async () => {
    const { lines } = await makeShares()
    const { lines: chosen } = await splitRootKey(new Uint8Array(32).fill(1), { shares: 2, threshold: 2 })
    expect(chosen).toHaveLength(2)
    const { createHash } = await import('node:crypto')
    const text = (lines[0] ?? '').replace(/[0-9a-f]{2}\.[0-9a-f]{8}$/, '00')
    const forged = `${text}.${createHash('sha256').update(text).digest('hex').slice(0, 8)}`
    await expect(openTexts([forged, lines[1] ?? '', lines[2] ?? ''])).rejects.toThrow('no split makes')
  })
})

describe('the commands', { timeout: 120_000 }, () => {
  let database: TestDatabase
  let shares: { files: string[]; lines: string[] }
  const by = (...files: (string | undefined)[]) => ({
    database,
    rootKey: null,
    environment: { EAAS_ROOT_KEY_SHARES: files.join(',') },
  })
  beforeAll(async () => {
    database = await freshDatabase('shares', { created: false })
    shares = await makeShares()
  })

  /** Runs a command on a terminal, and types what it asks for. */
  async function onTerminal(typed: string[], args: string[]) {
    const env = environmentOf(by('ask'))
    const { stdout } = await promisify(execFile)(
      PYTHON,
      [TERMINAL, JSON.stringify(typed), process.execPath, EAAS, ...args],
      { env },
    )
    return JSON.parse(stdout) as { shown: string; code: number; echoes: boolean }
  }

  it('create, open and move an installation', async () => {
    const [a, b, c, d] = shares.files
    const created = await runCommand(['tenant', 'create', '--name', 'acme', '--json'], by(a, b, c))
    expect([created.code, created.stderr]).toEqual([0, ''])
    const status = await runCommand(['root-key', 'status', '--json'], by(d, b, a))
    expect(JSON.parse(status.stdout).root_key).toMatchObject({
      kind: 'shares',
      name: expect.stringMatching(/^set [0-9a-f]{16}$/),
    })
    expect((await runCommand(['doctor'], by(c, d, a))).stdout).toContain('opens this database (shares set')
    const few = await runCommand(['start'], by(a, b))
    expect(few).toMatchObject({ code: 1, stderr: expect.stringContaining('needs 3 shares, got 2') })
    const strange = await makeShares()
    const foreign = await runCommand(['start'], by(...strange.files.slice(0, 3)))
    expect(foreign.stderr).toContain('The root key does not belong to this database')

    const next = await makeShares()
    const to = next.files.slice(1, 4).join(',')
    const moved = await runCommand(['root-key', 'rotate', '--to-shares', to, '--json'], by(a, b, c))
    expect(moved).toMatchObject({ code: 0, stderr: '' })
    expect((await runCommand(['root-key', 'status'], by(a, b, c))).code).toBe(1)
    shares = next
  })

  it('ask for shares on the terminal, show none of them, and ask again for what is wrong', async () => {
    const [a = '', b = '', , d = ''] = shares.lines
    const other = (await makeShares()).lines[1] ?? ''
    const typed = [a, 'x', a, other, b.slice(0, -1), '', b, ` ${d} `]
    const { shown, code, echoes } = await onTerminal(typed, ['root-key', 'status'])
    expect([code, echoes]).toEqual([0, true])
    expect(shown).toContain('which opens this database')
    for (const part of [
      'That is share 1 of the set',
      'A share (1 of 3 of the set',
      'was given twice',
      'Shares of two sets were given',
      'is not a share of a root key',
      'its checksum is wrong',
      'That is share 2 of the set',
      'That is share 4 of the set',
    ]) {
      expect(shown).toContain(part)
    }
    for (const line of typed) if (line.length > 50) expect(shown).not.toContain(line.trim().slice(50, 70))
  })

  it('open what the first share is not of, and say whose shares they ask for', async () => {
    const stray = (await makeShares()).lines[1] ?? ''
    const [a = '', b = '', c = ''] = shares.lines
    const next = await makeShares()
    const typed = [stray, a, b, c, ...next.lines.slice(0, 3)]
    const { shown, code } = await onTerminal(typed, ['root-key', 'rotate', '--to-shares', 'ask'])
    expect([code, shown]).toEqual([
      0,
      expect.stringMatching(
        /First the shares of the current.*Now the shares of the new.*The root key is that of shares/s,
      ),
    ])
    shares = next
  })

  it('warn of shares that everybody on the machine can read', async () => {
    const [a = '', b = '', c = ''] = shares.files
    await chmod(b, 0o644)
    const { stdout } = await runCommand(['doctor'], by(a, b, c))
    expect(stdout).toMatch(
      new RegExp(`WARN +root key file +everybody on this machine can read or change ${b}: chmod 600`),
    )
    expect(stdout.match(/can read/g)).toHaveLength(1)
    await chmod(b, 0o600)
  })

  it('end at Ctrl-C, at the end of input and at signals, with a terminal that shows again what is typed', async () => {
    const [a = ''] = shares.lines
    expect(await onTerminal([a, '^C'], ['start'])).toMatchObject({ code: -2, echoes: true })
    expect(await onTerminal([a, 'SIGTERM'], ['start'])).toMatchObject({ code: -15, echoes: true })
    expect(await onTerminal([a, 'SIGHUP'], ['start'])).toMatchObject({ code: -1, echoes: true })
    const closed = await onTerminal([a, '^D'], ['start'])
    expect(closed).toMatchObject({ code: 1, echoes: true, shown: expect.stringContaining('The terminal was closed') })
  })

  it('do not ask where there is no terminal', async () => {
    const { code, stderr } = await runCommand(['start'], by('ask'))
    expect([code, stderr]).toEqual([1, expect.stringContaining('standard input is no terminal')])
  })
})

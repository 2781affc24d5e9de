// Where the root key comes from, and what happens where it does not.
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { RootKeyError } from '../core/crypto/key-hierarchy.js'
import { embeddedRootKeyPath, parseRootKey, readEmbeddedRootKey, readKeyFile } from './local-key.js'

/** The folders whose content was written to the disk. */
const synced = vi.hoisted((): string[] => [])
vi.mock('../../../audit/src/node/create-directory.js', async (original) => {
  const actual = await original<typeof import('@eaas/audit/node')>()
  return {
    ...actual,
    async syncDirectory(path: string) {
      await actual.syncDirectory(path)
      synced.push(path)
    },
  }
})

const KEY = new Uint8Array(32).fill(0xa7)
const TEXT = Buffer.from(KEY).toString('base64')
const MODE = 0o777

let folder: string
let file: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-root-key-'))
  file = embeddedRootKeyPath(folder)
})
afterEach(() => rm(folder, { recursive: true }))

/** What cannot be a root key, and never shows in a message. */
const UNUSABLE: [string, string][] = [
  ['empty', ''],
  ['only blanks', ' \n'],
  ['cut by one character', TEXT.slice(0, -1)],
  ['cut in the middle', TEXT.slice(0, 20)],
  ['31 bytes', Buffer.alloc(31, 0xa7).toString('base64')],
  ['33 bytes', Buffer.alloc(33, 0xa7).toString('base64')],
  ['16 bytes', Buffer.alloc(16, 0xa7).toString('base64')],
  ['1 MB', Buffer.alloc(1_000_000, 0xa7).toString('base64')],
  ['hexadecimal', Buffer.from(KEY).toString('hex')],
  ['URL-safe base64', Buffer.alloc(32, 0xff).toString('base64url')],
  ['no padding', TEXT.replaceAll('=', '')],
  ['trailing bits', `${TEXT.slice(0, -2)}d=`],
  ['a line feed within', `${TEXT.slice(0, 8)}\n${TEXT.slice(8)}`],
  ['two keys', `${TEXT}\n${TEXT}`],
  ['a NUL behind', `${TEXT}\0`],
  ['quotes around', `"${TEXT}"`],
  ['a name before it', `root=${TEXT}`],
]

const readFrom = async (path: string) => parseRootKey(await readKeyFile(path), path)

async function refusal(reading: Promise<unknown>): Promise<RootKeyError> {
  const error = await reading.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof RootKeyError)) throw new Error(`expected a RootKeyError, got ${String(error)}`)
  return error
}

/** No message may hold any eight characters of what was taken for a key. */
function expectSilenceAbout(text: string, { message, stack, cause }: Error): void {
  for (let at = 0; at + 8 <= Math.min(text.length, 100); at += 4) {
    expect(message).not.toContain(text.slice(at, at + 8))
    expect(stack).not.toContain(text.slice(at, at + 8))
  }
  expect(cause).toBeUndefined()
}

describe('the root key of the environment', () => {
  it('is read from the value', async () => {
    expect(exported(parseRootKey(TEXT, 'EAAS_ROOT_KEY'))).toEqual(KEY)
  })

  it('is read from the file, with or without a line feed behind', async () => {
    for (const end of ['', '\n', '\r\n', '  \n\n']) {
      await writeFile(file, TEXT + end)
      expect(exported(await readFrom(file))).toEqual(KEY)
    }
  })

  it.each(UNUSABLE)('is refused, and never shown: a value that is %s', async (_, text) => {
    const error = await refusal((async () => parseRootKey(text, 'EAAS_ROOT_KEY'))())
    expect(error.message).toContain('EAAS_ROOT_KEY')
    expect(error.message).toContain('eaas root-key generate')
    expectSilenceAbout(text, error)
  })

  it.each(UNUSABLE)('is refused, and never shown: a file that is %s', async (_, text) => {
    await writeFile(file, text)
    const error = await refusal(readFrom(file))
    expect(error.message).toContain(file)
    expectSilenceAbout(text, error)
  })

  it('is refused when the file is missing, and the file is not made', async () => {
    const error = await refusal(readFrom(file))
    expect(error.message).toContain(`${file} is missing`)
    expect(await readdir(folder)).toEqual([])
  })

  it('is refused when the file is a folder', async () => {
    expect((await refusal(readFrom(folder))).message).toContain('cannot be read (EISDIR)')
  })
})

describe('the root key of an embedded database', () => {
  it('is made for a new database: 32 bytes that nobody else may read', async () => {
    const key = await readEmbeddedRootKey(folder, { mayCreate: true })
    expect((await stat(file)).mode & MODE).toBe(0o600)
    expect(await readFile(file, 'utf8')).toMatch(/^[A-Za-z0-9+/]{43}=\n$/)
    expect(Buffer.from(await readFile(file, 'utf8'), 'base64')).toEqual(key.export())
    expect(await readdir(folder)).toEqual(['root.key'])
  })

  it('is 0600 whatever the umask is', async () => {
    const before = process.umask(0)
    try {
      await readEmbeddedRootKey(folder, { mayCreate: true })
    } finally {
      process.umask(before)
    }
    expect((await stat(file)).mode & MODE).toBe(0o600)
  })

  it('is another one for each database', async () => {
    const other = await mkdtemp(join(tmpdir(), 'eaas-root-key-'))
    try {
      const keys = [folder, other].map((dir) => readEmbeddedRootKey(dir, { mayCreate: true }))
      const [one, two] = await Promise.all(keys)
      expect(exported(one)).not.toEqual(exported(two))
    } finally {
      await rm(other, { recursive: true })
    }
  })

  it('is the same at every later start', async () => {
    const made = exported(await readEmbeddedRootKey(folder, { mayCreate: true }))
    expect(exported(await readEmbeddedRootKey(folder, { mayCreate: true }))).toEqual(made)
    expect(exported(await readEmbeddedRootKey(folder, { mayCreate: false }))).toEqual(made)
  })

  it('is never overwritten, with or without leave to make one', async () => {
    await writeFile(file, `${TEXT}\n`)
    for (const mayCreate of [true, false]) {
      expect(exported(await readEmbeddedRootKey(folder, { mayCreate }))).toEqual(KEY)
      expect(await readFile(file, 'utf8')).toBe(`${TEXT}\n`)
    }
    expect(await readdir(folder)).toEqual(['root.key'])
  })

  it('is never made for a database that has one already', async () => {
    const error = await refusal(readEmbeddedRootKey(folder, { mayCreate: false }))
    expect(error.message).toContain(`${file} is missing`)
    expect(await readdir(folder)).toEqual([])
  })

  it.each(UNUSABLE)('is refused, kept and never shown: %s', async (_, text) => {
    await writeFile(file, text)
    for (const mayCreate of [true, false]) {
      expectSilenceAbout(text, await refusal(readEmbeddedRootKey(folder, { mayCreate })))
      expect(await readFile(file, 'utf8')).toBe(text)
    }
  })

  it('comes to be although a crash left half a draft', async () => {
    await writeFile(`${file}.0123456789abcdef.new`, TEXT.slice(0, 10))
    await readEmbeddedRootKey(folder, { mayCreate: true })
    expect(await readFile(file, 'utf8')).toMatch(/^[A-Za-z0-9+/]{43}=\n$/)
    expect((await stat(file)).mode & MODE).toBe(0o600)
  })

  it('is kept although a crash left a draft of another one', async () => {
    await writeFile(file, TEXT)
    await writeFile(`${file}.0123456789abcdef.new`, Buffer.alloc(32, 1).toString('base64'))
    expect(exported(await readEmbeddedRootKey(folder, { mayCreate: true }))).toEqual(KEY)
    expect(await readFile(file, 'utf8')).toBe(TEXT)
  })

  // Otherwise a power cut could leave the database that was made next, and not the key that opens it.
  it.each(['it made', 'another process made'])(
    'is on the disk, with its name, before anything is sealed under it: %s',
    async (made) => {
      if (made === 'another process made') await writeFile(file, TEXT)
      synced.length = 0
      await readEmbeddedRootKey(folder, { mayCreate: true })
      expect(synced).toEqual([folder])
    },
  )

  it('is not made where the folder is missing', async () => {
    await expect(readEmbeddedRootKey(join(folder, 'nowhere'), { mayCreate: true })).rejects.toMatchObject({
      code: 'ENOENT',
    })
  })
})

function exported(key: { export(): Buffer } | undefined): Uint8Array | undefined {
  return key && new Uint8Array(key.export())
}

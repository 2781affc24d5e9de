// What `eaas root-key generate` writes: whole or not at all, and never in the place of something else.
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { armor, Decrypter, generateIdentity, identityToRecipient } from 'age-encryption'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { makeRootKey } from './generate.js'
import { parseRootKey } from './local-key.js'
import { combineShares, readShare } from './root-key-share.js'

/** What is called when the content of a folder was written to the disk. */
const onSync = vi.hoisted(() => ({ call: async (_path: string): Promise<void> => undefined }))
vi.mock('../../../audit/src/node/create-directory.js', async (original) => ({
  ...(await original<object>()),
  syncDirectory: (path: string) => onSync.call(path),
}))

const MODE = 0o777
const SPLIT = { shares: 3, threshold: 2 }
let folder: string
let file: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-generate-'))
  file = join(folder, 'root.key')
})
afterEach(async () => {
  onSync.call = async () => undefined
  await rm(folder, { recursive: true })
})

const make = (path: string, more: Partial<Parameters<typeof makeRootKey>[0]> = {}) =>
  makeRootKey({ path, recipients: [], ...more })

const refusal = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => expect.unreachable('not refused'),
    (error: Error) => error,
  )

interface Person {
  identity: string
  recipient: string
}

const people = (count: number): Promise<Person[]> =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const identity = await generateIdentity()
      return { identity, recipient: await identityToRecipient(identity) }
    }),
  )

async function decrypt(path: string, { identity }: Pick<Person, 'identity'>): Promise<string> {
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  return decrypter.decrypt(armor.decode(await readFile(path, 'utf8')), 'text')
}

const inHex = (text: string) => parseRootKey(text.trim(), 'test').export().toString('hex')

describe('a root key that is generated', () => {
  it('is a whole one that only its owner may read, and another one each time', async () => {
    const other = join(folder, 'other')
    const before = process.umask(0)
    try {
      await Promise.all([make(file), make(other)])
    } finally {
      process.umask(before)
    }
    expect((await stat(file)).mode & MODE).toBe(0o600)
    expect(await readFile(file, 'utf8')).toMatch(/^[A-Za-z0-9+/]{43}=\n$/)
    expect(inHex(await readFile(file, 'utf8'))).toHaveLength(64)
    expect(await readFile(other, 'utf8')).not.toBe(await readFile(file, 'utf8'))
    expect(await readdir(folder)).toEqual(['other', 'root.key'])
  })

  it('never takes the place of what is there: a key, an empty file, a link to nothing', async () => {
    const [person] = await people(1)
    const forms = [{}, { recipients: [person?.recipient ?? ''] }, { split: SPLIT }]
    for (const form of forms) {
      for (const text of ['a key', '']) {
        await writeFile(file, text)
        expect((await refusal(make(file, form))).message).toContain(`${file}: it exists already`)
        expect(await readFile(file, 'utf8')).toBe(text)
        expect(await readdir(folder)).toEqual(['root.key'])
      }
      await rm(file)
      const dangling = join(folder, 'dangling')
      await symlink(join(folder, 'nowhere'), dangling)
      expect((await refusal(make(dangling, form))).message).toContain('exists already')
      expect(await readdir(folder)).toEqual(['dangling'])
      await rm(dangling)
    }
  })

  it('is refused where the folder is missing', async () => {
    const path = join(folder, 'nowhere', 'key')
    for (const form of [{}, { split: SPLIT }]) {
      const { message } = await refusal(make(path, form))
      expect(message).toMatch(
        /^\S+ cannot be written \(ENOENT\), and nothing was\. Name a path in a folder that exists/,
      )
    }
  })

  it('is opened by each of its recipients alone, and by nobody else', async () => {
    const [one, two, stranger] = (await people(3)) as [Person, Person, Person]
    await make(file, { recipients: [one.recipient, two.recipient] })
    expect((await stat(file)).mode & MODE).toBe(0o600)
    expect(inHex(await decrypt(file, one))).toBe(inHex(await decrypt(file, two)))
    await expect(decrypt(file, stranger)).rejects.toThrow('no identity matched')
    expect(await readdir(folder)).toEqual(['root.key'])
  })

  it('may be that of a file', async () => {
    const [person] = (await people(1)) as [Person]
    await make(file)
    const copy = join(folder, 'copy')
    await make(copy, { recipients: [person.recipient], from: file })
    expect(await decrypt(copy, person)).toBe(await readFile(file, 'utf8'))
    await make(join(folder, 'shares'), { split: SPLIT, from: file })
    const shares = await Promise.all(
      ['share-3', 'share-1'].map(async (name) =>
        readShare(await readFile(join(folder, 'shares', name), 'utf8'), 'a file'),
      ),
    )
    const combined = Buffer.from(await combineShares(shares))
    expect(combined.toString('base64')).toBe((await readFile(file, 'utf8')).trim())
    await writeFile(file, 'changed')
    expect((await refusal(make(join(folder, 'other'), { from: file }))).message).not.toContain('changed')
  })
})

describe('a root key in shares', () => {
  it('has a share for each recipient, which nobody else opens', async () => {
    const team = await people(3)
    const { files, set } = await make(file, { split: SPLIT, recipients: team.map(({ recipient }) => recipient) })
    expect(files).toEqual([1, 2, 3].map((number) => join(file, `share-${number}.age`)))
    const lines = await Promise.all(files.map((path, at) => decrypt(path, team[at] as Person)))
    const shares = lines.map((line) => readShare(line, 'a file'))
    expect(shares.map(({ number, threshold, set }) => ({ number, threshold, set }))).toEqual(
      [1, 2, 3].map((number) => ({ number, threshold: 2, set })),
    )
    await expect(decrypt(files[0] ?? '', team[1] as Person)).rejects.toThrow('no identity matched')
    expect((await stat(file)).mode & MODE).toBe(0o700)
    for (const path of files) expect((await stat(path)).mode & MODE).toBe(0o600)
  })

  it('gets its name once all its files are on the disk: a crash before leaves nothing there', async () => {
    const seen: unknown[] = []
    onSync.call = async (path) => {
      const [draft = ''] = (await readdir(folder)).filter((name) => name.endsWith('.new'))
      const files = path.endsWith(draft) && draft ? await readdir(path) : []
      seen.push({ isThere: existsSync(file), files })
    }
    await make(file, { split: SPLIT })
    const files = ['share-1', 'share-2', 'share-3']
    expect(seen).toEqual([
      { isThere: false, files },
      { isThere: true, files: [] },
    ])
    expect(await readdir(folder)).toEqual(['root.key'])

    onSync.call = async () => {
      throw Object.assign(new Error('disk'), { code: 'EIO', syscall: 'fsync' })
    }
    const other = join(folder, 'other')
    expect((await refusal(make(other, { split: SPLIT }))).message).toContain('(EIO)')
    expect(await readdir(folder)).toEqual(['root.key'])
  })

  it('leaves a folder with something in it as it is', async () => {
    await mkdir(file)
    await writeFile(join(file, 'share-1'), 'another one')
    expect((await refusal(make(file, { split: SPLIT }))).message).toContain('exists already')
    expect(await readdir(file)).toEqual(['share-1'])
  })

  it.each([
    [{ shares: 3, threshold: 1 }],
    [{ shares: 2, threshold: 3 }],
    [{ shares: 1, threshold: 1 }],
    [{ shares: 256, threshold: 2 }],
  ])('is not made of %o', async (split) => {
    expect((await refusal(make(file, { split }))).message).toContain('A root key is split into 2 to 255 shares')
    expect(await readdir(folder)).toEqual([])
  })

  it('needs as many recipients as shares, each once', async () => {
    const [one, two] = (await people(2)).map(({ recipient }) => recipient) as [string, string]
    const made = (recipients: string[]) => refusal(make(file, { split: SPLIT, recipients }))
    expect((await made([one, two])).message).toContain('give 3 recipients')
    expect((await made([one, two, one])).message).toBe(`The recipient ${one} is given twice.`)
    expect(await readdir(folder)).toEqual([])
  })
})

describe('a recipient', () => {
  it('is refused unless it is one, before anything is made, and an identity is not repeated', async () => {
    const [{ identity, recipient }] = (await people(1)) as [Person]
    const zero = 'age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z' // a point of small order
    const malformed = [
      '',
      'age1',
      recipient.slice(0, -1),
      `${recipient}q`,
      recipient.toUpperCase(),
      zero,
      'ssh-ed25519 A',
    ]
    for (const one of [...malformed, ` ${recipient}`, `${recipient}\n`]) {
      const error = await refusal(make(file, { recipients: [one] }))
      expect([one, error.name]).toEqual([one, 'RecipientError'])
    }
    const { name, message } = await refusal(make(file, { recipients: [identity] }))
    expect([name, message]).toEqual(['RecipientError', expect.stringContaining('which is secret')])
    expect(message).not.toContain(identity)
    expect(await readdir(folder)).toEqual([])
  })
})

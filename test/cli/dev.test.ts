// `eaas dev`: a server for the folder of an application, which finds it by createClient() alone.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { platform } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClient } from '../../packages/sdk/src/index.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { EAAS, runEaas, startEaas } from '../support/service/eaas-process.js'

const TIMEOUT_MS = 120_000

let folder: GuardedDir
let file: string
let database: TestDatabase

beforeAll(async () => {
  folder = guardedDir('eaas-test-dev')
  database = await freshDatabase('dev', { created: false })
})
afterAll(() => folder.remove())
afterEach(() => vi.unstubAllEnvs())

const start = (environment = {}) =>
  startEaas({ database, rootKey: null, environment, command: [EAAS, 'dev', '--file', file] })
/** The most memory that a process had, in MB, as Linux counts it. */
const peakMemory = (pid: number) =>
  Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024
const written = () => parseEnv(readFileSync(file, 'utf8'))
const listKeys = () => {
  for (const [name, value] of Object.entries(written())) vi.stubEnv(name, value ?? '')
  return createClient().keys.list()
}

describe.skipIf(backend() === 'postgres')('eaas dev', { timeout: TIMEOUT_MS }, () => {
  it('writes where createClient() finds it, takes little memory, and shows no secret', async () => {
    file = join(folder.path, '.env.local')
    const eaas = await start()
    // With PGlite's WebAssembly optimized, 300 MB and more, and 750 on Node 24.
    if (platform() === 'linux') expect(peakMemory(eaas.pid)).toBeLessThan(250)
    expect(written()).toEqual({ EAAS_URL: eaas.url, EAAS_API_KEY: expect.stringMatching(/^eaas_sk_/) })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect((await listKeys()).keys).toEqual([])
    const { stdout, stderr } = await eaas.stop()
    expect(stdout.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^Creating a database in \/\S+$/),
      `EaaS is listening on ${eaas.url}`,
      expect.stringMatching(/has EAAS_URL and EAAS_API_KEY/),
      expect.stringMatching(/^For development only\. Data stays in/),
      `${join(folder.path, '.gitignore')} names .env.local now, which has a secret`,
    ])
    expect(stdout + stderr).not.toContain('eaas_sk_')
  })

  it('keeps the API key that works, and makes another one in the place of one that does not', async () => {
    const { EAAS_API_KEY } = written()
    const first = await start()
    expect((await first.stop()).stdout).toMatch(/^Opening the database in/)
    expect(written().EAAS_API_KEY).toBe(EAAS_API_KEY)
    const { port } = new URL(first.url)
    writeFileSync(file, `EAAS_URL=http://localhost:${port}\nEAAS_API_KEY=eaas_sk_lost\n`)
    const eaas = await start({ EAAS_PORT: port })
    expect(written().EAAS_API_KEY).not.toBe('eaas_sk_lost')
    await expect(listKeys()).resolves.toBeDefined()
    const options = { database, rootKey: null, environment: { EAAS_PORT: port } }
    const { code, stderr } = await runEaas(['dev', '--file', file], options)
    expect([code, stderr]).toEqual([1, expect.stringContaining(`eaas dev already runs here, process ${eaas.pid}: `)])
    await eaas.stop()
  })

  it('leaves all other lines and a link as they are, and lets only the owner read its API key', async () => {
    const target = join(folder.path, 'shared.env')
    file = join(folder.path, 'link.env')
    writeFileSync(target, '# mine\nexport EAAS_URL="http://127.0.0.1:1"\nNAME="a b"\nNOT_EAAS_URL=x')
    chmodSync(target, 0o644)
    symlinkSync(target, file)
    const eaas = await start()
    const text = readFileSync(target, 'utf8')
    expect(text).toMatch(/^# mine\nNAME="a b"\nNOT_EAAS_URL=x\nEAAS_URL=\S+\nEAAS_API_KEY=\S+\n$/)
    expect(statSync(target).mode & 0o777).toBe(0o600)
    await eaas.stop()
    chmodSync(target, 0o644)
    const again = await start({ EAAS_PORT: new URL(eaas.url).port }) // its URL is there already
    expect((await again.stop()).stdout).toContain(
      `other users can read or change ${file}, which has a secret: chmod 600`,
    )
  })

  it('makes no API key where the file cannot be written, and says why', async () => {
    file = join(folder.path, '.env.local')
    await (await start()).stop()
    const count = async () => {
      const run = await runEaas(['api-key', 'list', '--tenant', 'default', '--json'], { database, rootKey: null })
      return run.stdout.match(/eaas dev/g)?.length
    }
    const before = await count()
    const path = join(folder.path, 'dangling.env')
    symlinkSync(join(folder.path, 'nowhere', 'x'), path)
    const folderOf = join(folder.path, 'folder.env')
    mkdirSync(folderOf)
    for (const [at, why] of [
      [path, /is a symbolic link that leads to no file/],
      [folderOf, /cannot be read: it is a directory/],
      [join(folder.path, 'none', '.env'), /cannot be written \(ENOENT\), and nothing was/],
    ] as const) {
      const { code, stderr } = await runEaas(['dev', '--file', at], { database, rootKey: null })
      expect([code, stderr]).toEqual([1, expect.stringMatching(why)])
      expect(stderr).not.toMatch(/^ +at /m)
    }
    expect(await count()).toBe(before)
    rmSync(path)
  })

  it('writes through no .gitignore that is a link, which git does not follow', async () => {
    const project = mkdtempSync(join(folder.path, 'project-'))
    file = join(project, '.env.local')
    const outside = join(folder.path, 'outside')
    symlinkSync(outside, join(project, '.gitignore'))
    const { stdout } = await (await start()).stop()
    expect(stdout).toContain('.gitignore is a symbolic link, which git does not follow: .env.local has a secret')
    expect(existsSync(outside)).toBe(false)
  })

  it.each([
    ['no .gitignore', undefined, '.env.local\n'],
    ['one that ends without a line break', 'dist', 'dist\n.env.local\n'],
    ['one that names another', '# .env.local\n.env.locals\n!.env\n', '# .env.local\n.env.locals\n!.env\n.env.local\n'],
    ['one that names it', 'dist\r\n/.env.local\r\n', undefined],
    ['one that names it by a pattern', '.env*.local\n', undefined],
  ])('names its file to git where there is no repository yet, and %s', async (_, before, after = before) => {
    const project = mkdtempSync(join(folder.path, 'project-'))
    file = join(project, '.env.local')
    if (before !== undefined) writeFileSync(join(project, '.gitignore'), before)
    const eaas = await start()
    const { stdout } = await eaas.stop()
    expect(readFileSync(join(project, '.gitignore'), 'utf8')).toBe(after)
    expect(stdout.includes('.gitignore names .env.local now')).toBe(after !== before)
  })

  it('says nothing where git ignores the file, and what to do where git has it already', async () => {
    const project = mkdtempSync(join(folder.path, 'project-'))
    const git = (...argv: string[]) => execFileSync('git', ['-C', project, ...argv], { encoding: 'utf8' })
    git('init', '--quiet')
    file = join(project, '.env.local')
    await (await start()).stop()
    expect(git('status', '--porcelain')).toBe('?? .gitignore\n')
    expect((await (await start()).stop()).stdout).not.toContain('git')
    git('add', '--force', '.env.local')
    expect((await (await start()).stop()).stdout).toContain(
      `git does not ignore ${file}, which has a secret: git rm --cached`,
    )
    expect(readFileSync(join(project, '.gitignore'), 'utf8')).toBe('.env.local\n')
  })

  it.each([
    ['another server', { text: 'EAAS_URL=https://eaas.example.org\n' }, /has the EAAS_URL of another server/],
    [
      'a name like an address',
      { text: 'EAAS_URL=http://127.0.0.1.example.org\n' },
      /has the EAAS_URL of another server/,
    ],
    ['no URL', { text: 'EAAS_URL=elsewhere\n' }, /has the EAAS_URL of another server/],
    ['an API key whose URL is elsewhere', { text: 'EAAS_API_KEY=eaas_sk_other\n' }, /that this server does not accept/],
    [
      'an API key of another server of this machine',
      { text: 'EAAS_URL=http://127.0.0.1:1\nEAAS_API_KEY=eaas_sk_other\n' },
      /that this server does not accept/,
    ],
    ['PostgreSQL', { set: { EAAS_DATABASE_URL: 'postgres://127.0.0.1/x' } }, /EAAS_DATABASE_URL is set/],
    ['other machines', { set: { EAAS_HOST: '0.0.0.0' } }, /EAAS_HOST lets other machines in/],
  ])(
    'is refused for %s, and changes nothing',
    async (_, { text = 'A=1\n', set = {} }: { text?: string; set?: object }, why) => {
      const path = join(folder.path, 'other.env')
      writeFileSync(path, text)
      const options = { database, rootKey: null, environment: { ...set } }
      const { code, stderr } = await runEaas(['dev', '--file', path], options)
      expect([code, stderr]).toEqual([1, expect.stringMatching(why)])
      expect(readFileSync(path, 'utf8')).toBe(text)
    },
  )
})

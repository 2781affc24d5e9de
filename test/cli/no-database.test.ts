// A command in the wrong folder, or with the URL of another database: it reports that, and creates nothing there.
import { randomBytes, randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { copyCreatedCluster } from '../support/database/created-cluster.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo, runEaas } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { ROOT } from '../support/sources/source-files.js'

const TIMEOUT_MS = 120_000
const UUID = '00000000-0000-4000-8000-000000000000'
const COMMANDS = [
  'tenant list',
  'tenant show x',
  'tenant set x --envelope-only false',
  'api-key create --tenant x --name y --permissions all',
  'api-key list --tenant x',
  `api-key revoke ${UUID} --tenant x`,
  'audit list --tenant x',
  'audit verify --tenant x',
  'audit export --tenant x',
  'audit checkpoint --tenant x',
  'audit public-key',
  'purge',
  'purge --dry-run',
]

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-no-database-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.skipIf(backend() === 'postgres')('in a folder without a database', () => {
  it.each(COMMANDS)('eaas %s says so, and leaves nothing there', { timeout: TIMEOUT_MS }, async (command) => {
    const database: TestDatabase = { backend: 'embedded', dataDir: join(folder, 'none'), drop: async () => undefined }
    const { code, stdout, stderr } = await runCommand(command.split(' '), { database, rootKey: null })
    expect([code === 0, stdout]).toEqual([false, ''])
    expect(stderr).toMatch(/^eaas: There is no database in .*none\. Set EAAS_DATA_DIR to its directory/)
    expect(await readdir(folder)).toEqual([])
  })

  it('eaas tenant create makes one', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('new', { created: false })
    await createTenantByCli({ database, rootKey: null }, 'first')
    expect((await runCommand(['tenant', 'list'], { database, rootKey: null })).code).toBe(0)
  })
})

describe('on a new database', () => {
  it.each(['tenant list', 'audit public-key'])(
    'eaas %s makes no installation',
    { timeout: TIMEOUT_MS },
    async (command) => {
      const database = await freshDatabase('new')
      const { code, stdout, stderr } = await runCommand(command.split(' '), { database })
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toMatch(
        /^eaas: There is no installation yet in this database .* Create it: eaas start\. If that has just begun, wait until it listens\n$/,
      )
      if (database.backend === 'embedded') return
      const sql = connectTo(database)
      expect(await sql`select 1 from pg_tables where schemaname = 'public'`).toHaveLength(0)
      await sql.end()
    },
  )
})

describe.skipIf(backend() === 'embedded')('a database that PostgreSQL does not have', () => {
  it('is named, with what to do', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('absent')
    if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
    const url = database.url.replace(/\/[^/]+$/, '/absent')
    const { code, stdout, stderr } = await runCommand(['tenant', 'list'], { database: { ...database, url } })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(
      /^eaas: .*"absent" does not exist.*: create the database, or correct its name in EAAS_DATABASE_URL\n$/,
    )
  })
})

describe.skipIf(backend() === 'embedded')('a PostgreSQL database in another encoding', () => {
  async function createIn(encoding: string): Promise<TestDatabase> {
    const beside = await freshDatabase('beside')
    if (beside.backend !== 'postgres') throw new Error('not PostgreSQL')
    const name = `encoding_${randomUUID().replaceAll('-', '_')}`
    const sql = connectTo(beside)
    await sql.unsafe(`create database ${name} encoding '${encoding}' locale 'C' template template0`)
    await sql.end()
    const named = (url: string) => url.replace(/[^/]+$/, name)
    return { ...beside, url: named(beside.url), directUrl: named(beside.directUrl) }
  }

  it('is refused, with what to do, before a name is stored as another one', { timeout: TIMEOUT_MS }, async () => {
    const database = await createIn('EUC_JP')
    const says = /The database at .* has the encoding EUC_JP, .*: create another one with .* encoding 'UTF8' .*pg_dump/
    for (const command of ['migrate', 'start', 'doctor', 'tenant list', 'tenant create --name a¦b']) {
      const { code, stdout, stderr } = await runCommand(command.split(' '), { database })
      expect([command, code, stdout + stderr]).toEqual([command, 1, expect.stringMatching(says)])
      expect(stderr).not.toMatch(/\n\s+at /)
    }
    const sql = connectTo(database)
    expect(await sql`select 1 from pg_tables where schemaname = 'public'`).toHaveLength(0)
    await sql.end()
  })

  it('is used if it is SQL_ASCII, which stores every name as it is', { timeout: TIMEOUT_MS }, async () => {
    const database = await createIn('SQL_ASCII')
    await createTenantByCli({ database }, 'a¦b 日本')
    const { code, stdout } = await runCommand(['tenant', 'list'], { database })
    expect([code, stdout]).toEqual([0, expect.stringContaining('a¦b 日本')])
    expect((await runCommand(['doctor'], { database })).stdout).toContain('No check failed')
  })
})

// Only root can give a folder away, and only root would get into another user's.
describe.skipIf(backend() === 'postgres' || process.getuid?.() !== 0)("another user's data directory", () => {
  const OTHER = 12_345

  it('is refused before anything is left there that would lock its owner out', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('foreign')
    if (database.backend !== 'embedded') throw new Error('not embedded')
    await createTenantByCli({ database }, 'first')
    const before = await readdir(database.dataDir)
    for (const name of before.filter((name) => /^(postgres$|server\.lock)/.test(name))) {
      const path = join(database.dataDir, name)
      await chown(path, OTHER, OTHER)
      for (const command of ['tenant list', 'start', 'doctor']) {
        const { code, stdout, stderr } = await runCommand(command.split(' '), { database })
        expect([command, code]).toEqual([command, 1])
        expect(stdout + stderr).toContain(`${path} belongs to user ${OTHER}, and this process runs as user 0`)
        expect(stderr).not.toMatch(/\n\s+at /)
        expect(await readdir(database.dataDir)).toEqual(before)
      }
      await chown(path, 0, 0)
    }
  })

  it('is refused to root while it is empty, since what root makes there would lock its owner out', async () => {
    const dataDir = await mkdtemp(join(folder, 'empty-'))
    await chown(dataDir, OTHER, OTHER)
    const database: TestDatabase = { backend: 'embedded', dataDir, drop: async () => undefined }
    const { code, stderr } = await runCommand(['tenant', 'create', '--name', 'first'], { database })
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`${dataDir} belongs to user ${OTHER}, and this process`),
    ])
    expect(await readdir(dataDir)).toEqual([])
  })

  it.each([
    ['its group may write', { owner: 0, group: 3000, mode: 0o2775 }],
    ['everybody may write', { owner: 0, group: 0, mode: 0o777 }],
    ['another user shares by a group', { owner: 54_321, group: 3000, mode: 0o2770 }],
  ])(
    'is not what the root of a volume is, where %s: a server starts there again and again',
    {
      timeout: TIMEOUT_MS,
    },
    async (_, { owner, group, mode }) => {
      const parent = await mkdtemp('/tmp/eaas-volume-')
      const dataDir = join(parent, 'volume')
      await chmod(parent, 0o755)
      await mkdir(dataDir)
      await chown(dataDir, owner, group)
      await chmod(dataDir, mode)
      const database: TestDatabase = { backend: 'embedded', dataDir, drop: async () => undefined }
      const under = ['setpriv', `--reuid=${OTHER}`, '--regid=0', '--groups=3000', '--'] as const
      const run = async (command: string) => runEaas(command.split(' '), { database, under })
      expect(await run('doctor')).toMatchObject({ code: 0, stderr: '' })
      expect(await run('tenant create --name first')).toMatchObject({ code: 0, stderr: '' })
      expect(await run('tenant list')).toMatchObject({ code: 0, stderr: '' })
      // What is in it is that user's now, so root is refused, and is not told to give it away to root.
      const { code, stderr } = await runCommand(['tenant', 'list'], { database })
      expect([code, stderr]).toEqual([1, expect.stringContaining(`sudo -u '#${OTHER}'`)])
      await chown(join(dataDir, 'postgres'), 0, 0)
      const { stderr: refusal } = await run('tenant list')
      expect(refusal).toMatch(/postgres belongs to user 0, .*To give the directory to another user/)
      expect(refusal).not.toMatch(/sudo|run it as|runAsUser/i)
      await rm(parent, { recursive: true })
    },
  )

  it('is refused in one sentence to a user who may not use the socket of the server that runs there', {
    timeout: TIMEOUT_MS,
  }, async ({ skip }) => {
    skip(
      !isOpenToOthers(ROOT),
      'the other user could not start the program: only root may enter the folder of this checkout',
    )
    const parent = await mkdtemp('/tmp/eaas-foreign-')
    await chmod(parent, 0o755)
    const database: TestDatabase = { backend: 'embedded', dataDir: join(parent, 'data'), drop: async () => undefined }
    await copyCreatedCluster(inject('runDir'), join(database.dataDir, 'postgres'))
    const eaas = await startServer({ database })
    const under = ['setpriv', `--reuid=${OTHER}`, `--regid=${OTHER}`, '--clear-groups', '--'] as const
    const { code, stdout, stderr } = await runEaas(['tenant', 'list'], { database, under })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(
      /^eaas: Whether a server holds .* may not use its socket: run this as the user that the server runs as\.\n$/,
    )
    await eaas.stop()
    await rm(parent, { recursive: true })
  })

  it('is open to commands beside the server that runs there: they go through its socket', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const database = await freshDatabase('foreign')
    if (database.backend !== 'embedded') throw new Error('not embedded')
    const eaas = await startServer({ database })
    await chown(database.dataDir, OTHER, OTHER)
    expect((await runCommand(['tenant', 'list'], { database })).code).toBe(0)
    await eaas.stop()
  })
})

describe('a database that lost its installation, while the checkpoint file still has it', () => {
  // On the embedded database, nothing but its data directory says which schema is used; behind a pooler, its sessions keep the old one.
  it.each(
    [
      ['because somebody emptied every table', emptyTables],
      ['because it leads to another schema', leadElsewhere],
    ].slice(0, backend() === 'postgres' && !isPooled() ? 2 : 1) as [string, typeof emptyTables][],
  )('%s, becomes no new one', { timeout: TIMEOUT_MS }, async (_, lose) => {
    const database = await freshDatabase('lost')
    const environment = { EAAS_CHECKPOINT_FILE: join(folder, randomUUID()) }
    const eaas = await startServer({ database, environment })
    const sql = connectTo(database)
    try {
      await lose(sql)
    } finally {
      await sql.end()
    }
    await eaas.stop()
    const run = (...args: string[]) => runCommand(args, { database, environment })
    for (const command of [['start'], ['migrate'], ['tenant', 'create', '--name', 'new']]) {
      expect(await run(...command)).toEqual({
        code: 1,
        stdout: expect.stringMatching(/^(Opening the database in \S+\n)?$/),
        stderr: expect.stringMatching(
          /^eaas: There is no installation in this database, but .* holds checkpoints of one/,
        ),
      })
    }
    const { code, stdout } = await run('doctor')
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/WRONG +checkpoints +There is no installation in this database/),
    ])
    // Without the file nobody knows what is lost: an upgrade asks for an installation that exists.
    const blind = { database, environment: { EAAS_CHECKPOINT_FILE: 'none' } }
    expect(await runCommand(['migrate', '--existing'], blind)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no installation'),
    })
    expect((await runCommand(['migrate'], blind)).code).toBe(0)
    expect((await runCommand(['migrate', '--existing'], blind)).code).toBe(0)
    expect((await run('doctor')).stdout).toContain('the server does not use the database that it used before')
  })

  it('is not compared without the root key, and doctor says so', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('keyless')
    const environment = { EAAS_CHECKPOINT_FILE: join(folder, randomUUID()) }
    await (await startServer({ database, environment })).stop()
    const { stdout } = await runCommand(['doctor'], {
      database,
      environment,
      rootKey: randomBytes(32).toString('base64'),
    })
    expect(stdout).toMatch(/WARN +checkpoints +not compared with .*, for want of the root key/)
  })
})

/** Whether every user may enter a folder, and so each of the folders that it is in. */
function isOpenToOthers(folder: string): boolean {
  const isOpen = (statSync(folder).mode & 0o001) !== 0
  return isOpen && (dirname(folder) === folder || isOpenToOthers(dirname(folder)))
}

async function emptyTables(sql: postgres.Sql): Promise<void> {
  const tables = await sql<{ tablename: string }[]>`
    select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_version'`
  await sql`truncate ${sql(tables.map(({ tablename }) => tablename))}`
}

async function leadElsewhere(sql: postgres.Sql): Promise<void> {
  await sql`create schema elsewhere`
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`select current_database() as name`
  await sql`alter database ${sql(name)} set search_path = elsewhere`
}

// With another database's root key, or an invalid one, no command starts a server or writes anything.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT_KEY_VARIABLES } from '../../packages/server/src/core/config.js'
import { openStore } from '../../packages/server/src/core/store/open-store.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, type Ended, ROOT_KEY, untilHealthy } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'

const TIMEOUT_MS = 120_000
const another = () => randomBytes(32).toString('base64')
const truncated = Buffer.from(ROOT_KEY, 'base64').subarray(0, 31).toString('base64')

/** Reads every row of every table as text. */
async function contents(sql: postgres.Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables where table_schema = 'public' order by 1`
  const parts: string[] = []
  for (const { name } of tables) {
    const rows = await sql<{ row: string }[]>`select t::text as row from ${sql(name)} t order by 1`
    parts.push(name, ...rows.map(({ row }) => row))
  }
  return parts.join('\n')
}

/** Reads the contents of a database; opens an embedded one, which no server may have then, in this process. */
async function contentsAtRest(database: TestDatabase): Promise<string> {
  if (database.backend === 'postgres') {
    const sql = connectTo(database)
    return contents(sql).finally(() => sql.end())
  }
  const location = { databaseUrl: undefined, dataDir: database.dataDir, databasePooler: 'none' } as const
  const store = await openStore(location, { beside: false, mayCreate: false })
  return contents(store.sql).finally(() => store.close())
}

function expectRefusal({ code, stdout, stderr }: Ended, sentence: RegExp): void {
  expect(stderr).toMatch(sentence)
  expect(stderr).not.toMatch(/\n\s+at /)
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^(?:(?:Opening the|Creating a) database in \S+\n)?$/)])
}

describe('a database that has its root key', () => {
  let database: TestDatabase
  let before: string
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-root-key-'))
    ;({ database } = await databaseWithTenant())
    before = await contentsAtRest(database)
  }, TIMEOUT_MS)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function file(text: string): Promise<string> {
    const path = join(folder, randomBytes(6).toString('hex'))
    await writeFile(path, text)
    return path
  }

  it('is not started with another root key, and nothing in it changes', { timeout: TIMEOUT_MS }, async () => {
    for (const args of [['start'], ['tenant', 'create', '--name', 'x', '--json']]) {
      const refused = await runCommand(args, { database, rootKey: another() })
      expectRefusal(refused, /^eaas: The root key does not belong to this database\. Set the one /)
      for (const variable of Object.values(ROOT_KEY_VARIABLES)) expect(refused.stderr).toContain(variable)
    }
    const EAAS_ROOT_KEY_FILE = await file(another())
    const refused = await runCommand(['start'], { database, rootKey: null, environment: { EAAS_ROOT_KEY_FILE } })
    expectRefusal(refused, /^eaas: The root key does not belong to this database\./)
    expect(await contentsAtRest(database)).toBe(before)
  })

  it('is not started with what is no root key, and nothing in it changes', { timeout: TIMEOUT_MS }, async () => {
    const make = / needs its own root key, by the variable .* Only for a new one, .*: eaas root-key generate$/m
    for (const [rootKey, sentence] of [
      [truncated, /EAAS_ROOT_KEY must be 32 bytes, got 31\./],
      [ROOT_KEY.slice(0, -1), /EAAS_ROOT_KEY is not standard base64\./],
      ['changeme', /EAAS_ROOT_KEY must be 32 bytes, got 6\./],
    ] as const) {
      const refused = await runCommand(['start'], { database, rootKey })
      expectRefusal(refused, sentence)
      expect(refused.stderr).toMatch(make)
      expect(refused.stderr).not.toContain(rootKey)
    }
    for (const [path, sentence] of [
      [await file(truncated), /must be 32 bytes, got 31\./],
      [await file(''), /must be 32 bytes, got 0\./],
      [join(folder, 'nowhere'), /nowhere is missing\. An installation that exists needs its own root key/],
      [folder, /cannot be read \(EISDIR\)/],
    ] as const) {
      const environment = { EAAS_ROOT_KEY_FILE: path }
      expectRefusal(await runCommand(['start'], { database, rootKey: null, environment }), sentence)
    }
    const both = await runCommand(['start'], { database, environment: { EAAS_ROOT_KEY_FILE: await file(ROOT_KEY) } })
    expectRefusal(both, /^eaas: EAAS_ROOT_KEY and EAAS_ROOT_KEY_FILE are both set\. Set only one of them\.\n$/)
    expect(await contentsAtRest(database)).toBe(before)
  })

  it('names the file of the new root key that does not exist', { timeout: TIMEOUT_MS }, async () => {
    const refused = await runCommand(['root-key', 'rotate', '--to-file', join(folder, 'nowhere')], { database })
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(
      /^error: option '--to-file <path>' argument '.*nowhere' is invalid\. There is no such file/,
    )
  })

  it('is not started without a root key, and no new one is made for it', { timeout: TIMEOUT_MS }, async () => {
    const sentence =
      database.backend === 'embedded'
        ? /root\.key is missing\. An installation that exists needs its own root key/
        : /no variable says where the root key is\. .* Only for a new one, .*: eaas root-key generate/
    const refused = await runCommand(['start'], { database, rootKey: null })
    expectRefusal(refused, sentence)
    for (const variable of Object.values(ROOT_KEY_VARIABLES)) expect(refused.stderr).toContain(variable)
    if (database.backend === 'embedded') expect(await readdir(database.dataDir)).not.toContain('root.key')
    expect(await contentsAtRest(database)).toBe(before)
  })
})

describe('a new database', () => {
  it('starts with a root key that was generated, which no output shows', { timeout: TIMEOUT_MS }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'eaas-root-key-'))
    try {
      const path = join(folder, 'key')
      const database = await freshDatabase('root_key', { created: false })
      const made = await runCommand(['root-key', 'generate', '--out', path], { database, rootKey: null })
      const key = (await readFile(path, 'utf8')).trim()
      expect(made).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(path) })
      expect(made.stdout).not.toContain(key)
      if (database.backend === 'embedded') expect(await readdir(database.dataDir)).toEqual([])
      const other = join(folder, 'other')
      const asJson = await runCommand(['root-key', 'generate', '--out', other, '--json'], { database, rootKey: null })
      expect(asJson).toMatchObject({ code: 0, stderr: '', stdout: `${JSON.stringify({ file: other })}\n` })
      const again = await runCommand(['root-key', 'generate', '--out', path], { database, rootKey: null })
      expectRefusal(again, /key: it exists already, and is not overwritten/)
      expect((await readFile(path, 'utf8')).trim()).toBe(key)

      const environment = { EAAS_ROOT_KEY_FILE: path }
      const created = ['tenant', 'create', '--name', 'x', '--json']
      expect((await runCommand(created, { database, rootKey: null, environment })).code).toBe(0)
      expectRefusal(await runCommand(['tenant', 'list'], { database, rootKey: another() }), /does not belong to this/)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('stays empty where the root key is no key', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('root_key', { created: false })
    expectRefusal(await runCommand(['start'], { database, rootKey: truncated }), /must be 32 bytes, got 31\./)
    if (database.backend === 'embedded') expect(await readdir(database.dataDir)).toEqual([])
    else expect(await contentsAtRest(database)).toBe('')
  })
})

describe.skipIf(backend() === 'postgres')('the root key of a data directory (PostgreSQL has none)', () => {
  it('refuses to start when root.key was exchanged, truncated, emptied or lost', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('root_key')
    if (database.backend !== 'embedded') throw new Error('this is about the embedded database')
    const path = join(database.dataDir, 'root.key')
    const start = () => runCommand(['start'], { database, rootKey: null })
    const eaas = await startServer({ database, rootKey: null })
    await eaas.stop()
    const genuine = await readFile(path, 'utf8')
    const before = await contentsAtRest(database)

    for (const [text, sentence] of [
      [another(), /does not belong to this database/],
      [genuine.slice(0, 20), /root\.key must be 32 bytes, got 15\. .* Only for a new one, /],
      ['', /root\.key must be 32 bytes, got 0\./],
    ] as const) {
      await writeFile(path, text)
      expectRefusal(await start(), sentence)
      expect(await readFile(path, 'utf8')).toBe(text)
    }
    await rm(path)
    expectRefusal(await start(), /root\.key is missing\. An installation that exists needs its own/)
    expect(existsSync(path)).toBe(false)

    await writeFile(path, genuine)
    expect(await contentsAtRest(database)).toBe(before)
  })
})

describe.skipIf(backend() === 'embedded')(
  'servers with different root keys (an embedded database has one server)',
  () => {
    it('do not run on one database: the second is refused, and the first goes on', {
      timeout: TIMEOUT_MS,
    }, async () => {
      const database = await freshDatabase('root_key')
      const first = await startServer({ database })
      let before = ''
      // The server that has just started still writes its first anchor.
      for (let now = await contentsAtRest(database); now !== before; now = await contentsAtRest(database)) {
        before = now
        await sleep(500)
      }
      expectRefusal(await runCommand(['start'], { database, rootKey: another() }), /does not belong to this database/)
      expect(await contentsAtRest(database)).toBe(before)
      await untilHealthy(first)
      await first.stop()
    })

    it('do not both start on a new database, however close together', { timeout: TIMEOUT_MS }, async () => {
      for (let round = 0; round < 3; round++) {
        const database = await freshDatabase('root_key')
        const starts = await Promise.allSettled(
          [another(), another(), another()].map((rootKey) => startServer({ database, rootKey })),
        )
        const started = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
        const refused = starts.flatMap((start) => (start.status === 'rejected' ? [String(start.reason)] : []))
        expect(started).toHaveLength(1)
        for (const reason of refused) expect(reason).toContain('The root key does not belong to this database')
        await Promise.all(started.map((server) => server.stop()))
      }
    })
  },
)

// eaas backup and eaas restore: a copy that is consistent while servers write, that nobody but its recipients reads, and that is restored whole or not at all.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { generateIdentity, identityToRecipient } from 'age-encryption'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Sql } from '../../packages/server/src/core/store/db.js'
import { GRANTED_TABLES } from '../../packages/server/src/core/store/grants.js'
import { findBackupAge } from '../../packages/server/src/core/store/instance.js'
import { openStore } from '../../packages/server/src/core/store/open-store.js'
import { noteBackup, readAllRows } from '../../packages/server/src/operate/store/all-rows.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo, EAAS, environmentOf, ROOT_KEY } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'

let folder: string
let database: TestDatabase
let secret: string
let plain: string
let sealed: string
let identity: string
/** of the database, as `sealed` has them */
let before: Record<string, string[]>
/** a trial restore creates an embedded database */
let environment: Record<string, string>

const file = (name: string) => join(folder, name)
const eaas = (args: string[], on: TestDatabase = database, rootKey = ROOT_KEY) =>
  runCommand(args, { database: on, rootKey, environment })
const check = async (path: string, ...more: string[]) => {
  const { code, stdout, stderr } = await eaas(['restore', '--check', path, ...more])
  return [code, stdout + stderr] as const
}

function locationOf(on: TestDatabase) {
  return on.backend === 'postgres'
    ? { databaseUrl: on.url, databasePooler: 'auto' as const, dataDir: '' }
    : { databaseUrl: undefined, databasePooler: 'auto' as const, dataDir: on.dataDir }
}

async function onStore<T>(work: (sql: Sql) => Promise<T>, on = database): Promise<T> {
  const { sql, close } = await openStore(locationOf(on), { beside: true, mayCreate: false })
  return work(sql).finally(close)
}

/** Every row of every table, by the driver alone. */
function rowsOf(on: TestDatabase): Promise<Record<string, string[]>> {
  return onStore(async (sql) => {
    const all: Record<string, string[]> = {}
    for (const table of GRANTED_TABLES) {
      const [found] = await sql<{ found: boolean }[]>`select to_regclass(${table}) is not null as found`
      if (!found?.found) continue
      const rows = await sql<{ row: string }[]>`select t::text as row from ${sql(table)} as t order by 1`
      all[table] = rows.map(({ row }) => row)
    }
    return all
  }, on)
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-backup-'))
  environment = { TMPDIR: folder }
  identity = await generateIdentity()
  await writeFile(file('identity'), `# created: today\n# public key: age1\n${identity}\n`)
  const tenant = await databaseWithTenant()
  ;({ database } = tenant)
  secret = tenant.api_key.secret
  await createTenantByCli({ database }, 'Żółć "quoted" \\ back')
  const server = await startServer({ database })
  const call = callsOf(secret)
  const { id } = (await call(server.url, 'POST', '/v1/keys', { name: 'users' })).body as { id: string }
  await call(server.url, 'POST', `/v1/keys/${id}/rotate`)
  await server.stop()
  plain = file('plain')
  sealed = file('sealed')
  expect((await eaas(['backup', plain, '--plain'])).code).toBe(0)
  before = await rowsOf(database)
  expect((await eaas(['backup', sealed, '--recipient', await identityToRecipient(identity)])).code).toBe(0)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('a backup', () => {
  it('is restored with every row as it was, under the same root key', async () => {
    const restored = await freshDatabase('restored')
    const { code, stdout } = await eaas(['restore', sealed, '--identity', file('identity'), '--json'], restored)
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { schema: expect.any(Number), rows: expect.any(Number) }])
    const rows = await rowsOf(restored)
    expect(rows).toEqual(before)
    expect(rows.keys?.length).toBe(1)
    const server = await startServer({ database: restored })
    expect((await callsOf(secret)(server.url, 'GET', '/v1/keys')).status).toBe(200)
    await server.stop()
  })

  it('is noted in the database, for operators, once its file is whole', async () => {
    const age = await onStore((sql) => findBackupAge(sql))
    expect(age).toBeGreaterThan(0)
    await onStore((sql) => noteBackup(sql, '2020-01-01T00:00:00Z'))
    expect(await onStore((sql) => findBackupAge(sql)), 'the newest stays').toBeLessThan(3_600)
    for (const forged of ['infinity', '-infinity', '2999-01-01T00:00:00Z']) {
      await onStore((sql) => sql`update instance set backed_up_at = ${forged}`)
      expect(await onStore((sql) => findBackupAge(sql)), forged).toBeNull()
      await onStore((sql) => noteBackup(sql, new Date().toISOString()))
      expect(await onStore((sql) => findBackupAge(sql)), forged).toBeLessThan(60)
    }
    await onStore((sql) => sql`alter table instance rename column backed_up_at to earlier`)
    const { code, stdout } = await eaas(['backup', file('of-another-schema'), '--plain'])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/could not be noted in the database.*backed_up_at/)])
    await onStore((sql) => sql`alter table instance rename column earlier to backed_up_at`)
    const noted = await eaas(['backup', file('noted'), '--plain', '--json'])
    expect(JSON.parse(noted.stdout)).toMatchObject({ is_noted: true })
  })

  it('is consistent while a server writes', async () => {
    const server = await startServer({ database })
    let isDone = false
    const write = async () => {
      while (!isDone) await callsOf(secret)(server.url, 'POST', '/v1/keys', { name: `${Math.random()}` })
    }
    const writing = Promise.all([write(), write(), write()])
    expect((await eaas(['backup', file('under-load'), '--plain'])).code).toBe(0)
    isDone = true
    await writing
    await server.stop()
    expect(await check(file('under-load'))).toEqual([0, expect.stringMatching(/^Valid: \d+ rows of schema \d+, of/)])
  })

  // The embedded database serves nobody else until the last row is read.
  it.skipIf(backend() === 'embedded')('hides what is committed after its first row was read', async () => {
    const { sql, close } = await openStore(locationOf(database), { beside: false, mayCreate: false })
    const lines = readAllRows(sql, { version: '0' })
    await lines.next()
    const { tenant_id } = await createTenantByCli({ database }, 'meanwhile')
    let rest = ''
    for await (const line of lines) rest += line
    expect([rest.includes('audit_log'), rest.includes(tenant_id)]).toEqual([true, false])
    await close()
  })

  // Such a change would empty a table for a snapshot that is older: the backup would lack its rows, and nobody would know.
  it.skipIf(backend() === 'embedded')('keeps tables from being rewritten until its last row is read', async () => {
    const { sql, close } = await openStore(locationOf(database), { beside: false, mayCreate: false })
    const lines = readAllRows(sql, { version: '0' })
    await lines.next()
    const owner = connectTo(database)
    const rewritten = owner`alter table key_versions add column seen timestamptz default clock_timestamp()`.execute()
    await vi.waitFor(async () => {
      const [{ waiting } = { waiting: false }] = await sql<{ waiting: boolean }[]>`
        select exists (select 1 from pg_locks where relation = 'key_versions'::regclass and not granted) as waiting`
      expect(waiting).toBe(true)
    }, 20_000)
    let last = ''
    for await (const line of lines) last = line
    await rewritten
    const [{ versions } = { versions: 0 }] = await owner`select count(*)::int as versions from key_versions`
    expect(JSON.parse(last).rows.key_versions).toBe(versions)
    await owner`alter table key_versions drop column seen`
    await owner.end()
    await close()
  })

  it('refuses a row that no restore could read, and names its table', async () => {
    const long = 'x'.repeat(5 * 1_048_576)
    await onStore((sql) => sql`alter table tenants add column note text`)
    await onStore((sql) => sql`update tenants set note = ${long}`)
    const { code, stderr } = await eaas(['backup', file('too-long'), '--plain'])
    await onStore((sql) => sql`alter table tenants drop column note`)
    expect([code, stderr]).toEqual([1, expect.stringContaining('A row of tenants is longer than')])
  })

  it('is a new file that only its owner may read, and never takes the place of another', async () => {
    expect((await stat(sealed)).mode & 0o777).toBe(0o600)
    const before = await readFile(plain)
    const { code, stderr } = await eaas(['backup', plain, '--plain'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('it exists already, and is not overwritten')])
    expect(await readFile(plain)).toEqual(before)
    expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
  })

  it('is encrypted, unless the operator says otherwise', async () => {
    expect(await eaas(['backup', file('none')])).toMatchObject({ code: 2, stderr: expect.stringContaining('--plain') })
    expect(await eaas(['backup', file('none'), '--recipient', 'age1nobody'])).toMatchObject({ code: 2 })
    expect(await eaas(['backup', file('none'), '--plain', '--recipient', 'age1x'])).toMatchObject({ code: 2 })
    expect(readdirSync(folder)).not.toContain('none')
    expect(gunzipSync(await readFile(plain)).toString()).toContain('acme')
    expect((await readFile(sealed)).subarray(0, 21).toString()).toBe('age-encryption.org/v1')
  })

  it.each([
    ['a newer version', 'version + 1', /^eaas: The database has schema \d+, this server knows \d+ at most/],
    ['a version from before the first release', '13', /^eaas: The database has schema 13, .* before the first release/],
  ])('is not made of the schema of %s, which this version could not restore', async (_, version, said) => {
    const [row] = await onStore((sql) => sql<{ version: number }[]>`select version from schema_version`)
    await onStore((sql) => sql.unsafe(`update schema_version set version = ${version}`))
    const { code, stderr } = await eaas(['backup', file('of-another-version'), '--plain'])
    await onStore((sql) => sql`update schema_version set version = ${row?.version ?? 0}`)
    expect([code, stderr]).toEqual([1, expect.stringMatching(said)])
    expect(readdirSync(folder).filter((name) => name.startsWith('of-another-version'))).toEqual([])
  })

  it('leaves nothing of a write that fails', async () => {
    const { code, stderr } = await eaas(['backup', file('no/such/folder'), '--plain'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('cannot be written (ENOENT)')])
  })
})

describe('eaas restore --check', () => {
  it('says in one line that the root key opens it and that every log verifies, and leaves nothing behind', async () => {
    const [code, text] = await check(sealed, '--identity', file('identity'))
    expect([code, text]).toEqual([
      0,
      expect.stringMatching(/^Valid: .*; the root key opens it, and 3 logs verify, with \d+ entries\.\n$/),
    ])
    expect(readdirSync(folder).filter((name) => name.startsWith('eaas-restore-'))).toEqual([])
  })

  it('says that a log does not verify', async () => {
    const forged = await edited((lines) => lines.map((line) => line.replace('"key.rotate"', '"key.enable"')))
    expect(await check(forged)).toEqual([1, expect.stringMatching(/^NOT valid: .*1 log does not verify: acme \(/)])
  })

  it('names TMPDIR where no temporary database can be made', async () => {
    const { code, stderr } = await runCommand(['restore', '--check', plain], {
      database,
      rootKey: ROOT_KEY,
      environment: { TMPDIR: join(plain, 'below') },
    })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/ENOTDIR.*, or set TMPDIR to another one\.\n$/)])
  })

  it('refuses what another root key sealed', async () => {
    const other = Buffer.alloc(32, 1).toString('base64')
    const { code, stderr } = await eaas(['restore', '--check', plain], database, other)
    expect([code, stderr]).toEqual([1, expect.stringContaining('does not belong to this database')])
  })

  it.each([
    ['without an identity', [], /is encrypted: give the file of an identity/],
    ['with the identity of somebody else', ['--identity', 'other'], /none of the identities opens it/],
    ['with a file that has none', ['--identity', 'plain'], /the file of the identity has/],
  ])('refuses an encrypted backup %s', async (_, [option, name], said) => {
    await writeFile(file('other'), await generateIdentity())
    const [code, text] = await check(sealed, ...(option ? [option, file(name ?? '')] : []))
    expect([code, text]).toEqual([1, expect.stringMatching(said)])
    expect(text).not.toContain(identity)
  })
})

/** The plain backup with other lines, and the sum that they have then. */
async function edited(edit: (lines: string[]) => string[], { sum = true } = {}): Promise<string> {
  const lines = gunzipSync(await readFile(plain))
    .toString()
    .trimEnd()
    .split('\n')
  const others = edit(lines)
  const at = others.findIndex((line) => line.includes('"sha256"'))
  if (at >= 0 && sum) {
    const before = `${others.slice(0, at).join('\n')}\n`
    const end = JSON.parse(others[at] ?? '')
    others[at] = JSON.stringify({ ...end, sha256: createHash('sha256').update(before).digest('hex') })
  }
  const path = file('edited')
  await writeFile(path, gzipSync(`${others.join('\n')}\n`))
  return path
}

describe('eaas restore', () => {
  const table = (lines: string[], name: string) => lines.findIndex((line) => line.startsWith(`{"table":"${name}"`))

  it.each<[string, RegExp, (lines: string[]) => string[]]>([
    ['another value', /SHA-256 of the backup is another one/, (l) => l.map((line) => line.replace('acme', 'acne'))],
    ['a row less', /lacks rows/, (l) => l.toSpliced(table(l, 'audit_log') + 1, 1)],
    ['a table less', /lacks rows or tables/, (l) => l.toSpliced(table(l, 'budget_uses'), 1)],
    ['a table twice', /a table twice/, (l) => l.toSpliced(table(l, 'heads'), 0, l[table(l, 'tenants')] ?? '')],
    [
      'a table of PostgreSQL',
      /that its schema does not have/,
      (l) => l.map((x) => x.replace('"heads"', '"pg_authid"')),
    ],
    ['another column', /every column of heads/, (l) => l.map((x) => x.replace('"last_id","hash"', '"last_id","ha"'))],
    [
      'a column twice',
      /every column of heads once/,
      (l) => l.map((x) => x.replace('"last_id","hash"', '"last_id","hash","hash"')),
    ],
    [
      'a column whose name is no text',
      /every column of heads once/,
      (l) => l.map((x) => x.replace('"last_id","hash"', '"last_id",["hash"]')),
    ],
    [
      'a generated column without values',
      /does not have the columns/,
      (l) => l.map((x) => x.replace('"wrapped","cr', '"wrapped","store_key","cr')),
    ],
    ['a row with a value more', /does not have the columns/, (l) => l.map((x) => x.replace(/^\["1",/, '["1","1",'))],
    ['a row with a number', /does not have the columns/, (l) => l.map((x) => x.replace(/^\["1",/, '[1,'))],
    ['a row before its table', /before the name of its table/, (l) => l.toSpliced(1, 0, '["1"]')],
    ['a line that is not JSON', /not JSON/, (l) => l.toSpliced(3, 0, '[')],
    ['no end', /cut short/, (l) => l.slice(0, -1)],
    ['something after its end', /goes on after its end/, (l) => [...l, '{}']],
    ['no header', /no backup of eaas/, (l) => l.slice(1)],
    ['another format', /has format 2/, (l) => l.map((x) => x.replace('{"format":1', '{"format":2'))],
    ['a newer schema', /schema 99, which no migration/, (l) => l.map((x) => x.replace(/"schema":\d+/, '"schema":99'))],
    ['a schema before the first release', /schema 13/, (l) => l.map((x) => x.replace(/"schema":\d+/, '"schema":13'))],
  ])('refuses a backup with %s, and leaves the database empty', async (what, said, edit) => {
    const restored = await freshDatabase('refused')
    const { code, stderr } = await eaas(['restore', await edited(edit, { sum: what !== 'another value' })], restored)
    expect([code, stderr]).toEqual([1, expect.stringMatching(said)])
    expect(await rowsOf(restored)).toEqual({})
    await restored.drop()
  })

  it('leaves out a column that no schema has, and says so', async () => {
    await onStore((sql) => sql.unsafe('alter table tenants add column note text, add column "paid\x1b" date'))
    await onStore((sql) => sql`update tenants set note = name`)
    const noted = file('with-a-note')
    expect((await eaas(['backup', noted, '--plain'])).code).toBe(0)
    await onStore((sql) => sql.unsafe('alter table tenants drop column note, drop column "paid\x1b"'))
    const before = await rowsOf(database)
    const restored = await freshDatabase('noted')
    const { code, stderr } = await eaas(['restore', noted], restored)
    expect([code, stderr]).toEqual([
      0,
      'eaas: these columns are not of eaas and were left out: tenants.note, tenants.paid\\u001b\n',
    ])
    const rows = await rowsOf(restored)
    expect([rows.tenants, rows.audit_log]).toEqual([before.tenants, before.audit_log])
    expect(await check(noted)).toEqual([0, expect.stringContaining('not of eaas and were left out: tenants.note')])
  })

  it('refuses an encrypted backup that was changed anywhere or cut short', async () => {
    const whole = await readFile(sealed)
    const restored = await freshDatabase('changed')
    for (const at of [30, 130, Math.floor(whole.length / 2), whole.length - 1]) {
      for (const changed of [
        whole.subarray(0, at),
        Uint8Array.from(whole, (byte, i) => (i === at ? byte ^ 1 : byte)),
      ]) {
        await writeFile(file('changed'), changed)
        const { code, stderr } = await eaas(['restore', file('changed'), '--identity', file('identity')], restored)
        expect([at, code, stderr]).toEqual([at, 1, expect.stringMatching(/^eaas: .+\n$/)])
      }
    }
    expect(await rowsOf(restored)).toEqual({})
    expect((await eaas(['restore', sealed, '--identity', file('identity')], restored)).code).toBe(0)
  })

  it('restores into an empty database only', async () => {
    const before = await rowsOf(database)
    const { code, stderr } = await eaas(['restore', plain])
    expect([code, stderr]).toEqual([1, expect.stringContaining('has rows of eaas already, and nothing was changed')])
    expect(await rowsOf(database)).toEqual(before)
  })

  it('restores into tables without a row, which a first start that failed leaves', async () => {
    const restored = await freshDatabase('unused', { migrated: true })
    expect((await eaas(['restore', sealed, '--identity', file('identity')], restored)).code).toBe(0)
    expect(await rowsOf(restored)).toEqual(before)
  })

  it('leaves the database empty under another root key', async () => {
    const restored = await freshDatabase('foreign')
    const { code, stderr } = await eaas(['restore', plain], restored, Buffer.alloc(32, 1).toString('base64'))
    expect([code, stderr]).toEqual([1, expect.stringContaining('does not belong to this database')])
    expect(await rowsOf(restored)).toEqual({})
  })

  it.each(['SIGINT', 'SIGKILL'] as const)('leaves the database empty when %s ends it', async (signal) => {
    const restored = await freshDatabase('killed')
    const child = spawn(process.execPath, [EAAS, 'restore', '-'], {
      env: environmentOf({ database: restored, environment }),
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const whole = await readFile(plain)
    child.stdin.write(whole.subarray(0, whole.length - 8))
    const isBegun = async () => {
      if (restored.backend === 'embedded') return readdirSync(restored.dataDir).includes('.s.PGSQL.5432')
      const sql = connectTo(restored)
      const [row] = await sql`select count(*)::int as count from pg_stat_activity where datname = current_database()`
      await sql.end()
      return row?.count > 1
    }
    await expect.poll(isBegun).toBe(true)
    child.kill(signal)
    await once(child, 'exit')
    expect(await rowsOf(restored)).toEqual({})
    expect((await eaas(['restore', plain], restored)).code).toBe(0)
  })

  it('takes back a database from which a trigger drops rows', async () => {
    const restored = await freshDatabase('dropped')
    const { sql, close } = await openStore(locationOf(restored), { beside: false, mayCreate: true })
    await sql.unsafe(`
      create function drop_row() returns trigger language plpgsql as $$ begin return null; end $$;
      create function on_create() returns event_trigger language plpgsql as $$ begin
        if to_regclass('heads') is not null and not exists (select from pg_trigger where tgname = 'dropping') then
          create trigger dropping before insert on heads for each row execute function drop_row();
        end if;
      end $$;
      create event trigger dropping on ddl_command_end when tag in ('CREATE TABLE') execute function on_create()`)
    await close()
    const { code, stderr } = await eaas(['restore', plain], restored)
    expect([code, stderr]).toEqual([1, expect.stringContaining('the database dropped rows of heads')])
    expect(await rowsOf(restored)).toEqual({})
  })
})

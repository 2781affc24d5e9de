// `eaas-cli init` on tables with rows in ordinary columns, by each ORM: after the migration and the backfill the application,
// whose own lines stay, reads the values that it read before.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { deserialize } from 'node:v8'
import { build } from 'esbuild'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../packages/cli/src/test-support/command.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { type Service, startService } from '../support/service/service.js'
import { findTypeErrors } from '../support/sources/native-compiler.js'
import { ROOT } from '../support/sources/source-files.js'
import { MAIN, PERSON, SOURCE } from './ordinary/typeorm.js'

const here = (name: string) => fileURLToPath(new URL(`./${name}`, import.meta.url))
const TABLE = `create table citizens (id serial primary key, email varchar(255) not null unique, born timestamp(3), seen timestamptz not null,
  day date, visits integer not null, active boolean, prefs jsonb);
insert into citizens (email, born, seen, day, visits, active, prefs) values
  ('Ada@x.org', '1990-01-02 00:00:00', '1950-01-02 00:00:00.123456+00', '1815-12-10', -7, true, '{"theme": "a\\"b", "tags": [1.50, null]}'),
  ('ben@x.org', null, '2026-03-29 02:30:00.5+02', null, 2147483647, null, null),
  ('cat@x.org', '1969-12-31 23:59:59.999', '2026-10-25 02:30:00+01', '2024-02-29', 0, false, '{"tags": []}')`
const prefs = { theme: 'a"b', tags: [1.5, null] }
/** What the application sees, except \`day\`, which differs by ORM. */
const ROWS = [
  {
    ...{
      id: 1,
      email: 'Ada@x.org',
      born: new Date('1990-01-02T00:00:00Z'),
      seen: new Date('1950-01-02T00:00:00.123Z'),
    },
    ...{ visits: -7, active: true, prefs },
  },
  {
    ...{ id: 2, email: 'ben@x.org', born: null, seen: new Date('2026-03-29T00:30:00.500Z') },
    ...{ visits: 2_147_483_647, active: null, prefs: null },
  },
  {
    ...{ id: 3, email: 'cat@x.org', born: new Date(-1), seen: new Date('2026-10-25T01:30:00Z') },
    ...{ visits: 0, active: false, prefs: { tags: [] } },
  },
]
const FIELDS = 'email,born,seen,day,visits,active,prefs'

describe.runIf(backend() === 'postgres')('ordinary columns', () => {
  let dir: GuardedDir
  let folder: string
  let service: Service
  let secret: string
  let database: TestDatabase
  let sql: postgres.Sql
  let env: Record<string, string>

  beforeAll(async () => {
    dir = guardedDir('eaas-test-ordinary')
    service = await startService()
    secret = (await service.createTenant()).secret
  })
  afterAll(async () => {
    await service.close()
    await dir.remove()
  })
  beforeEach(async () => {
    folder = mkdtempSync(join(dir.path, 'app-'))
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    database = await freshDatabase('ordinary')
    if (database.backend !== 'postgres') throw new Error('a PostgreSQL')
    sql = postgres(database.directUrl, { max: 1, onnotice: () => undefined })
    await sql.unsafe(
      "do $$ begin execute format('alter database %I set timezone to ''Europe/Paris''', current_database()); end $$",
    )
    await sql.unsafe("set timezone to 'Europe/Paris'")
    await sql.unsafe(TABLE)
    env = { EAAS_URL: service.url, EAAS_API_KEY: secret, DATABASE_URL: database.directUrl, TZ: 'UTC' }
  })
  afterEach(async () => {
    await sql.end()
    await database.drop()
  })

  const path = (name: string) => join(folder, name)
  const put = (name: string, text: string) => {
    mkdirSync(dirname(path(name)), { recursive: true })
    writeFileSync(path(name), text)
  }
  const command = (...argv: string[]) => runCommand(argv, { env, folder, input: '' })

  const built = (from: string) => `dist/${basename(from, '.ts')}.mjs`
  async function bundle(from: string) {
    await build({
      ...{ entryPoints: [path(from)], outfile: path(built(from)), absWorkingDir: folder },
      ...{ bundle: true, packages: 'external', format: 'esm', platform: 'node', target: 'node20', logLevel: 'error' },
      tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    })
  }

  /** What the application reads, in a process of its time zone. */
  async function use(...argv: string[]) {
    await bundle('src/main.ts')
    const { stdout } = await promisify(execFile)(process.execPath, [built('main.ts'), ...argv], {
      cwd: folder,
      env: { ...env, PATH: process.env.PATH },
    })
    return deserialize(Buffer.from(stdout, 'base64')) as { all: Record<string, unknown>[]; found: unknown }
  }

  /** Sets the table up, and returns the line of the backfill and all that was printed. */
  async function init(table: string, search: string) {
    const zone = env.TZ === 'UTC' ? [] : ['--time-zone', env.TZ ?? '']
    const argv = ['--table', table, '--fields', FIELDS, '--search', search, ...zone, '--yes']
    const { code, out, err } = await command('init', ...argv)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const [, backfill = ''] = /^ {2}.*npx @eaas\/cli (backfill .*) --constrain$/m.exec(String(out)) ?? []
    return { out: String(out), backfill }
  }

  /** Deploys and encrypts: the application reads the same at each moment, and nothing is left in plaintext. */
  async function encrypt(statements: string, backfill: string, before: { all: unknown; found: unknown }) {
    const typed = { module: 'nodenext', moduleResolution: 'nodenext', experimentalDecorators: true, types: ['node'] }
    const checked = { extended: join(ROOT, 'tsconfig.json'), compilerOptions: typed, below: folder }
    expect(await findTypeErrors({ files: [path('src/main.ts')], ...checked })).toEqual([])
    await sql.unsafe(statements)
    expect((await use()).all).toEqual(before.all)
    const [, file = '', ...argv] = backfill.split(' ')
    await bundle(file)
    const run = (...more: string[]) => command('backfill', built(file), ...argv, ...more)
    expect(await run('--work', 'index')).toMatchObject({ code: 0, err: '' })
    expect(await use()).toEqual(before)
    expect(String((await run('--dry-run')).out)).toContain('citizens: 3 rows, 3 to change, 0 current\n')
    const { code, out, err } = await run('--constrain')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(String(out)).toMatch(
      /^citizens: 3 rows, 3 changed, 0 current\ncitizens refuses plaintext now: citizens_email_sealed/,
    )
    expect(await use()).toEqual(before)
    const { all } = await use('write')
    expect(all[3]).toEqual({ ...all[0], id: 4, email: 'New@x.org', visits: -6, prefs: { tags: [null] } })
    const stored = await sql`select email, born, seen, day, visits, active, prefs from citizens`
    const values = stored.flatMap((row) => Object.values(row)).filter((one) => one !== null)
    expect(values).toEqual(values.map(() => expect.stringMatching(/^eaas\.2/)))
  }

  const days = (make: (day: string) => unknown) =>
    ROWS.map((row, at) => ({ ...row, day: [make('1815-12-10'), null, make('2024-02-29')][at] }))
  const inNewYork = (rows: readonly object[]) =>
    rows.map((row, at) => ({
      ...row,
      born: [new Date('1990-01-02T05:00:00Z'), null, new Date('1970-01-01T04:59:59.999Z')][at],
      ...('day' in row && row.day instanceof Date
        ? { day: [new Date('1815-12-10T04:56:02Z'), null, new Date('2024-02-29T05:00:00Z')][at] }
        : {}),
    }))
  const statementsIn = (out: string) => / ((?:SET TIME ZONE|ALTER TABLE) .*;)$/m.exec(out)?.[1] ?? ''

  it.each([
    ['drizzle', 'UTC', 'citizens', { 'drizzle-orm': '0.45' }, days((day) => day)],
    ['kysely', 'UTC', 'citizens', { kysely: '0.28' }, days((day) => new Date(day))],
    ['typeorm', 'UTC', 'Person', { typeorm: '1' }, days((day) => day)],
    ['drizzle', 'America/New_York', 'citizens', { 'drizzle-orm': '0.45' }, days((day) => day)],
    ['kysely', 'America/New_York', 'citizens', { kysely: '0.28' }, inNewYork(days((day) => new Date(day)))],
    ['typeorm', 'America/New_York', 'Person', { typeorm: '1' }, inNewYork(days((day) => day))],
  ])('of an application of %s in %s keep their values and their types', async (orm, zone, table, dependencies, all) => {
    env.TZ = zone
    if (orm !== 'typeorm') cpSync(here(`ordinary/${orm}`), path('src'), { recursive: true })
    else
      for (const [name, text] of Object.entries({ person: PERSON, source: SOURCE, main: MAIN }))
        put(`src/${name}.ts`, text)
    put('package.json', JSON.stringify({ type: 'module', dependencies }))
    const before = await use()
    expect(before).toEqual({ all, found: [{ id: 1 }, { id: 3 }] })
    const { out, backfill } = await init(table, 'email,seen')
    if (orm === 'kysely') {
      expect(out).toContain('objects where the application now gives it JSON.stringify(…)')
      const text = readFileSync(path('src/main.ts'), 'utf8')
      put('src/main.ts', text.replaceAll(/JSON\.stringify\((.*?)\)( }|,|$)/g, '$1$2'))
    }
    const indexes = orm === 'drizzle' ? 'alter table citizens add "emailIndex" text unique, add "seenIndex" text' : ''
    await encrypt(statementsIn(out) + indexes, backfill, before)
    if (orm !== 'typeorm') return
    const pending = (await use('pending')).all // TypeORM's own changes, which would drop columns and values
    expect(pending).toEqual(
      FIELDS.split(',').map((one) => `ALTER TABLE "citizens" DROP CONSTRAINT "citizens_${one}_sealed"`),
    )
  })

  it('of an application of Prisma keep their values and their types', async () => {
    for (const name of ['prisma-main.ts', 'prisma-db.ts'])
      put(`src/${name.replace('prisma-main', 'main')}`, readFileSync(here(`ordinary/${name}`), 'utf8'))
    cpSync(here('prisma'), path('prisma'), { recursive: true })
    mkdirSync(path('prisma/migrations'))
    const head = 'datasource db {\n  provider = "postgresql"\n}\n\n'
    put('prisma/schema.prisma', head + readFileSync(here('ordinary/before.prisma'), 'utf8'))
    put('package.json', JSON.stringify({ type: 'module', dependencies: { '@prisma/client': '7' } }))
    const { backfill } = await init('Citizen', 'email')
    const after = readFileSync(path('prisma/schema.prisma'), 'utf8').slice(head.length)
    expect(readFileSync(here('prisma/schema.prisma'), 'utf8')).toContain(after) // of which the client was generated
    const [migration = ''] = readdirSync(path('prisma/migrations'))
    const statements = readFileSync(path(`prisma/migrations/${migration}/migration.sql`), 'utf8')
    await encrypt(statements, backfill, { all: days((day) => new Date(day)), found: [{ id: 1 }] })
  })
})

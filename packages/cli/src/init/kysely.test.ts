// `init` on an application of Kysely.
import { beforeEach, describe, expect, it } from 'vitest'
import {
  DATABASE,
  files,
  get,
  init,
  KYSELY,
  put,
  putPackage,
  useApplicationFolders,
} from '../test-support/init-application.js'

useApplicationFolders()

describe('init in an application of Kysely', () => {
  beforeEach(() => {
    putPackage({ kysely: '0.28' }, { type: 'module' })
    put('database.ts', DATABASE)
    put('db.ts', KYSELY)
  })

  it('adds the model and the columns of indexes, and prints the SQL for the table', async () => {
    const argv = ['--table', 'users', '--fields', 'email,born,visits,active,prefs', '--search', 'email,visits', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('database.ts')).toBe(
      DATABASE.replace(', JSONColumnType', '')
        .replace('log in\n', 'log in\n  email_index: Generated<string | null>\n')
        .replace('visits: number;\n', 'visits: number;\n  visits_index: Generated<string | null>;\n')
        .replace('JSONColumnType<{ theme: string | null }>', '{ theme: string | null }'),
    )
    expect(get('db.ts')).toBe(
      KYSELY.replace(
        "database.js'\n",
        "database.js'\nimport { createClient } from '@eaas/sdk'\nimport { encrypted } from '@eaas/kysely'\nimport usersModel from './eaas-users.js'\n",
      )
        .replace('export const db', 'const eaas = createClient()\nexport const db')
        .replace('  dialect,', '  dialect: encrypted<Database>(dialect, { users: usersModel(eaas) }),'),
    )
    expect(get('eaas-users.ts')).toContain("import type { Users } from './database.js'\n")
    expect(get('eaas-users.ts')).toContain("prefs: json<NonNullable<Users['prefs']>>(),\n")
    expect(out).toContain(
      `SET TIME ZONE 'UTC'; ALTER TABLE "users" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born" TYPE TEXT USING to_json(date_trunc('milliseconds', "born"::timestamptz at time zone 'UTC'))#>>'{}' || 'Z', ALTER COLUMN "visits" TYPE TEXT USING case when set_config('extra_float_digits', '1', true) <> '' then "visits"::text end, ALTER COLUMN "active" TYPE TEXT USING "active"::text, ALTER COLUMN "prefs" TYPE TEXT USING "prefs"::text; ALTER TABLE "users" ADD COLUMN "email_index" TEXT;`,
    )
    expect(out).toContain('JSON.stringify(…): the compiler shows where')
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it.each([
    ["import { type Generated, Kysely } from 'kysely'", 'Generated', undefined],
    ["import { Kysely } from 'kysely'\nimport type { Generated } from 'kysely'", 'Generated', undefined],
    ["import { type Generated as G, Kysely } from 'kysely'", 'G', undefined],
    ["import { Kysely } from 'kysely'", 'Generated', "import { type Generated, Kysely } from 'kysely'"],
    ["import k, { Kysely } from 'kysely'", 'Generated', "import k, { type Generated, Kysely } from 'kysely'"],
    ["import type { Insertable } from 'kysely'", 'Generated', "import type { Generated, Insertable } from 'kysely'"],
  ])('imports Generated once: %s', async (imports, name, after) => {
    put('database.ts', `${imports}\nexport interface Database { notes: { id: number; text: string } }\n`)
    expect((await init(['--table', 'notes', '--fields', 'text', '--search', 'text', '--yes'])).code).toBe(0)
    expect(get('database.ts')).toBe(
      `${after ?? imports}\nexport interface Database { notes: { id: number; text: string; text_index: ${name}<string | null> } }\n`,
    )
  })

  it('reads times without a zone as the driver does, in the zone of the application', async () => {
    const argv = ['--table', 'users', '--fields', 'email,born', '--yes']
    const before = files()
    const paris = { env: { TZ: 'Europe/Paris' } }
    expect(await init(argv, paris)).toMatchObject({ code: 2, err: expect.stringContaining('--time-zone is missing') })
    expect(files()).toEqual(before)
    const { out } = await init([...argv, '--time-zone', 'Europe/Paris'], paris)
    expect(out).toContain(`SET TIME ZONE 'Europe/Paris'; ALTER TABLE "users" ALTER COLUMN "email" TYPE TEXT, ALTER`)
    expect(out).toContain('without a zone are taken for those of Europe/Paris')
  })

  it('adds the model of a second table, whose type is inline, and wraps a dialect that is made in place', async () => {
    put(
      'db.ts',
      KYSELY.replace(/const dialect.*\n\n/, '').replace('dialect,', 'dialect: new PostgresDialect({ pool }),'),
    )
    await init(['--table', 'users', '--fields', 'email', '--yes'])
    await init(['--table', 'notes', '--fields', 'text', '--search', 'text', '--yes'])
    expect(get('db.ts')).toContain(
      'dialect: encrypted<Database>(new PostgresDialect({ pool }), { users: usersModel(eaas), notes: notesModel(eaas) }),\n',
    )
    expect(get('database.ts')).toContain(
      'notes: { id: number; text: string; text_index: Generated<string | null>; at: Date }\n',
    )
  })

  it.each([
    [['--table', 'users', '--fields', 'id'], 'users.id is the id'],
    [
      ['--table', 'users', '--fields', 'made'],
      'users.made is Generated<Date>: the database would fill it with plaintext. Take its default away',
    ],
    [['--table', 'nobody', '--fields', 'x'], 'there is no nobody. There are: users, notes'],
  ])('refuses, and says why: %j', async (argv, message) => {
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it.each(['new SqliteDialect({})', 'new PostgresDialect({}), plugins: [new CamelCasePlugin()]'])(
    'takes only PostgreSQL, by the names of its columns: %s',
    async (dialect) => {
      put('db.ts', KYSELY.replace('  dialect,', `  dialect: ${dialect},`))
      const { code, err } = await init(['--table', 'users', '--fields', 'email', '--yes'])
      expect({ code, err }).toEqual({
        code: 2,
        err: expect.stringMatching(/init knows PostgreSQL.*(Sqlite|CamelCase)/),
      })
    },
  )
})

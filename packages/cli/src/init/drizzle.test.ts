// `init` on an application of Drizzle.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { folder, get, init, put, putDrizzle, TABLES, useApplicationFolders } from '../test-support/init-application.js'

useApplicationFolders()

describe('init in an application of Drizzle', () => {
  beforeEach(putDrizzle)

  it('adds the columns of indexes behind their fields, and wraps the database', async () => {
    const { code, out } = await init(['--table', 'users', '--fields', 'email,name', '--search', 'email,name', '--yes'])
    expect(code).toBe(0)
    expect(get('tables.ts')).toBe(
      TABLES.replace('// how they log in\n', "// how they log in\n  emailIndex: column('email_index'),\n")
        .replace(
          "name: column('full_name').notNull(),\n",
          "name: column('full_name').notNull(),\n  nameIndex: column('full_name_index'),\n",
        )
        .replace(
          'users.email),\n})',
          "users.email),\n}, (table) => [uniqueIndex('users_email_index_idx').on(table.emailIndex), index('users_full_name_index_idx').on(table.nameIndex)])",
        )
        .replace('text as column, varchar', 'text as column, uniqueIndex, varchar'),
    )
    expect(get('db.ts').split('\n').slice(1)).toEqual([
      "import { posts } from './tables.js'",
      "import { createClient } from '@eaas/sdk'",
      "import { encrypted } from '@eaas/drizzle'",
      "import usersModel from './eaas-users.js'",
      "import { users } from './tables.js'",
      '',
      'const eaas = createClient()',
      'const db = encrypted(drizzle(url), [[users, usersModel(eaas)]])',
      '',
    ])
    expect(out).toContain('npx drizzle-kit generate')
    expect(out).not.toContain('in tables.ts')
    expect(out).toMatch(/\n {2}drizzle-kit push drops the constraints that the schema lacks: .*\n$/)
    expect(out).toContain(
      'backfill eaas-users.ts --table users --column name=full_name --column emailIndex=email_index --column nameIndex=full_name_index --constrain\n',
    )
  })

  it('reads columns that a function makes, and one file that has all', async () => {
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\n${TABLES}\nexport const db = drizzle(process.env.DATABASE_URL!)\n`,
    )
    put('tables.ts', '')
    expect((await init(['--table', 'posts', '--fields', 'title', '--search', 'title', '--yes'])).code).toBe(0)
    expect(get('db.ts')).toContain(
      "title: t.text().notNull(), titleIndex: t.text() }), (table) => [index('posts_titleIndex_idx').on(table.titleIndex)])",
    )
    expect(get('db.ts')).toMatch(
      /\nexport const db = encrypted\(drizzle\(process.env.DATABASE_URL!\), \[\[posts, postsModel\(eaas\)\]\]\)\n/,
    )
  })

  it('adds the model of a second table, in the way in which other sources import theirs', async () => {
    put('db.ts', `import { drizzle } from 'drizzle-orm/node-postgres'\n\nexport const db = drizzle(url)\n`)
    put('app.ts', `import { db } from './db.ts'\n`)
    for (const [table, fields] of [
      ['posts', 'title'],
      ['users', 'name'],
    ] as const)
      await init(['--table', table, '--fields', fields, '--yes'])
    expect(get('db.ts')).toContain('encrypted(drizzle(url), [[posts, postsModel(eaas)], [users, usersModel(eaas)]])\n')
    expect(
      get('db.ts')
        .match(/ from '\.\/.*'/g)
        ?.sort(),
    ).toEqual(['./eaas-posts.ts', './eaas-users.ts', './tables.ts', './tables.ts'].map((path) => ` from '${path}'`))
  })

  it('imports nothing twice, and changes no source that has only the type of a table', async () => {
    put(
      'db.ts',
      `import { createClient, text } from '@eaas/sdk'\nimport { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts as all } from './tables.js'\nconst other = createClient()\nconst db = drizzle(url)\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts').match(/createClient[,\s].*from/g)).toHaveLength(1)
    expect(get('db.ts')).toContain('[[all, postsModel(eaas)]]')
    expect(get('db.ts').match(/from '.\/tables.js'/g)).toHaveLength(1)
    for (const imported of ['import type { posts }', 'import { type posts }']) {
      const text = `${imported} from './tables.js'\nconst db = drizzle(url)\n`
      put('db.ts', text)
      expect((await init(['--table', 'posts', '--fields', 'title', '--yes'])).out).toContain('where the client is made')
      expect(get('db.ts')).toBe(text)
    }
  })

  it('calls a table as the file of the client does', async () => {
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\nimport * as all from './tables.ts'\nconst db = drizzle(url, { schema: all })\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts')).toContain('[[all.posts, postsModel(eaas)]]')
    expect(get('db.ts')).toContain("from './eaas-posts.ts'")
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts } from './tables.js'\nconst db = drizzle(url)\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts').match(/\{ posts \}/g)).toHaveLength(1)
  })

  it('imports a table of a folder whose name has a range of no letters, and takes no cast for another name', async () => {
    const table =
      "import { pgTable, text } from 'drizzle-orm/pg-core'\nexport const notes = pgTable('notes', { id: text().primaryKey(), body: text() })\n"
    put('[user-id]/notes.ts', table)
    put(
      'db.ts',
      "import { drizzle } from 'drizzle-orm/node-postgres'\nconst db = drizzle(url)\nconst x = notes as string\n",
    )
    await init(['--table', 'notes', '--fields', 'body', '--yes'])
    expect(get('db.ts')).toContain("import { notes } from './[user-id]/notes.js'")
    expect(get('db.ts')).toContain('[[notes, notesModel(eaas)]]')
  })

  it.each([
    [['--table', 'users', '--fields', 'id'], 'users.id is the id'],
    [
      ['--table', 'ordinary', '--fields', 'seen'],
      "ordinary.seen has timestamp() in mode string, which init does not take: give it mode: 'date' first",
    ],
    [['--table', 'ordinary', '--fields', 'kind'], 'ordinary.kind has enum'],
    [
      ['--table', 'ordinary', '--fields', 'level'],
      'ordinary.level has default, which the database would store unencrypted: put $defaultFn',
    ],
    [
      ['--table', 'ordinary', '--fields', 'flag', '--search', 'flag'],
      '--search flag: a field of boolean() has no index',
    ],
    [['--table', 'users', '--fields', 'boss'], 'users.boss has references'],
    [['--table', 'keyless', '--fields', 'text'], 'keyless has no primary key'],
  ])('refuses, and says why: %j', async (argv, message) => {
    const columns =
      "id: t.serial().primaryKey(), seen: t.timestamp({ mode: 'string' }), kind: t.text({ enum: ['a'] }), level: t.integer().default(1), flag: t.boolean()"
    put('tables.ts', `${TABLES}export const ordinary = pgTable('ordinary', (t) => ({ ${columns} }))\n`)
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  const putTable = (declared: string, imported = 'integer, pgSchema, pgTable, pgTableCreator, text', table = '') =>
    put(
      'tables.ts',
      `import { ${imported} } from 'drizzle-orm/pg-core'\n\n${declared}('notes', {\n  id: integer().primaryKey(),\n  title: text().notNull(),\n${table}})\n`,
    )
  const OF_NOTES = ['--table', 'notes', '--fields', 'title', '--search', 'title', '--yes']

  const named = (name: string) => `pgTableCreator((name) => \`${name}\`)`
  it.each([
    ["export const notes = pgSchema('shop').table", 'shop.notes'],
    ["export const shop = pgSchema('shop')\n\nexport const notes = shop.table", 'shop.notes'],
    ["export const my = pgSchema('my shop')\nexport const notes = my.table", `'"my shop"."notes"'`],
    [`const make = ${named('app_$' + '{name}')}\nexport const notes = make`, 'app_notes'],
    [`export const make =\n  ${named('$' + '{name}_app')}\nexport const notes = make`, 'notes_app'],
  ])('names the schema of a table, and knows the names of a function: %s', async (declared, name) => {
    putTable(declared)
    const { code, out } = await init(OF_NOTES)
    expect(code).toBe(0)
    expect(out).toContain(`backfill eaas-notes.ts --table ${name} --constrain\n`)
    expect(get('tables.ts')).toContain('  titleIndex: text(),\n')
    if (name === 'app_notes')
      expect(get('tables.ts')).toContain("index('app_notes_titleIndex_idx').on(table.titleIndex)")
    expect((await init(OF_NOTES)).out).toMatch(/^Every file has it already/)
  })

  it('takes the name of a table with its schema, and one whose maker another file has', async () => {
    put('shop.ts', "import { pgSchema } from 'drizzle-orm/pg-core'\nexport const shop = pgSchema('shop')\n")
    putTable('export const notes = shop.table', 'integer, text', "  seen: timestamp({ mode: 'date' }),\n")
    const { out } = await init(['--table', 'shop.notes', '--fields', 'seen', '--yes'])
    expect(out).toContain('ALTER TABLE "shop"."notes" ALTER COLUMN "seen" TYPE TEXT')
    put('other.ts', "import { pgSchema } from 'drizzle-orm/pg-core'\nconst shop = pgSchema('other')\n")
    expect(await init(OF_NOTES)).toMatchObject({ code: 2, err: expect.stringContaining('by hand') })
  })

  it.each([
    'const make = pgTableCreator(named)\nexport const notes = make',
    `const make = ${named('app_$' + '{name}').replace(/\)$/, '.toUpperCase())')}\nexport const notes = make`,
    "const my = pgSchema('my\\')shop')\nexport const notes = my.table",
    "const my = isTest ? pgSchema('test') : pgSchema('shop')\nexport const notes = my.table",
    'export const notes = other.table',
  ])('says what it reads where it does not know the name of a table: %s', async (declared) => {
    putTable(declared)
    const { code, err } = await init(OF_NOTES)
    expect([code, err]).toEqual([2, expect.stringContaining('write the model and the call of encrypted() by hand')])
  })

  it('calls what a source imports by the names that it has there', async () => {
    const table = (p: string) =>
      `export const notes = ${p}('notes', (t) => ({ id: t.integer().primaryKey(), title: t.text() }))\n`
    for (const [imported, p, called] of [
      ["import * as p from 'drizzle-orm/pg-core'", 'p.pgTable', "p.index('notes_titleIndex_idx')"],
      ["import { index as on, pgTable as table } from 'drizzle-orm/pg-core'", 'table', "on('notes_titleIndex_idx')"],
      [
        "import type { PgColumn } from 'drizzle-orm/pg-core'\nimport { pgTable } from 'drizzle-orm/pg-core'",
        'pgTable',
        "index('notes_titleIndex_idx')",
      ],
    ] as const) {
      put('tables.ts', `${imported}\n${table(p)}`)
      rmSync(join(folder, 'eaas-notes.ts'), { force: true })
      expect((await init(OF_NOTES)).out).not.toContain('in tables.ts')
      expect(get('tables.ts')).toContain(`(table) => [${called}.on(`)
      expect(get('tables.ts').includes('import { index, pgTable }')).toBe(p === 'pgTable')
    }
  })

  it('takes what is a string or a number in JavaScript as text, and says what changes', async () => {
    const more =
      "  price: numeric({ precision: 9, scale: 2 }),\n  big: bigint({ mode: 'number' }),\n  day: date(),\n  plan: text().$defaultFn(() => 'free'),\n  list: text().array(),\n"
    putTable('export const notes = pgTable', 'bigint, date, integer, numeric, pgTable, text', more)
    const { code, out } = await init(['--table', 'notes', '--fields', 'price,big,day,plan', '--yes'])
    expect(code).toBe(0)
    expect(get('tables.ts')).toContain(
      "  price: text(),\n  big: text().$type<number>(),\n  day: text(),\n  plan: text().$defaultFn(() => 'free'),\n",
    )
    expect(get('eaas-notes.ts')).toContain(
      'price: text().nullable(),\n      big: number().nullable(),\n      day: text().nullable(),\n',
    )
    expect(out).toMatch(/^note: day: a day as text has no search by range\. For one, first make it a JavaScript Date/m)
    expect(out).toMatch(/^note: price: .*12\.5 and 12\.50 are two values/m)
    const { err } = await init(['--table', 'notes', '--fields', 'list'])
    expect(err).toContain('notes.list has array, which init does not take: make it jsonb() first')
  })

  it('takes columns by their names in the database, and names those of indexes as the others are', async () => {
    const more = "  birthDate: text('birth_date'),\n"
    putTable('export const notes = pgTable', undefined, more)
    const argv = ['--table', 'notes', '--fields', 'title,birth_date', '--search', 'title,birth_date', '--yes']
    expect((await init(argv)).code).toBe(0)
    for (const one of [
      "titleIndex: text('title_index')",
      "birthDateIndex: text('birth_date_index')",
      "index('notes_title_index_idx')",
    ])
      expect(get('tables.ts')).toContain(one)
    rmSync(join(folder, 'eaas-notes.ts'))
    putTable('export const notes = pgTable', undefined, '  birthDate: text(),\n')
    put('drizzle.config.ts', "export default { casing: 'snake_case' }")
    expect((await init(argv)).out).toContain(
      '--column birthDate=birth_date --column titleIndex=title_index --column birthDateIndex',
    )
    expect(get('tables.ts')).toContain('  titleIndex: text(),\n  birthDate: text(),\n  birthDateIndex: text(),\n}')
  })

  it('makes text of columns of other types, and fields of their kinds', async () => {
    put(
      'tables.ts',
      `import {
  boolean,
  date,
  index,
  integer,
  jsonb,
  pgTable,
  serial,
  timestamp,
  varchar,
} from 'drizzle-orm/pg-core'

export const people = pgTable(
  'people',
  {
    id: serial().primaryKey(),
    email: varchar({ length: 255 }).notNull().unique(),
    born: timestamp('born_at', { precision: 6 }),
    seen: timestamp({ withTimezone: true, mode: 'date' }).notNull(),
    /** Each person's own. */
    day: date(),
    died: date({ mode: 'date' }),
    visits: integer().notNull(), // in all
    active: boolean('is_active').notNull(),
    prefs: jsonb().$type<{ theme: string }>().notNull(),
    city: varchar({ length: 90 }),
  },
  (t) => [
    index('people_city').on(t.city),
  ],
)
`,
    )
    const fields = 'email,born,seen,day,died,visits,active,prefs'
    const argv = ['--table', 'people', '--fields', fields, '--search', 'email,born', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('tables.ts')).toBe(`import {
  index,
  jsonb,
  pgTable,
  serial,
  text,
  uniqueIndex,
  varchar,
} from 'drizzle-orm/pg-core'

export const people = pgTable(
  'people',
  {
    id: serial().primaryKey(),
    email: text().notNull().unique(),
    emailIndex: text('email_index'),
    born: text('born_at').$type<Date>(),
    bornIndex: text('born_at_index'),
    seen: text().$type<Date>().notNull(),
    /** Each person's own. */
    day: text(),
    died: text().$type<Date>(),
    visits: text().$type<number>().notNull(), // in all
    active: text('is_active').$type<boolean>().notNull(),
    prefs: jsonb().$type<{ theme: string }>().notNull(),
    city: varchar({ length: 90 }),
  },
  (t) => [
    index('people_city').on(t.city),
    uniqueIndex('people_email_index_idx').on(t.emailIndex),
    index('people_born_at_index_idx').on(t.bornIndex),
  ],
)
`)
    const model = get('eaas-people.ts')
    expect(model).toContain("import type { people } from './tables.js'\n")
    expect(model).toContain(`    fields: {
      email: text({ index: 'emailIndex', normalize: ['trim', 'lowercase'] }),
      born: date({ index: 'bornIndex' }).nullable(),
      seen: date(),
      day: text().nullable(),
      died: date().nullable(),
      visits: number(),
      active: boolean(),
      prefs: json<NonNullable<typeof people.$inferSelect.prefs>>(),
`)
    expect(out).toContain(
      `or in a migration by drizzle-kit generate --custom: ALTER TABLE "people" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born_at" TYPE TEXT USING to_json(date_trunc('milliseconds', "born_at"))#>>'{}' || 'Z'`,
    )
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it.each([
    ['', ", (table) => [uniqueIndex('users_email_index_idx').on(table.emailIndex)]"],
    [', (t) => []', ", (t) => [uniqueIndex('users_email_index_idx').on(t.emailIndex)]"],
    [
      ", (t) => ({ byName: index('x').on(t.name) })",
      ", (t) => ({ byName: index('x').on(t.name), emailIndex: uniqueIndex('users_email_index_idx').on(t.emailIndex) })",
    ],
    [', (t) => [index().on(t.name), // why\n]', undefined],
    [', extras', undefined],
  ])('declares indexes in the third argument of pgTable(), if it can: %j', async (extras, after) => {
    const withExtras = (text: string) => TABLES.replace('users.email),\n})', `users.email),\n}${text})`)
    put('tables.ts', withExtras(extras))
    const { out } = await init(['--table', 'users', '--fields', 'email', '--search', 'email', '--yes'])
    const added = (text: string) =>
      text.replace('// how they log in\n', "// how they log in\n  emailIndex: column('email_index'),\n")
    const imported = (text: string) => text.replace('text as column, varchar', 'text as column, uniqueIndex, varchar')
    expect(get('tables.ts')).toBe(after ? imported(added(withExtras(after))) : added(withExtras(extras)))
    expect(out.includes("in tables.ts: uniqueIndex('users_email_index_idx').on(table.emailIndex)")).toBe(!after)
  })
})

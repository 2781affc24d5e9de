// Whatever a query looks like, no plaintext of an encrypted column reaches the driver: it is encrypted,
// hashed or refused. What depends on the kind of database is in dialects.test.ts, what Kysely reads and writes on a real database in test/orm.

import { createClient, date, type Fields, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import {
  type Generated,
  HandleEmptyInListsPlugin,
  Kysely,
  type KyselyPlugin,
  replaceWithNoncontingentExpression,
  sql,
  WithSchemaPlugin,
} from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { beforeEach, describe, expect, it } from 'vitest'
import { recordDialect } from '../../../test/orm/recording-dialect.js'
import { encrypted } from './index.js'

/** A plaintext of an encrypted column, in every query below. */
const SECRET = 'ada@secret.example'

interface Database {
  users: { id: number; email: string; email_index: Generated<string>; city: string | null }
  contacts: { id: number; email: string; city: string | null }
  user_notes: { id: number; first_line: string | null }
}
type Db = Kysely<Database>

const { dialect: recording, sent, rows } = recordDialect()
let db: Db
let users: { encrypt(row: { id: number; email: string }): Promise<object> }
let connect: (plugins: KyselyPlugin[]) => Db

beforeEach(async () => {
  sent.length = 0
  rows.length = 0
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const model = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text({ index: 'email_index' }) } })
  users = model
  const notes = eaas.model({
    name: 'notes',
    keyId,
    bind: false as const,
    fields: { firstLine: text().nullable() },
  })
  connect = (plugins) =>
    new Kysely<Database>({ dialect: encrypted(recording, { users: model, user_notes: notes }), plugins })
  db = connect([])
})

const user = { id: 7, email: SECRET, city: 'London' }
const raw = (text: string) => sql<string>`${sql.raw(text)}`

const ENCRYPTED: [title: string, run: (db: Db) => Promise<unknown>][] = [
  [
    'an update by a column of another table',
    (db) => db.updateTable('users').from('contacts').set({ email: SECRET }).where('contacts.id', '=', 7).execute(),
  ],
  [
    'an update of many rows',
    (db) => db.updateTable('users').set({ email: SECRET }).where('city', '=', 'London').execute(),
  ],
  ['an insert', (db) => db.insertInto('users').values(user).execute()],
  [
    'an insert of several rows',
    (db) =>
      db
        .insertInto('users')
        .values([user, { ...user, id: 8 }])
        .execute(),
  ],
  ['an insert in another schema', (db) => db.withSchema('app').insertInto('users').values(user).execute()],
  [
    'an insert beside a common table expression of its name',
    (db) =>
      db
        .with('users', (inner) => inner.selectFrom('contacts').selectAll())
        .insertInto('users')
        .values(user)
        .execute(),
  ],
  [
    'a delete beside a common table expression of its name',
    (db) =>
      db
        .with('users', (inner) => inner.selectFrom('contacts').selectAll())
        .deleteFrom('users')
        .where('email', '=', SECRET)
        .execute(),
  ],
  [
    'an insert in a common table expression',
    (db) =>
      db
        .with('x', (inner) => inner.insertInto('users').values(user).returning('id'))
        .selectFrom('x')
        .selectAll()
        .execute(),
  ],
  [
    'an upsert by what values are bound to',
    (db) =>
      db
        .insertInto('users')
        .values(user)
        .onConflict((on) => on.column('id').doUpdateSet({ email: SECRET }))
        .execute(),
  ],
  [
    'the condition of an upsert',
    (db) =>
      db
        .insertInto('users')
        .values(user)
        .onConflict((on) => on.column('id').doUpdateSet({ city: null }).where('excluded.email', '=', SECRET))
        .execute(),
  ],
  ['an update', (db) => db.updateTable('users').set({ email: SECRET }).where('id', '=', 7).execute()],
  [
    'an update from another table',
    (db) =>
      db
        .updateTable('users as u')
        .from('contacts')
        .set({ email: SECRET })
        .whereRef('contacts.id', '=', 'u.id')
        .where('u.id', '=', 7)
        .execute(),
  ],
  ['a search', (db) => db.selectFrom('users').selectAll().where('email', 'in', [SECRET]).execute()],
  ['a delete', (db) => db.deleteFrom('users').where('email', '=', SECRET).execute()],
  [
    'a delete by another table',
    (db) => db.deleteFrom('contacts').using('users').where('users.email', '=', SECRET).execute(),
  ],
  [
    'a search in a subquery of a condition',
    (db) =>
      db
        .selectFrom('contacts')
        .selectAll()
        .where('id', 'in', (eb) => eb.selectFrom('users').select('id').where('email', '=', SECRET))
        .execute(),
  ],
  [
    'a search in `exists`',
    (db) =>
      db
        .selectFrom('contacts')
        .selectAll()
        .where(({ exists, selectFrom }) => exists(selectFrom('users').selectAll().where('email', '=', SECRET)))
        .execute(),
  ],
  [
    'a search in the selection',
    (db) =>
      db
        .selectFrom('contacts')
        .select((eb) => jsonArrayFrom(eb.selectFrom('users').selectAll().where('email', '=', SECRET)).as('found'))
        .execute(),
  ],
  [
    'a search in a subquery that is selected from',
    (db) =>
      db
        .selectFrom((eb) => eb.selectFrom('users').selectAll().where('email', '=', SECRET).as('u'))
        .selectAll()
        .where('u.email', '=', SECRET)
        .execute(),
  ],
  [
    'a search in a join',
    (db) =>
      db
        .selectFrom('contacts')
        .innerJoin('users as u', (join) => join.onRef('u.id', '=', 'contacts.id').on('u.email', '=', SECRET))
        .select('contacts.id')
        .execute(),
  ],
  [
    'a search in `case`, and in `having`',
    (db) =>
      db
        .selectFrom('users')
        .select((eb) => eb.case().when('email', '=', SECRET).then(1).else(0).end().as('is_ada'))
        .groupBy('id')
        .having('email', '=', SECRET)
        .execute(),
  ],
  [
    'a search in `union all`',
    (db) =>
      db
        .selectFrom('users')
        .select(['id', 'email'])
        .unionAll(db.selectFrom('users').select(['id', 'email']).where('email', '=', SECRET))
        .execute(),
  ],
  [
    'the update of another table by a search',
    (db) =>
      db
        .updateTable('contacts')
        .set((eb) => ({ city: eb.selectFrom('users').select('city').where('email', '=', SECRET) }))
        .execute(),
  ],
]

/** Writes that a common table expression may have. */
const OTHER_WRITES = {
  update: (db: Pick<Db, 'updateTable'>) =>
    db.updateTable('users').set({ email: SECRET }).where('id', '=', 5).returning('id'),
  delete: (db: Pick<Db, 'deleteFrom'>) => db.deleteFrom('contacts').returning('id'),
  insert: (db: Pick<Db, 'insertInto'>) => db.insertInto('contacts').values(user).returning('id'),
  text: () => sql<{ id: number }>`(delete from contacts returning id)`,
}

const REFUSED: [title: string, message: RegExp, run: (db: Db) => Promise<unknown>][] = [
  [
    'an insert from a query',
    /an insert from a query is not supported/,
    (db) =>
      db
        .insertInto('users')
        .columns(['id', 'email'])
        .expression((eb) => eb.selectFrom('contacts').select(['id', 'email']).where('email', '=', SECRET))
        .execute(),
  ],
  [
    'a value that is SQL',
    /users\.email: the database cannot compute its value/,
    (db) =>
      db
        .insertInto('users')
        .values({ ...user, email: sql`lower(${SECRET})` })
        .execute(),
  ],
  [
    'an update to a column of another table',
    /users\.email: the database cannot compute its value/,
    (db) =>
      db
        .updateTable('users')
        .from('contacts')
        .set((eb) => ({ email: eb.ref('contacts.email') }))
        .where('contacts.email', '=', SECRET)
        .execute(),
  ],
  [
    'an update of a column that is SQL',
    /to set an expression is not supported/,
    (db) => db.updateTable('users').set(raw('email'), SECRET).where('id', '=', 7).execute(),
  ],
  [
    'an update of a column of another table',
    /an update of several tables/,
    (db) =>
      db
        .updateTable('contacts')
        .from('users')
        .set('users.email' as never, SECRET as never)
        .execute(),
  ],
  [
    'an update of a list of tables, as MySQL has it',
    /an update of several tables/,
    (db) => db.updateTable(['contacts', 'users']).set({ email: SECRET }).execute(),
  ],
  [
    'an update of an alias, as SQL Server has it, of many rows',
    /bound to id/,
    (db) =>
      db
        .updateTable('u' as 'contacts')
        .from('users as u')
        .set({ email: SECRET })
        .execute(),
  ],
  ...(['update', 'delete', 'insert', 'text'] as const).flatMap((kind): typeof REFUSED => {
    const other = (db: Db) =>
      db.with('x', (inner) => OTHER_WRITES[kind](inner) as ReturnType<typeof OTHER_WRITES.update>)
    return [
      [
        `an update of many rows, with an ${kind} in a common table expression`,
        /another write, or SQL as text, in `with`/,
        (db) => other(db).updateTable('users').set({ email: SECRET }).where('city', '=', 'London').execute(),
      ],
      [
        `an upsert by another column, with an ${kind} in a common table expression`,
        /another write, or SQL as text, in `with`/,
        (db) =>
          other(db)
            .insertInto('users')
            .values([user, { ...user, id: 8 }])
            .onConflict((on) => on.column('email').doUpdateSet({ email: SECRET }))
            .execute(),
      ],
    ]
  }),
  [
    'an update of many rows with SQL at its end',
    /endModifiers of a write whose rows must be read before/,
    (db) => db.updateTable('users').set({ email: SECRET }).where('city', '=', 'x').modifyEnd(sql`or true`).execute(),
  ],
  [
    'an update of many rows that is to be explained',
    /explain of a write whose rows must be read before/,
    (db) => db.updateTable('users').set({ email: SECRET }).where('city', '=', 'x').explain(),
  ],
  [
    'an update of many rows beside a common table expression of its name',
    /a common table expression of the name of the table/,
    (db) =>
      db
        .with('users', (inner) => inner.selectFrom('contacts').selectAll())
        .updateTable('users')
        .set({ email: SECRET })
        .where('city', '=', 'London')
        .execute(),
  ],
  [
    'an upsert by a constraint',
    /an upsert by a constraint/,
    (db) =>
      db
        .insertInto('users')
        .values(user)
        .onConflict((on) => on.constraint('users_pkey').doUpdateSet({ email: SECRET }))
        .execute(),
  ],
  [
    'an upsert as SQL',
    /users\.email is encrypted/,
    (db) =>
      db.insertInto('users').values(user).modifyEnd(sql`on conflict (id) do update set email = ${SECRET}`).execute(),
  ],
  [
    'a merge into the table',
    /merge of users is not supported/,
    (db) =>
      db
        .mergeInto('users')
        .using('contacts', 'users.id', 'contacts.id')
        .whenMatched()
        .thenUpdateSet({ email: SECRET })
        .execute(),
  ],
  [
    'a merge by the table',
    /merge of users is not supported/,
    (db) =>
      db
        .mergeInto('contacts')
        .using('users', (join) => join.onRef('users.id', '=', 'contacts.id').on('users.email', '=', SECRET))
        .whenMatched()
        .thenDelete()
        .execute(),
  ],
  [
    'SQL in a condition that names the column',
    /users\.email is encrypted/,
    (db) => db.selectFrom('users').selectAll().where(sql<boolean>`email = ${SECRET}`).execute(),
  ],
  [
    'SQL in a condition that names it by an alias',
    /users\.email is encrypted/,
    (db) => db.selectFrom('users as u').selectAll().where(sql<boolean>`"U"."EMAIL" = ${SECRET}`).execute(),
  ],
  [
    'SQL on the left of a comparison',
    /users\.email is encrypted/,
    (db) => db.selectFrom('users').selectAll().where(raw('email'), '=', SECRET).execute(),
  ],
  [
    'SQL on the right of a comparison',
    /users\.email is encrypted/,
    (db) => db.selectFrom('users').selectAll().where('email', '=', sql<string>`lower(${SECRET})`).execute(),
  ],
  [
    'a value on the left of a comparison',
    /users\.email is encrypted/,
    (db) =>
      db
        .selectFrom('users')
        .selectAll()
        .where((eb) => eb(eb.val(SECRET), '=', eb.ref('email')))
        .execute(),
  ],
  [
    'a tuple',
    /users\.email is encrypted/,
    (db) =>
      db
        .selectFrom('users')
        .selectAll()
        .where(({ eb, refTuple, tuple }) => eb(refTuple('id', 'email'), 'in', [tuple(7, SECRET)]))
        .execute(),
  ],
  [
    'a pattern',
    /cannot compare it by "ilike"/,
    (db) => db.selectFrom('users').selectAll().where('email', 'ilike', SECRET).execute(),
  ],
  [
    'SQL in place of a table',
    /SQL as text that names the table users/,
    (db) => db.selectFrom(sql<Database['users']>`users`.as('u')).selectAll().where('u.email', '=', SECRET).execute(),
  ],
  [
    'SQL in a common table expression',
    /SQL as text that names the table users/,
    (db) =>
      db
        .with('x', () => sql<{ id: number }>`(insert into users values (7, ${SECRET}) returning id)`)
        .selectFrom('x')
        .selectAll()
        .execute(),
  ],
  [
    'a statement of SQL that inserts',
    /SQL as text that writes the table users, or names/,
    (db) => sql`insert into ${sql.table('users')} values (7, ${SECRET})`.execute(db),
  ],
  [
    'a statement of SQL that searches',
    /SQL as text that writes the table users, or names/,
    (db) => sql`select * from users where ${sql.ref('email')} = ${SECRET}`.execute(db),
  ],
  ...[
    '*',
    'users.*',
    '"users".*',
    'users . *',
    'public.users.*',
    'to_jsonb(users.*)',
    'row(users.*)::text',
    'jsonb_agg(users)',
    '(users).*',
    'id, *',
  ].flatMap((text): typeof REFUSED => [
    [
      `${text} in a selection`,
      /SQL as text that names (all columns of users|the table users)/,
      (db) => db.selectFrom('users').select(raw(text).as('x')).where('email', '=', SECRET).execute(),
    ],
    [
      `${text} in returning`,
      /SQL as text that names (all columns of users|the table users)/,
      (db) => db.updateTable('users').set({ email: SECRET }).where('id', '=', 7).returning(raw(text).as('x')).execute(),
    ],
  ]),
  ...['*', 'u.*', 'u', 'to_jsonb(u)', 'q.*'].map((text): (typeof REFUSED)[number] => [
    `${text} of an alias and a subquery`,
    /SQL as text that names all columns of (u|q)/,
    (db) =>
      db
        .selectFrom('users as u')
        .innerJoin((eb) => eb.selectFrom('users').select(['id', 'email']).as('q'), 'q.id', 'u.id')
        .select(raw(text).as('x'))
        .where('u.email', '=', SECRET)
        .execute(),
  ]),
  ...['q', 'q.*', 'to_jsonb(q)', 'notes', 'q.notes'].map((text): (typeof REFUSED)[number] => [
    `${text} of a query with JSON`,
    /names all columns of q|users\.email is encrypted/,
    (db) =>
      db
        .with('q', (inner) =>
          inner
            .selectFrom('contacts')
            .select((eb) => ['id', jsonArrayFrom(eb.selectFrom('users').selectAll()).as('notes')]),
        )
        .selectFrom('q')
        .select(raw(text).as('x'))
        .where('q.id', '=', SECRET as never)
        .execute(),
  ]),
  ...(['jsonAgg', 'toJson'] as const).flatMap((call) =>
    ['email', 'users.email', 'users'].map((name): (typeof REFUSED)[number] => [
      `${call} of ${name}`,
      /users\.email is encrypted|as a value, which is a whole row/,
      (db) =>
        db
          .selectFrom('users')
          .select((eb) => (eb.fn[call] as typeof eb.fn.toJson)(name as never).as('x'))
          .where('email', '=', SECRET)
          .execute(),
    ]),
  ),
  ...['2', '1, 2', '(2) desc', 'mail', 'lower(mail)', 'email', 'users.email desc'].flatMap((text): typeof REFUSED => {
    const select = (db: Db) => db.selectFrom('users').select(['id', 'email as mail']).where('email', '=', SECRET)
    const message = /users\.email is encrypted/
    return [
      [`to sort by ${text}`, message, (db) => select(db).orderBy(raw(text)).execute()],
      [
        `to group by ${text}`,
        message,
        (db) =>
          select(db)
            .groupBy(raw(text) as never)
            .execute(),
      ],
      [
        `distinct on ${text}`,
        message,
        (db) =>
          select(db)
            .distinctOn(raw(text) as never)
            .execute(),
      ],
    ]
  }),
  [
    'to sort by a literal position',
    /cannot sort or group/,
    (db) =>
      db
        .selectFrom('users')
        .selectAll()
        .where('email', '=', SECRET)
        .orderBy((eb) => eb.lit(1))
        .execute(),
  ],
  [
    'to sort by a number, which a driver may put into the SQL',
    /cannot sort or group/,
    (db) => db.selectFrom('users').select(['id', 'email']).where('email', '=', SECRET).orderBy(sql`${2}`).execute(),
  ],
  [
    'to sort by the position in all columns',
    /cannot sort or group/,
    (db) => db.selectFrom('users').selectAll().where('email', '=', SECRET).orderBy(sql`2`).execute(),
  ],
  [
    'to sort by the name of a selected column',
    /cannot sort or group/,
    (db) => db.selectFrom('users').select('email as mail').where('email', '=', SECRET).orderBy('mail').execute(),
  ],
  ...['distinct', 'distinct on (1)'].map((text): (typeof REFUSED)[number] => [
    `${text} as a modifier`,
    /users\.email is encrypted/,
    (db) => db.selectFrom('users').select('email').modifyFront(raw(text)).where('email', '=', SECRET).execute(),
  ]),
  [
    'to sort by a position in a modifier',
    /cannot sort or group/,
    (db) =>
      db.selectFrom('users').select(['id', 'email']).modifyEnd(raw('order by 2')).where('email', '=', SECRET).execute(),
  ],
  [
    'to sort a window',
    /users\.email is encrypted/,
    (db) =>
      db
        .selectFrom('users')
        .select((eb) =>
          eb.fn
            .countAll()
            .over((ob) => ob.orderBy('email'))
            .as('n'),
        )
        .where('email', '=', SECRET)
        .execute(),
  ],
  [
    'to sort a window by text',
    /users\.email is encrypted/,
    (db) =>
      db
        .selectFrom('users')
        .select(raw('row_number() over (order by email)').as('n'))
        .where('email', '=', SECRET)
        .execute(),
  ],
  [
    'to count different values',
    /users\.email is encrypted/,
    (db) =>
      db
        .selectFrom('users')
        .select((eb) => eb.fn.count('email').distinct().as('n'))
        .where('email', '=', SECRET)
        .execute(),
  ],
  [
    'a statement of SQL that writes after a name with an apostrophe',
    /SQL as text that writes the table users, or names/,
    (db) => sql`with a as (select 1 as "it's") update users set email = ${SECRET} where city = 'x'`.execute(db),
  ],
  [
    'a statement of SQL that writes after an identifier with quotes',
    /SQL as text that writes the table users, or names/,
    (db) => sql`with ${sql.id('"\'')} as (select 1) update users set email = ${SECRET} where city = 'x'`.execute(db),
  ],
  [
    'a statement of SQL whose names have escapes',
    /SQL as text with U&"…"/,
    (db) => sql`update U&"\\0075sers" set U&"\\0065mail" = ${SECRET}`.execute(db),
  ],
  [
    'SQL in a condition that names the column after such a name',
    /users\.email is encrypted/,
    (db) =>
      db.selectFrom('users').selectAll().where(sql<boolean>`"it's" is null or email = ${SECRET} or 'x' = ''`).execute(),
  ],
  [
    'a view of a search',
    /a definition with a query of users/,
    (db) =>
      db.schema
        .createView('ada')
        .as(db.selectFrom('users').selectAll().where('email', '=', SECRET))
        .execute(),
  ],
  [
    'columns of a common table expression',
    /a list of columns of "x"/,
    (db) =>
      db
        .with('x(mail)', (inner) => inner.selectFrom('users').select('email as mail'))
        .selectFrom('x')
        .select('mail')
        .where('mail', '=', SECRET)
        .execute(),
  ],
  [
    'a subquery as a value',
    /users\.email is encrypted: it cannot be part of an expression/,
    (db) =>
      db
        .selectFrom('contacts')
        .select((eb) => eb.selectFrom('users').select('email').where('email', '=', SECRET).as('mail'))
        .execute(),
  ],
  [
    'a union with other columns',
    /union of users\.email is not supported/,
    (db) =>
      db
        .selectFrom('users')
        .select('email')
        .unionAll(db.selectFrom('contacts').select('email').where('email', '=', SECRET))
        .execute(),
  ],
  [
    'a column that the model spells otherwise',
    /"first_line" in the database, and "firstLine" in the models/,
    (db) => db.insertInto('user_notes').values({ id: 7, first_line: SECRET }).execute(),
  ],
  [
    'an update of a column that the model spells otherwise',
    /"first_line" in the database, and "firstLine" in the models/,
    (db) => db.updateTable('user_notes').set({ first_line: SECRET }).execute(),
  ],
  [
    'a table that the models spell otherwise',
    /the table is "Users" in the database, and "users" in the models/,
    (db) =>
      db
        .insertInto('Users' as 'users')
        .values(user)
        .execute(),
  ],
]

// A plugin that copies nodes leaves members without a value.
const copying = new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression })

describe.each<[string, KyselyPlugin[]]>([
  ['without a plugin', []],
  ['with a plugin that copies the query', [copying, new WithSchemaPlugin('app')]],
])('Kysely, %s', (_, plugins) => {
  it.each(ENCRYPTED)('sends no plaintext in %s', async (_, run) => {
    await run(connect(plugins))
    expect(sent).toHaveLength(1)
    expect(sent.join()).not.toContain(SECRET)
  })
  it.each(REFUSED)('refuses %s, before anything is sent', async (_, message, run) => {
    await expect(run(connect(plugins))).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
    })
    expect(sent).toEqual([])
  })
})

describe('Kysely', () => {
  it.each<[string, (db: Db) => Promise<unknown>]>([
    [
      'a sort by the position of another column',
      (db) => db.selectFrom('users').select(['id', 'email']).orderBy(sql`1 desc`).execute(),
    ],
    ['factors', (db) => db.selectFrom('users').select(raw('id * 2').as('n')).orderBy(sql`${2} * id`).execute()],
    [
      'a sort by an inner query that compares with a number',
      (db) =>
        db
          .selectFrom('users')
          .select(['email', 'id'])
          .orderBy((eb) => eb.selectFrom('contacts').select('city').where('id', '=', 1))
          .orderBy((eb) => eb('id', '=', 1))
          .execute(),
    ],
    [
      'all columns of another table',
      (db) =>
        db.selectFrom('users').innerJoin('contacts as c', 'c.id', 'users.id').select(raw('c.*').as('c')).execute(),
    ],
  ])('sends %s', async (_, run) => {
    await run(db)
    expect(sent).toHaveLength(1)
  })
  it('streams opened rows', async () => {
    rows.push(await users.encrypt({ id: 7, email: SECRET }))
    const read: unknown[] = []
    for await (const row of db.selectFrom('users').select(['id', 'email']).stream()) read.push(row)
    expect(read).toMatchObject([{ id: 7, email: SECRET }])
  })
  it('opens columns under other names', async () => {
    const { id, email } = (await users.encrypt({ id: 7, email: SECRET })) as Database['users']
    rows.push({ of: id, mail: email, city: 'London' })
    const query = db.deleteFrom('users').returning(['id as of', 'email as mail', 'city'])
    expect(await query.execute()).toEqual([{ of: 7, mail: SECRET, city: 'London' }])
  })
  it('refuses a result with two columns of one name', async () => {
    const query = db
      .selectFrom('users as a')
      .innerJoin('users as b', 'a.id', 'b.id')
      .select(['a.id', 'a.email', 'b.email'])
    await expect(query.execute()).rejects.toMatchObject({ message: expect.stringContaining('two columns "email"') })
  })
  it('leaves columns of the same name alone that are of another table', async () => {
    const join = db.selectFrom('users').innerJoin('contacts', 'contacts.id', 'users.id')
    await join
      .select(['users.id', 'users.city', 'contacts.email'])
      .where('contacts.email', '=', 'x')
      .where(sql<boolean>`contacts.email like ${'x'}`)
      .orderBy('contacts.email')
      .execute()
    await db
      .updateTable('contacts')
      .set({ email: 'x' })
      .from('users')
      .whereRef('users.id', '=', 'contacts.id')
      .execute()
    expect(sent).toHaveLength(2)
  })
  it('executes statements of SQL that name no encrypted column', async () => {
    await sql`select count(*) from users where city = ${'London'}`.execute(db)
    await db.schema.createTable('users').addColumn('email', 'jsonb').execute()
    expect(sent).toHaveLength(2)
  })
  it.each(['app.users', '"users"', '"app"."users"'])('refuses a name that no query has: %s', (name) => {
    expect(() => encrypted(recording, { [name]: users as never })).toThrow(/is named with its schema/)
  })
  it('compiles where a model seals some members of a JSON column', () => {
    interface Places {
      places: { id: Generated<number>; address: { street: string; city: string; since: Date } | null }
    }
    const eaas = createClient(createTestService())
    const modelOf = <F extends Fields>(fields: F) => eaas.model({ name: 'places', key: 'x', bind: ['id'], fields })
    encrypted<Places>(recording, { places: modelOf({ 'address.street': text() }) })
    encrypted<Places>(recording, { places: modelOf({ 'address.street': text(), 'address.since': date() }) })
    // @ts-expect-error the date is no text
    encrypted<Places>(recording, { places: modelOf({ 'address.since': text() }) })
    // @ts-expect-error an address is an object
    encrypted<Places>(recording, { places: modelOf({ address: text() }) })
    // @ts-expect-error no address has this member
    encrypted<Places>(recording, { places: modelOf({ 'address.zip': text() }) })
  })
  it('encrypts where the interface of the database names tables with their schemas', async () => {
    interface Qualified {
      'app.users': Database['users']
    }
    const dialect = encrypted<Qualified>(recording, { users: users as never })
    // @ts-expect-error no query has this name
    expect(() => encrypted<Qualified>(recording, { 'app.users': users as never })).toThrow(/schema/)
    await new Kysely<Qualified>({ dialect }).insertInto('app.users').values(user).execute()
    expect(sent.join()).toMatch(/into .{0,2}app.{0,5}users/)
    expect(sent.join()).not.toContain(SECRET)
  })
  it.each([
    [['email'], '("email_index") do nothing'],
    [['city', 'email'], '("city", "email_index") do nothing'],
    [['id'], '("id") do nothing'],
  ] as const)('conflicts in %j by the column of the index', async (columns, expected) => {
    await db
      .insertInto('users')
      .values(user as never)
      .onConflict((on) => on.columns(columns).doNothing())
      .execute()
    expect(sent[0]).toContain(JSON.stringify(`on conflict ${expected}`).slice(1, -1))
  })
  it('refuses an update of rows that must be read before if nothing is bound, by which they are found again', async () => {
    const eaas = createClient(createTestService())
    const fields = { email: text() }
    const people = eaas.model({ name: 'people', keyId: (row) => row.owner as string, bind: false, fields })
    const keyed = new Kysely<Database>({ dialect: encrypted(recording, { users: people }) })
    rows.push({ id: 7 }, { id: 8 })
    await expect(keyed.updateTable('users').set({ email: SECRET }).execute()).rejects.toThrow(
      '`bind: false` leaves no column by which they are found again',
    )
    expect(sent).toEqual([])
    eaas.close()
  })
  it('keeps the key of each row that an update may find', async () => {
    const eaas = createClient(createTestService())
    const { id: key } = await eaas.keys.create({ name: 'people' })
    const people = eaas.model({ name: 'people', keyId: (row) => row.city, bind: ['id'], fields: { email: text() } })
    const keyed = new Kysely<Database>({ dialect: encrypted(recording, { users: people as never }) })
    const move = keyed.updateTable('users').set({ city: key }).where('city', '=', key)
    await expect(move.where(raw('true or true') as never).execute()).rejects.toThrow('people.city must not change')
    expect(sent).toEqual([])
    await move.execute()
    expect(sent).toHaveLength(1)
    eaas.close()
  })
  it('refuses what is not a model', () => {
    expect(() => encrypted(recording, { users: {} as never })).toThrow(/expected a model/)
  })
})

// What only Kysely can be asked: several names for one query, proven updates of one row. On a real PostgreSQL.
import { randomUUID } from 'node:crypto'
import { type ExpressionBuilder, type Generated, Kysely, PostgresDialect, type SqlBool, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/kysely/src/index.js'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { backend, freshDatabase } from '../support/database/database.js'

interface Person {
  id: string
  email: string
  nick: string | null
  city: string
  boss: string | null
}

interface Database {
  people: Person
  cases: { id: string; number: number; title: string }
  owned: { id: string; key_id: string; note: string }
  memos: { id: Generated<string>; note: string | null; size: Generated<number> }
}

describe.runIf(backend() === 'postgres')('Kysely', () => {
  let db: Kysely<Database>
  let pool: pg.Pool
  let eaas: Client
  let close: () => Promise<void>
  let newKey: () => Promise<string>

  beforeAll(async () => {
    const database = await freshDatabase('kysely')
    if (database.backend !== 'postgres') throw new Error('Kysely needs a PostgreSQL')
    pool = new pg.Pool({ connectionString: database.directUrl, max: 2 })
    await pool.query(`
      create table people (id text primary key, email text not null, email_index text, nick text, city text not null, boss text);
      create table cases (id uuid, number int, title text not null, primary key (id, number));
      create table owned (id text primary key, key_id uuid not null, note text);
      create table memos (id uuid primary key default gen_random_uuid(), note text default 'made', size int default 3);`)
    eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const format = 'text'
    const people = eaas.model({
      name: 'people',
      keyId,
      bind: ['id'],
      format,
      warn: false,
      fields: { email: text({ index: 'email_index' }), nick: text().nullable() },
    })
    const cases = eaas.model({ name: 'cases', keyId, bind: ['id', 'number'], format, fields: { title: text() } })
    const own = { name: 'owned', keyId: (row: { key_id?: unknown }) => row.key_id, bind: ['id'], format } as const
    const owned = eaas.model({ ...own, fields: { note: text() } })
    const memos = eaas.model({ name: 'memos', keyId, bind: ['id'], format, fields: { note: text().optional() } })
    db = new Kysely<Database>({ dialect: encrypted(new PostgresDialect({ pool }), { people, cases, owned, memos }) })
    newKey = async () => (await eaas.keys.create({ name: crypto.randomUUID() })).id
    close = async () => {
      await db.destroy()
      eaas.close()
      await database.drop()
    }
  })
  beforeEach(async () => {
    await pool.query('truncate people, cases, owned, memos')
    await db.insertInto('people').values([ADA, BEN]).execute()
  })
  afterAll(() => close())

  const people = () => db.selectFrom('people').select(['id', 'email', 'nick', 'city', 'boss']).orderBy('id').execute()
  const refused = (call: Promise<unknown>, message: RegExp) =>
    expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })

  describe('an insert of default values', () => {
    it('takes those of the columns that are not encrypted', async () => {
      const row = { id: expect.any(String), note: null, size: 3 }
      const insert = (on: Pick<typeof db, 'insertInto'>) => on.insertInto('memos').defaultValues()
      expect(await insert(db).returningAll().execute()).toEqual([row])
      const inner = db.with('x', (on) => insert(on).returning(['id', 'note', 'size']))
      expect(await inner.selectFrom('x').selectAll().execute()).toEqual([row])
      await insert(db)
        .onConflict((on) => on.column('id').doUpdateSet({ note: 'new' }))
        .execute()
      expect((await pool.query('select note from memos')).rows).toEqual([1, 2, 3].map(() => ({ note: null })))
    })
    it('is refused where they would be no row of the model', async () => {
      await refused(db.insertInto('people').defaultValues().execute(), /the row has no id/)
      expect(await people()).toEqual([ADA, BEN])
    })
  })

  describe('an insert of more rows than one statement takes with what is encrypted', () => {
    const COUNT = 17_000
    const rows = (city: (at: number) => string = () => 'Rome') =>
      Array.from({ length: COUNT }, (_, at) => ({ id: `n${at}`, email: `${at}@x.org`, city: city(at) }))
    const count = async () => Number((await pool.query('select count(*) from people')).rows[0].count) - 2

    it('stores and returns all, in their order, and upserts them', async () => {
      const insert = () => db.insertInto('people').values(rows() as never)
      const returned = await insert().returning(['id', 'email']).execute()
      expect(returned.map(({ email }) => email)).toEqual(rows().map(({ email }) => email))
      expect(await count()).toBe(COUNT)
      const skipped = await insert()
        .onConflict((on) => on.column('id').doNothing())
        .executeTakeFirst()
      expect(skipped.numInsertedOrUpdatedRows).toBe(0n)
      const changed = await insert()
        .onConflict((on) => on.column('id').doUpdateSet((eb) => ({ email: eb.ref('excluded.email') })))
        .executeTakeFirst()
      expect(changed.numInsertedOrUpdatedRows).toBe(BigInt(COUNT))
    })
    it('stores none where the database refuses one', async () => {
      const last = (at: number) => (at === COUNT - 1 ? (null as never) : 'Rome')
      await expect(
        db
          .insertInto('people')
          .values(rows(last) as never)
          .execute(),
      ).rejects.toThrow('null value')
      expect(await count()).toBe(0)
    })
    it('stores none in a transaction that goes on after one could not be sealed', async () => {
      await db.transaction().execute(async (inner) => {
        const some = rows()
        const last = { ...some.at(-1), email: 7 } as never
        const insert = inner.insertInto('people').values([...some.slice(0, -1), last] as never)
        await expect(insert.execute()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
        await inner.deleteFrom('people').where('id', '=', 'nobody').execute()
      })
      expect(await count()).toBe(0)
    })
    it('is refused, with the number of rows that fit, where it cannot be divided', async () => {
      const inner = db.with('x', (on) =>
        on
          .insertInto('people')
          .values(rows() as never)
          .returning('id'),
      )
      await expect(inner.selectFrom('x').selectAll().execute()).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message:
          'an insert: with what is encrypted, the statement has 85000 parameters, and the database takes at most 65533',
        hint: 'Insert at most 13106 rows by such a statement, not 17000.',
      })
      expect(await count()).toBe(0)
    })
  })

  describe('a query under several names', () => {
    const BOTH = ['me.id as my_id', 'me.email as my_email', 'boss.id as boss_id', 'boss.email as boss_email'] as const
    const adas = { my_id: 'ada', my_email: ADA.email, boss_id: 'ben', boss_email: BEN.email }
    const bens = { my_id: 'ben', my_email: BEN.email, boss_id: null, boss_email: null }
    const withPeople = () => db.with('x', (inner) => inner.selectFrom('people').select(['id', 'email', 'nick', 'boss']))

    it('has rows of its own under each', async () => {
      const joined = withPeople().selectFrom('x as me')
      const query = joined.innerJoin('x as boss', 'boss.id', 'me.boss').select(BOTH)
      expect(await query.execute()).toEqual([adas])
    })
    it('has rows of its own in an outer join', async () => {
      const joined = withPeople().selectFrom('x as me').leftJoin('x as boss', 'boss.id', 'me.boss')
      expect(await joined.select(BOTH).orderBy('me.id').execute()).toEqual([adas, bens])
    })
    it('has rows of its own beside a query of it', async () => {
      const both = withPeople().with('y', (inner) => inner.selectFrom('x').select(['id', 'email']))
      const query = both.selectFrom('x as me').innerJoin('y as boss', 'boss.id', 'me.boss').select(BOTH)
      expect(await query.execute()).toEqual([adas])
    })
    it('has rows of its own in a lateral join', async () => {
      const query = withPeople()
        .selectFrom('x as me')
        .innerJoinLateral(
          (eb) => eb.selectFrom('x').select(['x.id', 'x.email']).whereRef('x.id', '=', 'me.boss').as('boss'),
          (join) => join.onTrue(),
        )
        .select(BOTH)
      expect(await query.execute()).toEqual([adas])
    })
    it('reads the id of each for its fields, and returns no more than was selected', async () => {
      const joined = withPeople().selectFrom('x as me').innerJoin('x as boss', 'boss.id', 'me.boss')
      expect(await joined.select(['me.id', 'me.email', 'boss.nick as boss_nick']).execute()).toEqual([
        { id: 'ada', email: ADA.email, boss_nick: BEN.nick },
      ])
    })
    it('is refused where the query inside has no id', async () => {
      const inside = db.with('x', (inner) => inner.selectFrom('people').select('nick')).selectFrom('x')
      await refused(inside.select('x.nick').execute(), /people\.nick cannot be selected without id/)
    })
    it('reads the id for JSON, and leaves it out of it', async () => {
      const query = db
        .selectFrom('people as p')
        .select((eb) =>
          jsonArrayFrom(eb.selectFrom('people as q').select('q.nick').whereRef('q.id', '=', 'p.boss')).as('all'),
        )
        .where('p.id', '=', 'ada')
      expect(await query.execute()).toEqual([{ all: [{ nick: BEN.nick }] }])
    })
    it('is not one with a union whose rows are of several', async () => {
      const query = db
        .selectFrom('people as p')
        .select(['p.id', 'p.email as one', 'p.email as other'])
        .unionAll(
          db
            .selectFrom('people as a')
            .innerJoin('people as b', 'b.id', 'a.boss')
            .select(['a.id', 'a.email as one', 'b.email as other']),
        )
      await refused(query.execute(), /union of people\.email is not supported/)
    })
    it('finds itself where it is recursive', async () => {
      const chain = (email: string) =>
        db
          .withRecursive('chain', (inner) =>
            inner
              .selectFrom('people')
              .select(['id', 'email', 'email_index' as 'email', 'boss'])
              .where('email', '=', ADA.email)
              .unionAll(
                inner
                  .selectFrom('chain')
                  .innerJoin('people as p', 'p.id', 'chain.boss')
                  .select(['p.id', 'p.email', 'p.email_index' as 'p.email', 'p.boss'])
                  .where('chain.email', '=', email),
              ),
          )
          .selectFrom('chain')
          .select(['id', 'email'])
          .execute()
      const found = [ADA, BEN].map(({ id, email }) => ({ id, email }))
      expect(await chain(ADA.email)).toEqual(found)
      expect(await chain('nobody')).toEqual(found.slice(0, 1))
    })
    it('must be defined before it is named', async () => {
      const query = db
        .withRecursive('y', (inner) => inner.selectFrom('x' as 'people').select(['id', 'email']))
        .withRecursive('x', (inner) => inner.selectFrom('people').select(['id', 'email']))
      await refused(query.selectFrom('y').select(['id', 'email']).execute(), /"x" before it is defined/)
    })
    it('keeps the JSON in it', async () => {
      const query = db
        .with('x', (inner) =>
          inner
            .selectFrom('people as p')
            .select((eb) => [
              'p.id',
              jsonArrayFrom(
                eb.selectFrom('people as q').select(['q.id', 'q.email']).whereRef('q.id', '=', 'p.boss'),
              ).as('bosses'),
            ]),
        )
        .selectFrom('x')
        .select(['x.id', 'x.bosses as all'])
        .where('x.id', '=', 'ada')
      expect(await query.execute()).toEqual([{ id: 'ada', all: [{ id: 'ben', email: BEN.email }] }])
    })
    it('keeps the names of what it selects beside all of a table', async () => {
      const query = db
        .with('x', (inner) =>
          inner
            .selectFrom('people as p')
            .leftJoin('people as boss', 'boss.id', 'p.boss')
            .selectAll('p')
            .select(['boss.id as boss_id', 'boss.nick as boss_nick']),
        )
        .selectFrom('x')
        .select(['x.boss_id', 'x.boss_nick'])
        .where('x.id', '=', 'ada')
      expect(await query.execute()).toEqual([{ boss_id: 'ben', boss_nick: BEN.nick }])
    })
  })

  describe('an update of one row', () => {
    type Condition = (eb: ExpressionBuilder<Database, 'people'>) => ReturnType<typeof sql<SqlBool>>
    const update = () => db.updateTable('people').set({ nick: 'new' })

    it.each<[string, (eb: ExpressionBuilder<Database, 'people'>) => unknown]>([
      ['SQL', () => sql`false or true`],
      ['SQL in parentheses', (eb) => eb.parens(sql<boolean>`true) or (true`)],
      ['SQL in a comparison', (eb) => eb('city', '=', sql<string>`'x' or true`)],
      ['SQL in an expression', (eb) => eb.not(sql<boolean>`false or true`)],
      ['a function of any name', (eb) => eb.fn<boolean>('true or coalesce', [eb.lit(true)])],
      ['a type as SQL', (eb) => eb(eb.cast<string>('city', sql`text) = '' or (true`), '=', 'x')],
      [
        'SQL in a query inside',
        (eb) => eb.exists(eb.selectFrom('cases').select('id').where(sql<boolean>`true)) or ((true`)),
      ],
      ['an operator that is `or` elsewhere', (eb) => eb(eb('city', '=', 'x'), '||' as '=', eb.lit(true))],
    ])('is one of each row that it finds, beside %s', async (_, condition) => {
      const query = update()
        .where('id', '=', 'ada')
        .where(condition as Condition)
      const other = update()
        .where(condition as Condition)
        .where('id', '=', 'ada')
      for (const one of [query, other])
        await one.execute().catch((error: Error) => expect(error).toBeInstanceOf(pg.DatabaseError))
      const found = await people() // each opens, whichever were changed
      expect(found.map(({ nick }) => nick === 'new' || nick === 'countess' || nick === 'dean')).toEqual([true, true])
    })
    it('is refused with SQL after its condition', async () => {
      await refused(update().where('id', '=', 'ada').modifyEnd(sql`or true`).execute(), /SQL as text in an update/)
    })
    it.each(["'x', id = 'ben'", "'x' where true --", "'x' from x where true /*", "(select 'x'", "'x'; select 1", "'x"])(
      'is refused where it sets %s',
      async (value) => {
        const query = update().set({ city: sql<string>`${sql.raw(value)}` })
        await refused(query.where('id', '=', 'ada').execute(), /SQL as text in (an update|which a quote does not end)/)
      },
    )
    it('may have further conditions, and SQL as the value of a column', async () => {
      await update()
        .set({ city: sql<string>`upper(${'oslo'})` })
        .where((eb) => eb.and([eb('id', '=', 'ada'), eb.or([eb('city', 'like', 'Lon%'), eb('boss', 'is', null)])]))
        .where((eb) => eb.not(eb.exists(eb.selectFrom('cases').select('cases.id').where('cases.number', '=', 7))))
        .execute()
      expect(await people()).toEqual([{ ...ADA, nick: 'new', city: 'OSLO' }, BEN])
    })
  })

  it('finds the key of each row wherever its column is selected', async () => {
    const key_id = await newKey()
    const row = { id: 'ada', key_id, note: 'first' }
    await db.insertInto('owned').values(row).execute()
    await db
      .insertInto('owned')
      .values({ ...row, id: 'ben', key_id: await newKey() })
      .execute()
    const first = db.selectFrom('owned as o').where('o.id', '=', 'ada')
    expect(await first.selectAll().execute()).toEqual([row])
    expect(await first.selectAll('o').select('o.key_id as k').execute()).toEqual([{ ...row, k: key_id }])
    expect(await first.select(['key_id as k', 'id as i', 'note as n']).execute()).toEqual([
      { k: key_id, i: 'ada', n: 'first' },
    ])
    const joined = first.innerJoin('people', 'people.id', 'o.id')
    expect(await joined.selectAll('o').select('people.city').execute()).toEqual([{ ...row, city: 'London' }])
    const inside = db.with('x', (inner) => inner.selectFrom('owned').selectAll()).selectFrom('x')
    expect(await inside.select(['x.id', 'x.key_id as k', 'x.note']).where('x.id', '=', 'ada').execute()).toEqual([
      { id: 'ada', k: key_id, note: 'first' },
    ])
    const json = db
      .selectFrom('people')
      .select((eb) => [
        'id',
        jsonArrayFrom(eb.selectFrom('owned as o').selectAll('o').whereRef('o.id', '=', 'people.id')).as('own'),
      ])
    expect(await json.where('id', '=', 'ada').execute()).toEqual([{ id: 'ada', own: [row] }])
    await refused(first.select(['o.id', 'o.note']).execute(), /keyId\(\) must return the id of a key/)
  })
  it('sets no key, nor an index, to what the database computes', async () => {
    const key_id = await newKey()
    await db.insertInto('owned').values({ id: 'ada', key_id, note: 'first' }).execute()
    const other = sql<string>`gen_random_uuid()`
    await refused(db.updateTable('owned').set({ key_id: other }).execute(), /owned\.key_id must not change/)
    const upsert = db.insertInto('owned').values({ id: 'ada', key_id: await newKey(), note: 'x' })
    await refused(
      upsert.onConflict((on) => on.column('id').doUpdateSet((eb) => ({ key_id: eb.ref('excluded.key_id') }))).execute(),
      /owned\.key_id must not change/,
    )
    const index = sql<string>`'x'`
    await refused(
      db
        .updateTable('people')
        .set({ email_index: index } as never)
        .execute(),
      /people\.email_index cannot be set: it is the index of email/,
    )
    expect(await db.selectFrom('owned').selectAll().execute()).toEqual([{ id: 'ada', key_id, note: 'first' }])
  })
  it('returns an encrypted field without its id', async () => {
    const query = db
      .insertInto('people')
      .values({ ...ADA, id: 'new' })
      .returning('email')
    expect(await query.execute()).toEqual([{ email: ADA.email }])
    const changed = db.updateTable('people').set({ city: 'x' }).where('id', '=', 'new').returning(['nick', 'city'])
    expect(await changed.execute()).toEqual([{ nick: ADA.nick, city: 'x' }])
  })
  it('counts the rows that it changes one by one, and returns each', async () => {
    const update = db.updateTable('people').set({ nick: 'all' })
    expect((await update.executeTakeFirst()).numUpdatedRows).toBe(2n)
    expect((await update.where('city', '=', 'nowhere').executeTakeFirst()).numUpdatedRows).toBe(0n)
    expect((await update.returning('nick').execute()).map(({ nick }) => nick)).toEqual(['all', 'all'])
    const joined = update.from('people as boss').whereRef('boss.id', '=', 'people.boss').returning('people.id')
    expect(await joined.execute()).toEqual([{ id: 'ada' }])
  })
  it('changes none of the rows that it finds where it cannot open what it returns, and says nothing else', async () => {
    await pool.query('update people set nick = email')
    const update = db.updateTable('people').set({ city: 'x', email: 'new' }).returning('nick')
    const message = expect.not.stringContaining('written')
    await expect(update.execute()).rejects.toMatchObject({ code: 'E_DECRYPTION', message })
    expect((await pool.query(`select id from people where city = 'x'`)).rows).toEqual([])
  })
  it('changes, counts and returns each row once that it finds beside several others', async () => {
    const beside = db.updateTable('people').from('people as other').set({ nick: 'new' })
    expect((await beside.executeTakeFirst()).numUpdatedRows).toBe(2n)
    const returned = await beside.returning(['people.id', 'people.nick']).execute()
    expect(returned.sort((one, other) => (one.id < other.id ? -1 : 1))).toEqual([
      { id: 'ada', nick: 'new' },
      { id: 'ben', nick: 'new' },
    ])
  })
  it('takes of a row that was to be inserted what SQL computes, and the default of what it lacks', async () => {
    await pool.query(`create unique index if not exists of_email on people (email_index);
      alter table people alter column boss set default 'none'`)
    const { boss: _, ...row } = ADA
    const upsert = db.insertInto('people').values({ ...row, id: 'eve', city: sql<string>`upper(${'oslo'})` } as never)
    const taken = await upsert
      .onConflict((on) =>
        on.column('email_index' as 'email').doUpdateSet((eb) => ({
          nick: 'new',
          city: eb.ref('excluded.city'),
          boss: eb.ref('excluded.boss'),
        })),
      )
      .returning(['id', 'nick', 'city', 'boss'])
      .execute()
    expect(taken).toEqual([{ id: 'ada', nick: 'new', city: 'OSLO', boss: 'none' }])
    const computed = db.insertInto('people').values({ ...ADA, id: 'eve', nick: sql<string>`upper(${'x'})` })
    await refused(
      computed
        .onConflict((on) =>
          on.column('email_index' as 'email').doUpdateSet((eb) => ({ nick: eb.ref('excluded.nick'), email: 'x' })),
        )
        .execute(),
      /people\.nick: the database cannot compute its value/,
    )
    const moved = db.insertInto('people').values({ ...ADA, id: 'eve' })
    await refused(
      moved
        .onConflict((on) =>
          on.column('email_index' as 'email').doUpdateSet((eb) => ({ city: eb.ref('excluded.email'), nick: 'x' })),
        )
        .execute(),
      /people\.email is encrypted: it cannot be part of an expression/,
    )
    await pool.query('drop index of_email; alter table people alter column boss drop default')
  })
  it('honours or refuses each option of an upsert whose row must be read before', async () => {
    await pool.query('create unique index if not exists of_email on people (email_index)')
    const upsert = () => db.insertInto('people').values({ ...ADA, id: 'eve', city: 'Oslo' })
    const cities = async () => (await people()).map(({ city }) => city)
    const set = { nick: 'new', city: 'Oslo' }
    const PART_OF = /an upsert by a constraint, an expression or a partial index/
    await upsert()
      .onConflict((on) => on.column('email').doUpdateSet(set).where('people.city', '=', 'nowhere'))
      .execute()
    expect(await cities()).toEqual([ADA.city, BEN.city])
    const REFUSED: [message: RegExp, call: { execute(): Promise<unknown> }][] = [
      [PART_OF, upsert().onConflict((on) => on.column('email').where('city', '=', 'x').doUpdateSet(set))],
      [PART_OF, upsert().onConflict((on) => on.constraint('of_email').doUpdateSet(set))],
      [PART_OF, upsert().onConflict((on) => on.expression(sql`lower(email_index)`).doUpdateSet(set))],
      [/`or`/, upsert().orIgnore()],
      [
        /top of a write whose rows must be read before/,
        upsert()
          .top(1)
          .onConflict((on) => on.column('email').doUpdateSet(set)),
      ],
      [
        /endModifiers of a write whose rows must be read before/,
        upsert()
          .modifyEnd(sql`/* x */`)
          .onConflict((on) => on.column('email').doUpdateSet(set)),
      ],
    ]
    for (const [message, call] of REFUSED) await refused(call.execute(), message)
    expect(await cities()).toEqual([ADA.city, BEN.city])
    await pool.query('drop index of_email')
  })
  describe('in a transaction that SQL as text begins', () => {
    const change = (on: Kysely<Database>) => on.updateTable('people').set({ nick: 'new' }).execute()
    const nicks = async () => (await people()).map(({ nick }) => nick)
    it.each([
      ['begin', 'rollback'],
      ['BEGIN ISOLATION LEVEL SERIALIZABLE;', 'ROLLBACK;'],
      ['start transaction', 'abort'],
      ['begin; set local lock_timeout = 1000', 'rollback work'],
    ])('%s: leaves it to the application to end it, as by %s', async (begin, end) => {
      await db.connection().execute(async (on) => {
        await sql.raw(begin).execute(on)
        await change(on)
        await sql`savepoint s`.execute(on)
        await sql`rollback to s`.execute(on)
        await change(on)
        await sql.raw(end).execute(on)
      })
      expect(await nicks()).toEqual([ADA.nick, BEN.nick])
    })
  })
  it('changes no other row where what values are bound to does not identify one', async () => {
    const { id: keyId } = await eaas.keys.create({ name: 'towns' })
    const model = eaas.model({ name: 'people', keyId, bind: ['city'], format: 'text', fields: { nick: text() } })
    const towns = new Kysely<Database>({ dialect: encrypted(new PostgresDialect({ pool }), { people: model }) })
    await pool.query('truncate people')
    const two = [ADA, { ...BEN, city: ADA.city }]
    await towns.insertInto('people').values(two).execute()
    const update = towns.updateTable('people').set({ nick: 'new' })
    const message = /people: 2 rows, and not 1, have the values of city by which the update found its rows/
    await refused(update.where('id', '=', 'ada').execute(), message)
    await refused(update.where('id', '=', 'ada').returning('nick').execute(), message)
    await pool.query('create unique index if not exists of_boss on people (boss)')
    const upsert = towns.insertInto('people').values({ ...ADA, id: 'eve', city: 'Rome' })
    await refused(upsert.onConflict((on) => on.column('boss').doUpdateSet({ nick: 'new' })).execute(), message)
    await pool.query('drop index of_boss')
    expect(await towns.selectFrom('people').select('nick').orderBy('id').execute()).toMatchObject(
      two.map(({ nick }) => ({ nick })),
    )
    await update.where('city', '=', ADA.city).where('id', '=', 'ada').execute()
    await update.where('boss', 'is', null).where('city', '=', ADA.city).execute()
    expect((await towns.selectFrom('people').select('nick').execute()).map(({ nick }) => nick)).toEqual(['new', 'new'])
  })
  it('keeps rows in the compact form in columns of text, and rewraps their header', async () => {
    await pool.query('create table if not exists briefs (id int primary key, mail text, note text, envelope text)')
    const { id: keyId } = await eaas.keys.create({ name: 'briefs' })
    const fields = { mail: text(), note: text().nullable() }
    const model = eaas.model({ name: 'briefs', keyId, bind: ['id'], format: 'compact-text', fields })
    type Brief = { id: number; mail: string; note: string | null; envelope: Generated<null> }
    const briefs = new Kysely<{ briefs: Brief }>({
      dialect: encrypted(new PostgresDialect({ pool }), { briefs: model }),
    })
    const given = [
      { id: 1, mail: 'ada@x.org', note: 'one' },
      { id: 2, mail: 'ben@x.org', note: null },
    ]
    await briefs.insertInto('briefs').values(given).execute()
    const { rows: stored } = await pool.query('select * from briefs order by id')
    expect(stored[0]).toMatchObject({
      mail: expect.stringMatching(/^eaas[.]c[.]/),
      envelope: expect.stringMatching(/^eaas[.]h2[.]/),
    })
    expect(stored[1]?.note).toBeNull()
    await eaas.keys.rotate(keyId)
    for await (const { items } of model.rewrap(stored))
      for (const item of items)
        if (item.status === 'changed')
          await pool.query('update briefs set envelope = $1 where id = $2', [item.row.envelope, item.row.id])
    expect(await briefs.selectFrom('briefs').select(['id', 'mail', 'note']).orderBy('id').execute()).toEqual(given)
    expect(await briefs.selectFrom('briefs').select('mail').where('id', '=', 2).execute()).toEqual([
      { mail: 'ben@x.org' },
    ])
    await briefs.updateTable('briefs').set({ mail: 'ada@y.org', note: null }).where('id', '=', 1).execute()
    expect(await briefs.selectFrom('briefs').select(['mail', 'note']).where('id', '=', 1).execute()).toEqual([
      { mail: 'ada@y.org', note: null },
    ])
    await pool.query('update briefs set envelope = null where id = 1')
    await refused(briefs.selectFrom('briefs').select('mail').execute(), /the column "envelope" is missing/)
  })
  it('takes a part of a JSON column, to which values are bound, as it is given', async () => {
    await pool.query('create table if not exists parted (meta jsonb, note text)')
    const { id: keyId } = await eaas.keys.create({ name: 'parted' })
    const model = eaas.model({ name: 'parted', keyId, bind: ['meta.id'], format: 'text', fields: { note: text() } })
    type Parted = { parted: { meta: { id: number }; note: string } }
    const parted = new Kysely<Parted>({ dialect: encrypted(new PostgresDialect({ pool }), { parted: model }) })
    await parted
      .insertInto('parted')
      .values({ meta: { id: 7 }, note: 'one' })
      .execute()
    expect(await parted.selectFrom('parted').select('note').execute()).toEqual([{ note: 'one' }])
  })
  it('makes ids that are always the database\u2019s, and leaves those alone that are given', async () => {
    await pool.query(`create table if not exists always (id bigint generated always as identity primary key, note text);
      create table if not exists mixed (id uuid default gen_random_uuid() primary key, note text)`)
    const { id: keyId } = await eaas.keys.create({ name: 'made' })
    const modelOf = (name: string) =>
      eaas.model({ name, keyId, bind: ['id'], format: 'text', warn: false, fields: { note: text() } })
    type Note = { id: Generated<string>; note: string }
    const made = new Kysely<{ always: Note; mixed: Note; without: Note }>({
      dialect: encrypted(new PostgresDialect({ pool }), { always: modelOf('always'), mixed: modelOf('mixed') }),
    })
    await made
      .insertInto('always')
      .values([{ note: 'one' }, { note: 'two' }])
      .execute()
    expect(await made.selectFrom('always').selectAll().orderBy('id').execute()).toEqual([
      { id: '1', note: 'one' },
      { id: '2', note: 'two' },
    ])
    const id = randomUUID()
    await made
      .insertInto('mixed')
      .values([{ note: 'one' }, { id, note: 'two' }])
      .execute()
    const rows = await made.selectFrom('mixed').selectAll().execute()
    expect(rows).toEqual([
      { id: expect.stringMatching(/^[0-9a-f-]{36}$/), note: 'one' },
      { id, note: 'two' },
    ])
    await refused(
      db
        .insertInto('people')
        .values({ email: 'x' } as never)
        .execute(),
      /the row has no id, which its/,
    )
  })
  it.each<[string, (eb: ExpressionBuilder<{ p: Person }, 'p'>) => { as(name: 'row'): unknown }]>([
    ['jsonAgg', (eb) => eb.fn.jsonAgg('p')],
    ['toJson', (eb) => eb.fn.toJson('p')],
    ['a function of its name', (eb) => eb.fn('row_to_json', [sql.ref('p')])],
    ['a function of its name as a column', (eb) => eb.fn('row_to_json', ['p' as 'p.id'])],
    ['its name as a column', (eb) => eb.ref('p' as 'id')],
    ['SQL', () => sql`to_json(p)`],
  ])('refuses a whole row by %s', async (_, rowOf) => {
    const query = db.selectFrom('people as p').select((eb) => rowOf(eb as never).as('row') as never)
    await refused(query.execute(), /whole row|names all columns of p/)
  })
})

const ADA: Person = { id: 'ada', email: 'ada@x.org', nick: 'countess', city: 'London', boss: 'ben' }
const BEN: Person = { id: 'ben', email: 'ben@x.org', nick: 'dean', city: 'Paris', boss: null }

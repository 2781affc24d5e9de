// Whatever a query of TypeORM looks like, no plaintext of an encrypted column reaches the driver, and no envelope comes out as a value: it is
// encrypted, hashed, opened or refused.
import { randomUUID } from 'node:crypto'
import {
  And,
  Any,
  Between,
  Brackets,
  type DataSource,
  type EntityManager,
  Equal,
  ILike,
  In,
  InsertQueryBuilder,
  IsNull,
  LessThan,
  Not,
  Or,
  Raw,
  SelectQueryBuilder,
} from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { encrypted } from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { modelsOf, tables } from './scene.js'
import { posts, users } from './typeorm.js'
import { sourcesOn } from './typeorm-source.js'

/** A plaintext of an encrypted column, in every query below. */
const SECRET = 'ada@secret.example'
const ID = randomUUID()

const postgres = await openCreatedCluster(inject('runDir'))
const sent: string[] = []
let eaas: Client
let keyId: string
let models: ReturnType<typeof modelsOf>
let source: DataSource
let db: EntityManager

const { open, Pool, connection } = sourcesOn(postgres, sent)

beforeAll(async () => {
  await postgres.exec(`${tables('full')} alter table users drop constraint users_email_index_key`)
  eaas = createClient(createTestService())
  keyId = (await eaas.keys.create({ name: 'users' })).id
  models = modelsOf(eaas, keyId, 'full')
  source = encrypted(open([users, posts], { cache: true }), [
    [users, models.users],
    [posts, models.posts],
  ])
  await source.initialize()
  db = source.manager
})
beforeEach(async () => {
  await postgres.exec('truncate users, posts')
  await db.save(users, { ...user(ID), email: SECRET, nick: 'ada', posts: [{ ...post(), id: ID }] })
  sent.length = 0
})
afterAll(async () => {
  await source.destroy()
  await postgres.close()
})

const user = (id: string = randomUUID()) => ({
  id,
  email: `${id}@x.org`,
  nick: null,
  born: null,
  prefs: null,
  city: 'London',
})
const post = () => ({ id: randomUUID(), user_id: ID, title: SECRET, likes: 3 })
const build = () => db.createQueryBuilder(users, 'user')

type Shape = [title: string, run: (db: EntityManager) => Promise<unknown>]

class Row {
  id = randomUUID()
  city = 'London'
  nick = null
  born = null
  prefs = null
  #email = SECRET
  get email() {
    return this.#email
  }
}

const WRITES: Shape[] = [
  ['an update of many rows', (db) => db.update(users, { city: 'London' }, { nick: SECRET })],
  ['an update of all', (db) => db.updateAll(users, { nick: SECRET })],
  ['an update of several ids', (db) => db.update(users, [ID, randomUUID()], { nick: SECRET })],
  [
    'an update by a text with an or',
    (db) =>
      db
        .createQueryBuilder()
        .update(users)
        .set({ nick: SECRET })
        .where({ id: ID })
        .andWhere('city = :city or true', { city: 'x' })
        .execute(),
  ],
  ['an update by SQL with an or', (db) => db.update(users, { id: ID, city: Raw("'x' or true") }, { nick: SECRET })],
  [
    'an update of one row or another',
    (db) =>
      db.createQueryBuilder().update(users).set({ nick: SECRET }).where({ id: ID }).orWhere({ city: 'x' }).execute(),
  ],
  ['an update of the others', (db) => db.update(users, { id: Not(ID) }, { nick: SECRET })],
  [
    'an upsert by another column',
    (db) => db.upsert(users, { ...user(), email: SECRET, nick: SECRET } as never, ['email_index']),
  ],
  ['insert', (db) => db.insert(users, { ...user(), email: SECRET } as never)],
  ['insert of an object with private fields', (db) => db.insert(users, new Row() as never)],
  [
    'insert that ignores conflicts',
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users)
        .values([{ ...user(), nick: SECRET }] as never)
        .orIgnore()
        .execute(),
  ],
  [
    'insert by the name of the table',
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into('users')
        .values({ ...user(), email: SECRET })
        .execute(),
  ],
  ['save of a new entity', (db) => db.save(users, { ...user(), email: SECRET })],
  ['save of a part of an entity', (db) => db.save(users, { id: ID, nick: SECRET })],
  [
    'save of many, old and new',
    (db) =>
      db.save(users, [
        { ...user(ID), nick: SECRET },
        { ...user(), email: SECRET },
      ]),
  ],
  ['save in chunks', (db) => db.save(posts, [post(), post(), post()], { chunk: 2 })],
  ['a cascade', (db) => db.save(users, { ...user(ID), posts: [post(), { ...post(), id: ID, title: `${SECRET}!` }] })],
  ['update by an id', (db) => db.update(users, ID, { nick: SECRET })],
  ['update by a condition', (db) => db.update(users, { id: ID, email: SECRET }, { nick: SECRET })],
  [
    'update by a text that names the row',
    (db) =>
      db
        .createQueryBuilder()
        .update(users)
        .set({ nick: SECRET })
        .where('id = :id', { id: ID })
        .andWhere({ email: SECRET })
        .execute(),
  ],
  [
    'update of an entity',
    (db) =>
      db
        .createQueryBuilder()
        .update(users)
        .set({ nick: SECRET })
        .whereEntity({ ...user(ID) } as never)
        .execute(),
  ],
  ['update from another builder', () => build().update().set({ nick: SECRET }).where({ id: ID }).execute()],
  ['upsert', (db) => db.upsert(users, { ...user(ID), email: `${SECRET}x`, nick: SECRET } as never, ['id'])],
  ['preload and save', async (db) => db.save(users, (await db.preload(users, { id: ID, nick: SECRET })) as never)],
  [
    'delete by an encrypted column',
    (db) => db.delete(posts, { id: In([ID]) }).then(() => db.delete(users, { email: SECRET })),
  ],
  ['remove', async (db) => db.remove(posts, await db.findBy(posts, { user: { email: SECRET } }))],
  ['a transaction', (db) => db.transaction((inner) => inner.update(users, { id: ID }, { email: SECRET }))],
  [
    'a query runner of its own',
    async () => {
      const runner = source.createQueryRunner()
      try {
        await runner.manager.getRepository(users).insert({ ...user(), email: SECRET } as never)
        await runner.manager.createQueryBuilder(users, 'u', runner).where({ email: SECRET }).getOneOrFail()
      } finally {
        await runner.release()
      }
    },
  ],
]

const SEARCHES: Shape[] = [
  ['find', (db) => db.find(users, { where: { email: SECRET, nick: Not(IsNull()) } })],
  [
    'find by operators',
    (db) =>
      db.find(users, {
        where: [{ email: In([SECRET, 'x']) }, { nick: Not(In([SECRET])) }, { nick: Not(Equal(SECRET)) }],
      }),
  ],
  [
    'find by operators of operators',
    (db) => db.find(users, { where: { email: And(Not('x'), Or(Equal(SECRET), In(['y']))) } }),
  ],
  ['find by a relation', (db) => db.find(posts, { where: { user: { email: SECRET } }, relations: { user: true } })],
  ['find by a relation of a relation', (db) => db.find(users, { where: { posts: { user: { email: SECRET } } } })],
  [
    'find by one query for each relation',
    (db) => db.find(users, { where: { email: SECRET }, relations: { posts: true }, relationLoadStrategy: 'query' }),
  ],
  [
    'a page of joined rows',
    (db) => db.find(users, { where: { email: SECRET }, relations: { posts: true }, order: { city: 'ASC' }, take: 5 }),
  ],
  [
    'a page, and how many there are',
    (db) => db.findAndCount(users, { where: { email: SECRET }, relations: { posts: true }, skip: 0, take: 5 }),
  ],
  ['a builder', () => build().where({ email: SECRET }).andWhere({ city: 'London' }).getMany()],
  [
    'a subquery, and null as text',
    () =>
      build()
        .where((qb) => {
          const found = qb.subQuery().select('u.id').from(users, 'u').where({ email: SECRET })
          return `user.id in ${found.getQuery()}`
        })
        .andWhere('user.nick is not null and user.born IS NULL')
        .getMany(),
  ],
  [
    'a builder with brackets',
    () =>
      build()
        .where(new Brackets((qb) => qb.where({ email: SECRET }).orWhere({ nick: 'x' })))
        .getMany(),
  ],
  [
    'a builder with joins',
    () =>
      build()
        .innerJoinAndSelect('user.posts', 'post')
        .where({ email: SECRET, posts: { id: ID } })
        .getMany(),
  ],
  [
    'a builder with an array of conditions',
    () =>
      build()
        .where([{ email: SECRET }, { nick: 'x' }])
        .getMany(),
  ],
]

/** Each finds the row of `ID`. */
const COUNTS: Shape[] = [
  ['count', (db) => db.count(users, { where: { email: SECRET } })],
  ['exists', (db) => db.existsBy(users, { email: SECRET, born: IsNull() })],
  ['sum', (db) => db.sum(posts, 'likes', { user: { email: SECRET } } as never)],
  ['raw rows of others', async () => build().select('user.city', 'city').where({ email: SECRET }).getRawMany()],
]

type Refused = [title: string, message: RegExp, run: Shape[1]]

const REFUSED: Refused[] = [
  [
    'an update by another spelling of the id',
    /users\.id must have the spelling/,
    (db) => db.update(users, ID.toUpperCase(), { nick: SECRET }),
  ],
  [
    'an insert with another spelling of the id',
    /users\.id must have the spelling/,
    (db) => db.insert(users, { ...user(ID.toUpperCase()), nick: SECRET } as never),
  ],
  ['a change of the id', /users\.id must not change/, (db) => db.update(users, ID, { id: randomUUID() })],
  [
    'SQL as a value of an update',
    /the database cannot compute/,
    (db) => db.update(users, ID, { nick: () => `'${SECRET}'` }),
  ],
  [
    'SQL as a value of an insert',
    /the database cannot compute/,
    (db) => db.insert(users, { ...user(), nick: () => `'${SECRET}'` } as never),
  ],
  [
    'SQL as the id',
    /the database cannot compute/,
    (db) => db.insert(users, { ...user(), id: () => 'gen_random_uuid()', email: SECRET } as never),
  ],
  ['increment', /cannot compute/, (db) => db.increment(users, { id: ID }, 'nick', 1)],
  ['a row without its id', /field "id"/, (db) => db.insert(posts, { user_id: ID, title: SECRET, likes: 1 })],
  ['a row without a field', /field "title"/, (db) => db.insert(posts, { id: randomUUID(), user_id: ID, likes: 1 })],
  [
    'an insert of some columns',
    /without the column/,
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users, ['id', 'email', 'city'])
        .values({ ...user(), email: SECRET } as never)
        .execute(),
  ],
  [
    'an insert from a select',
    /an insert from a select/,
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users)
        .valuesFromSelect((qb) => qb.select('user').from(users, 'user'))
        .execute(),
  ],
  [
    'an insert from encrypted columns',
    /users\.email is encrypted/,
    (db) =>
      db.createQueryBuilder().insert().into('other', ['x']).valuesFromSelect(build().select('user.email')).execute(),
  ],
  [
    'an upsert by a constraint',
    /an upsert by a constraint/,
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users)
        .values({ ...user(), email: SECRET } as never)
        .orUpdate(['email'], 'users_pkey')
        .execute(),
  ],
  [
    'an upsert that changes the id',
    /an upsert that changes users\.id/,
    (db) => {
      const insert = db.createQueryBuilder().insert().into(users)
      return insert
        .values({ ...user(), email: SECRET } as never)
        .orUpdate(['id'], ['email_index'])
        .execute()
    },
  ],
  [
    'an upsert of what changed',
    /skipUpdateIfNoValuesChanged/,
    (db) =>
      db.upsert(users, { ...user(), email: SECRET } as never, {
        conflictPaths: ['id'],
        skipUpdateIfNoValuesChanged: true,
      }),
  ],
  ...Object.entries({
    skipUpdateIfNoValuesChanged: true,
    indexPredicate: `city = 'Paris'`,
    overwriteCondition: { where: { city: 'Paris' } },
    upsertType: 'primary-key',
  }).flatMap(([option, value]) =>
    [ID, randomUUID()].map(
      (id): Refused => [
        `${option} of an upsert by an encrypted column, of ${id === ID ? 'a row that is there' : 'a new row'}`,
        new RegExp(`${option} of an upsert whose row must be read before`),
        (db) =>
          db
            .createQueryBuilder()
            .insert()
            .into(users)
            .values({ ...user(), email: id === ID ? SECRET : `${SECRET}.uk` } as never)
            .orUpdate(['city', 'nick'], ['email'], { [option]: value })
            .execute(),
      ],
    ),
  ),
  [
    'an upsert with a condition',
    /users\.nick is encrypted/,
    (db) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users)
        .values({ ...user(), email: SECRET } as never)
        .orUpdate(['city'], ['id'], {
          overwriteCondition: { where: 'users.nick <> :nick', parameters: { nick: SECRET } },
        })
        .execute(),
  ],
  ['a pattern', /cannot compare it by "ILike"/i, (db) => db.findBy(users, { email: ILike(SECRET) })],
  ['a range', /cannot compare it by "Between"/, (db) => db.findBy(users, { email: Between(SECRET, 'z') })],
  ['less', /cannot compare it by "LessThan"/, (db) => db.findBy(users, { email: Not(LessThan(SECRET)) })],
  ['any of a list', /cannot compare it by "Any"/, (db) => db.findBy(users, { email: Any([SECRET]) })],
  [
    'an operator of SQL',
    /cannot compare it by "Raw"/,
    (db) => db.findBy(users, { email: Raw((alias) => `${alias} = :x`, { x: SECRET }) }),
  ],
  [
    'SQL on another column',
    /users\.email is encrypted/,
    (db) => db.findBy(users, { city: Raw(() => `"User"."email"::text = :x`, { x: SECRET }) }),
  ],
  ['null by equality', /null is equal to nothing/, () => build().where({ email: null, nick: SECRET }).getMany()],
  ['a condition as text', /users\.email is encrypted/, () => build().where('user.email = :x', { x: SECRET }).getMany()],
  [
    'a condition as text without the alias',
    /users\.email is encrypted/,
    (db) => db.createQueryBuilder().update(users).set({ city: 'x' }).where('email = :x', { x: SECRET }).execute(),
  ],
  [
    'a deletion by a text',
    /users\.email is encrypted/,
    (db) => db.createQueryBuilder().delete().from(users).where('email::text like :x', { x: SECRET }).execute(),
  ],
  [
    'a condition of a join',
    /posts\.title is encrypted/,
    () => build().leftJoin('user.posts', 'p', 'p.title = :x', { x: SECRET }).getMany(),
  ],
  [
    'a condition on groups',
    /users\.email is encrypted/,
    () =>
      build().select('count(*)').groupBy('user.city').having('max(user.email::text) = :x', { x: SECRET }).getRawMany(),
  ],
  ['to sort', /cannot sort or group/, (db) => db.find(users, { where: { email: SECRET }, order: { email: 'ASC' } })],
  [
    'to sort a page of joined rows',
    /cannot sort or group/,
    (db) => db.find(users, { where: { email: SECRET }, relations: { posts: true }, order: { email: 'ASC' }, take: 1 }),
  ],
  [
    'to sort by a relation',
    /posts\.title is encrypted: the database cannot sort/,
    (db) =>
      db.find(users, { where: { email: SECRET }, relations: { posts: true }, order: { posts: { title: 'ASC' } } }),
  ],
  [
    'to sort by what the column is selected as',
    /users\.\w+ is encrypted/,
    () =>
      build().select('user.email', 'mail').addSelect('user.id').where({ email: SECRET }).orderBy('mail').getRawMany(),
  ],
  ...['2', '1, 2', '(2)', '3'].flatMap((position): Refused[] => {
    const message = /users\.email is encrypted: the database cannot sort or group by it/
    const pair = () => build().select(['user.id', 'user.email']).where({ email: SECRET })
    return [
      [`to sort by the position ${position}`, message, () => pair().orderBy(position).getMany()],
      [
        `to sort then by the position ${position}`,
        message,
        () => pair().orderBy('user.id').addOrderBy(position).getMany(),
      ],
      [`to group by the position ${position}`, message, () => pair().groupBy(position).getRawMany()],
      [`distinct on the position ${position}`, message, () => pair().distinctOn([position]).getRawMany()],
    ]
  }),
  [
    'to sort by a position at which a column was added',
    /cannot sort or group/,
    () => build().select('user.email', 'mail').addSelect('upper(user.city)', 'city').orderBy('2').getRawMany(),
  ],
  ...['row_to_json(users)', 'users', 'users.*', 'id, *'].map(
    (row): Refused => [
      `${row} in returning`,
      /users as a value|"\*" in a query of users/,
      (db) => db.createQueryBuilder().update(users).set({ email: SECRET }).where({ id: ID }).returning(row).execute(),
    ],
  ),
  [
    'distinct on',
    /users\.email is encrypted/,
    () => build().distinctOn(['user.email']).where({ email: SECRET }).getMany(),
  ],
  ['the greatest', /users\.email is encrypted/, (db) => db.maximum(users, 'email' as never, { email: SECRET })],
  [
    'an expression',
    /users\.email is encrypted/,
    () => build().select('user.email || user.nick', 'both').where({ email: SECRET }).getRawMany(),
  ],
  [
    'a cast',
    /users\.email is encrypted/,
    () => build().select('"user"."email"::text', 'mail').where({ email: SECRET }).getRawMany(),
  ],
  [
    'different values',
    /users\.email is encrypted/,
    () => build().select(['user.id', 'user.email']).distinct().where({ email: SECRET }).getRawMany(),
  ],
  [
    'a count of different values',
    /users\.email is encrypted/,
    (db) => db.count(users, { select: { email: true }, where: { email: SECRET } }),
  ],
  ['all columns by "*"', /"\*" in a query of users/, () => build().select('*').where({ email: SECRET }).getRawMany()],
  [
    'a row as a value',
    /a row of users as a value/,
    () => build().select('row_to_json(user)', 'row').where({ email: SECRET }).getRawMany(),
  ],
  [
    'a column in a subquery',
    /users\.email is encrypted/,
    () =>
      build()
        .where((qb) => `exists ${qb.subQuery().select('u.email').from(users, 'u').getQuery()}`)
        .andWhere({ email: SECRET })
        .getMany(),
  ],
  [
    'rows from a subquery',
    /users\.email is encrypted/,
    (db) =>
      db
        .createQueryBuilder()
        .select('s.*')
        .from((qb) => qb.select('u.email', 'mail').from(users, 'u').where({ email: SECRET }), 's')
        .getRawMany(),
  ],
  [
    'rows from a common table expression',
    /users\.email is encrypted/,
    (db) =>
      db
        .createQueryBuilder()
        .addCommonTableExpression(build().select('user.email', 'mail').where({ email: SECRET }), 's')
        .select('s.mail')
        .from('s', 's')
        .getRawMany(),
  ],
  ...[
    () => db.createQueryBuilder().delete().from(posts).where('likes = 99'),
    () => 'select pg_notify($$x$$, $$y$$)',
  ].flatMap((other): Refused[] => [
    [
      'an update of many rows with another write in a common table expression',
      /another write, or SQL as text, in `with`/,
      () =>
        build()
          .update()
          .set({ email: SECRET })
          .addCommonTableExpression(other() as never, 'x')
          .where({ city: 'London' })
          .execute(),
    ],
    [
      'an upsert by another column with another write in a common table expression',
      /another write, or SQL as text, in `with`/,
      (db) =>
        db
          .createQueryBuilder()
          .insert()
          .into(users)
          .values([user(), { ...user(), email: SECRET }])
          .orUpdate(['nick'], ['email_index'])
          .addCommonTableExpression(other() as never, 'x')
          .execute(),
    ],
  ]),
  [
    'an update of many rows beside a common table expression of its name',
    /a common table expression of the name of the table/,
    (db) =>
      build()
        .update()
        .set({ email: SECRET })
        .addCommonTableExpression(
          db.createQueryBuilder().select('p.id', 'id').addSelect("'x'", 'city').from(posts, 'p'),
          'users',
        )
        .where({ city: 'x' })
        .execute(),
  ],
  ['a stream', /stream\(\) of User/, () => build().where({ email: SECRET }).stream()],
  ['the cache of a search', /the cache of a search/, () => build().where({ email: SECRET }).cache(true).getMany()],
  [
    'the cache of a page',
    /the cache of a search/,
    (db) => db.find(users, { where: { email: SECRET }, relations: { posts: true }, take: 1, cache: 1_000 }),
  ],
  [
    'the query of a builder elsewhere',
    /writes the table users/,
    (db) => db.query(...build().where({ email: SECRET }).getQueryAndParameters()),
  ],
  [
    'the parameters of a builder elsewhere',
    /a parameter of a query builder/,
    (db) => db.query('select $1', build().select('1').where({ email: SECRET }).getQueryAndParameters()[1]),
  ],
  [
    'SQL on another column of a page',
    /users\.email is encrypted/,
    (db) => {
      const city = Raw(() => `"User"."email"::text = :x`, { x: SECRET })
      return db.find(users, { where: { city }, relations: { posts: true }, take: 1 })
    },
  ],
  [
    'an insert by a builder that the data source has not made',
    /a value for users\.email that was not encrypted/,
    () =>
      new InsertQueryBuilder(source)
        .into(users)
        .values({ ...user(), email: SECRET } as never)
        .execute(),
  ],
  [
    'a search by a builder that the data source has not made',
    /writes the table users/,
    () => new SelectQueryBuilder(source).select('u').from(users, 'u').where({ email: SECRET }).getMany(),
  ],
  [
    'SQL that updates after a name with an apostrophe',
    /writes the table users/,
    (db) => db.query(`with a as (select 1 as "it's") update users set email = $1 where city = 'x'`, [SECRET]),
  ],
  [
    'SQL with escapes in names',
    /SQL as text with U&/,
    (db) => db.query('update U&"\\0075sers" set U&"\\0065mail" = $1', [SECRET]),
  ],
  [
    'SQL as a value that sets another column',
    /users\.email is encrypted/,
    () =>
      build()
        .update()
        .set({ city: () => `(select 1 as "it's")::text, email = '${SECRET}'` })
        .where({ city: 'London' })
        .execute(),
  ],
  [
    'an insert as text in a common table expression',
    /writes the table users/,
    (db) =>
      db
        .createQueryBuilder()
        .addCommonTableExpression(`insert into users values ('${ID}', '${SECRET}') returning id`, 'x')
        .select('x.id')
        .from('x', 'x')
        .getRawMany(),
  ],
  ['SQL that inserts', /writes the table users/, (db) => db.query('insert into users values ($1)', [SECRET])],
  ['SQL that updates', /writes the table users/, () => source.query('update "users" set email = $1', [SECRET])],
  ['SQL that searches', /writes the table users/, () => source.sql`select id from users where email = ${SECRET}`],
  [
    'SQL that selects all',
    /writes the table users/,
    () => source.query(`select * from users where '${SECRET}' = city`),
  ],
  [
    'SQL of a query runner',
    /writes the table users/,
    async () => {
      const runner = source.createQueryRunner()
      return runner.query('select email from users where city = $1', [SECRET]).finally(() => runner.release())
    },
  ],
  [
    'SQL with a mark',
    /writes the table users/,
    () => source.query(`select "\uE000email" from users where city = '${SECRET}'`),
  ],
  [
    'a stream of SQL',
    /writes the table users/,
    async () => {
      const runner = source.createQueryRunner()
      return runner.stream('select email from users where city = $1', [SECRET]).finally(() => runner.release())
    },
  ],
]

describe('TypeORM', () => {
  it.each([...WRITES, ...SEARCHES, ...COUNTS])('sends no plaintext in %s', async (_, run) => {
    const result = await run(db)
    expect(sent.length).toBeGreaterThan(0)
    expect(sent.join()).not.toContain(SECRET)
    expect(JSON.stringify(result) ?? '').not.toMatch(/ciphertext|eaas\.2|encrypted/)
    const stored = await postgres.query(
      'select json_agg(u)::text || (select json_agg(p) from posts p)::text as all from users u',
    )
    expect(JSON.stringify(stored.rows)).not.toContain(SECRET)
  })
  it.each([...WRITES])('stores what the model opens in %s', async (_, run) => {
    await run(db)
    const rows = await postgres.query<Record<string, unknown>>('select id, email, nick from users')
    const { ok, failed } = await models.users.pick('email', 'nick').decryptMany(rows.rows as never)
    expect([failed, ok.length]).toEqual([[], rows.rows.length])
    const indexes = await postgres.query<Record<string, string>>('select id, email_index from users')
    for (const [at, { email_index }] of indexes.rows.entries()) {
      expect((await models.users.index({ email: (ok[at] as { email: string }).email })).email_index).toBe(email_index)
    }
  })
  it.each(SEARCHES)('finds, and opens, the row in %s', async (_, run) => {
    const found = JSON.stringify(await run(db))
    expect(found).toContain(SECRET)
    expect(found).toContain(ID)
  })
  it.each(COUNTS)('finds the row in %s', async (_, run) => {
    expect([1, true, 3, [{ city: 'London' }]]).toContainEqual(await run(db))
  })
  it('tries an upsert again by the connection that it has, which may be the only one', async () => {
    let isFree = true
    let inserts = 0
    const only = {
      ...connection,
      async query(sql: string, values: unknown[] = []) {
        if (sql.startsWith('INSERT') && inserts++ === 0) throw Object.assign(new Error('unique'), { code: '23505' })
        return connection.query(sql, values)
      },
    }
    class One extends Pool {
      override connect = (done: (error: undefined, client: object, release: () => void) => void) => {
        if (!isFree) throw new Error('there is no second connection')
        isFree = false
        done(undefined, only, () => {
          isFree = true
        })
      }
    }
    const one = encrypted(open([users, posts], { driver: { Pool: One } }), [
      [users, models.users],
      [posts, models.posts],
    ])
    await one.initialize()
    onTestFinished(() => one.destroy())
    await postgres.exec('create unique index of_email on users (email_index)')
    onTestFinished(() => postgres.exec('drop index of_email').then(() => undefined))
    const row = { ...user(), email: 'new@x.org', nick: 'new' } as never
    await one.manager.upsert(users, row, ['email_index'])
    expect([inserts, isFree]).toEqual([2, true])
    expect(await one.manager.findBy(users, { email: 'new@x.org' })).toMatchObject([{ nick: 'new' }])
  })
  it('changes no other row where what values are bound to does not identify one', async () => {
    const nick = text().nullable()
    const model = eaas.model({ name: 'users', keyId, bind: ['city'], warn: false, fields: { nick } })
    const towns = encrypted(open([users, posts]), [[users, model]])
    await towns.initialize()
    onTestFinished(() => towns.destroy())
    const { manager } = towns
    const ids = [randomUUID(), randomUUID()]
    const row = (id = '') => ({ ...user(id), nick: 'old', city: 'Rome', email_index: id }) as never
    await manager.insert(users, ids.map(row))
    const nicks = async () => (await manager.findBy(users, { city: 'Rome' })).map((one) => one.nick)
    await postgres.exec('create unique index of_email on users (email_index)')
    onTestFinished(() => postgres.exec('drop index of_email').then(() => undefined))
    const calls = [
      () => manager.update(users, { id: ids[0] }, { nick: 'new' }),
      () => {
        const values = { ...(row(ids[0]) as object), nick: 'new' } as never
        const insert = manager.createQueryBuilder().insert().into(users).values(values)
        return insert.orUpdate(['nick'], ['email_index']).execute()
      },
    ]
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringMatching(/users: 2 rows, and not 1, have the values of city by which/),
      })
    }
    expect(await nicks()).toEqual(['old', 'old'])
    await manager.update(users, { id: ids[0], city: 'Rome' }, { nick: 'new' })
    expect((await nicks()).sort()).toEqual(['new', 'old'])
    await manager.update(users, { id: In(ids) }, { nick: 'all' })
    expect(await nicks()).toEqual(['all', 'all'])
  })
  it('leaves an index alone that a loaded entity has from before', async () => {
    const found = await db.findOneByOrFail(users, { id: ID })
    found.email = 'new@x.org'
    await db.save(users, found)
    found.city = 'Rome'
    await db.save(users, found)
    expect(await db.findBy(users, { email: 'new@x.org' })).toMatchObject([{ id: ID, city: 'Rome' }])
    await db.update(users, ID, { nick_index: found.nick_index ?? null })
    await db.upsert(users, { ...user(ID), nick: undefined, email: 'new@x.org', nick_index: null } as never, ['id'])
    expect(await db.findBy(users, { email: 'new@x.org', nick: 'ada' })).toMatchObject([{ id: ID }])
  })
  it('says how to search by an encrypted column in a condition as text', async () => {
    await expect(build().where('user.email = :x', { x: SECRET }).getMany()).rejects.toMatchObject({
      message: 'users.email is encrypted: it cannot be part of an expression in SQL',
      hint: expect.stringContaining(".where({ email: 'value' })"),
    })
  })
  it('sorts by the position of another column', async () => {
    const found = await build().select(['user.id', 'user.email']).orderBy('1').getMany()
    expect(found).toMatchObject([{ id: ID, email: SECRET }])
    expect(
      await build().select('count(*)', 'n').addSelect('user.city', 'c').groupBy('1').orderBy('1').getRawMany(),
    ).toEqual([{ n: 1, c: 'London' }])
  })
  it.each(REFUSED)('refuses %s, before anything is sent', async (_, message, run) => {
    const refused = async () => run(db)
    await expect(refused()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
    })
    expect(sent.filter((one) => !/^\["(START TRANSACTION|COMMIT|ROLLBACK)/.test(one))).toEqual([])
  })
  it.each([true, false])(
    'keeps the comment and callListeners(%s) of an upsert whose row must be read before',
    async (calls) => {
      let called = 0
      const subscriber = { afterUpdate: () => void called++ }
      source.subscribers.push(subscriber)
      onTestFinished(() => void source.subscribers.splice(source.subscribers.indexOf(subscriber), 1))
      const insert = db.createQueryBuilder().insert().into(users)
      await insert
        .values({ ...user(), email: SECRET } as never)
        .orUpdate(['city', 'nick'], ['email'])
        .comment('of the importer')
        .callListeners(calls)
        .execute()
      expect(called).toBe(calls ? 1 : 0)
      const statements = sent.filter((one) => one.includes('users'))
      expect(statements.length).toBeGreaterThan(1)
      expect(statements.slice(1).filter((one) => !one.includes('/* of the importer */'))).toEqual([])
    },
  )
  it('refuses an insert of too many rows beside another write, with the number of those that fit', async () => {
    const other = db.createQueryBuilder().delete().from(posts).where('likes = 99')
    const rows = Array.from({ length: 9_000 }, (_, at) => ({ id: randomUUID(), email: `${at}@x.org`, city: 'Rome' }))
    const insert = db
      .createQueryBuilder()
      .insert()
      .into(users)
      .values(rows as never)
    await expect(insert.addCommonTableExpression(other, 'x').execute()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message:
        'an insert: with what is encrypted, the statement has 72000 parameters, and the database takes at most 65533',
      hint: 'Insert at most 8191 rows by such a statement, not 9000.',
    })
    expect(sent).toEqual([])
  })
})

// Kysely, as an application would use it: the contract's operations.
import { randomUUID } from 'node:crypto'
import {
  type Generated,
  HandleEmptyInListsPlugin,
  Kysely,
  PostgresDialect,
  replaceWithNoncontingentExpression,
  sql,
  type Transaction,
} from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import pg from 'pg'
import { encrypted } from '../../packages/kysely/src/index.js'
import { expectRefused, NO_COUNT, NO_OR } from './refused.js'
import {
  inPattern,
  type Lead,
  type Log,
  type Models,
  type Orm,
  type Person,
  type Place,
  type Post,
  type Sample,
  type User,
} from './scene.js'

interface Database {
  users: { [K in keyof User]: K extends 'prefs' ? Generated<User[K]> : User[K] } & {
    email_index: Generated<string>
    nick_index: Generated<string | null>
  }
  posts: Post
  samples: Sample
  people: Person
  leads: Lead & { envelope: Generated<null> }
  pairs: Lead
  vaults: Lead & { mail_index: Generated<string>; row_seal: Generated<null> }
  places: Place & { street_index: Generated<string | null> }
  tickets: MadeRow<number>
  drafts: MadeRow<string>
  locals: MadeRow<string>
  logs: Log & { number: number | null; fault_start: Generated<string>; fault_parts: Generated<string[]> }
}

type MadeRow<Id> = { id: Generated<Id>; label: string; label_index: Generated<string> }

export async function connectKysely(url: string, models: Models): Promise<Orm> {
  const pool = new pg.Pool({ connectionString: url, max: 3 })
  // Without this plugin of its own, Kysely writes `in ()`, which PostgreSQL refuses.
  const plugins = [new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression })]
  const db = new Kysely<Database>({ dialect: encrypted<Database>(new PostgresDialect({ pool }), models), plugins })
  return { ...ormOf(db), close: () => db.destroy() }
}

function ormOf(db: Kysely<Database> | Transaction<Database>): Omit<Orm, 'close'> {
  const select = () => db.selectFrom('users').selectAll()
  return {
    insert: (user) => db.insertInto('users').values(user).execute(),
    insertMany: (list) => db.insertInto('users').values(list).execute(),
    insertReturning: (user) => db.insertInto('users').values(user).returningAll().executeTakeFirstOrThrow(),
    insertPosts: (list) => db.insertInto('posts').values(list).execute(),
    insertIgnoring: (list) =>
      db
        .insertInto('users')
        .values(list)
        .onConflict((on) => on.column('id').doNothing())
        .execute(),
    // One statement, as PostgreSQL's users write it.
    insertWithPosts: (user, posts) =>
      db
        .with('author', (inner) => inner.insertInto('users').values(user).returning('id'))
        .with('written', (inner) => inner.insertInto('posts').values(posts).returning('id'))
        .selectFrom('author')
        .select('id')
        .execute(),
    all: () => select().execute(),
    byId: (id) => select().where('id', '=', id).executeTakeFirst(),
    nickOf: (id) => db.selectFrom('users').select(['id', 'nick']).where('id', '=', id).executeTakeFirst(),
    nickAlone: (id) => db.selectFrom('users').select('nick').where('id', '=', id).execute(),
    nicksWithPosts: () =>
      db
        .selectFrom('posts')
        .innerJoin('users as author', 'author.id', 'posts.user_id')
        .select(['posts.id', 'author.nick as name'])
        .execute(),
    byEmail: (email) => select().where('email', '=', email).execute(),
    byNotEmail: (email) => select().where('email', '!=', email).execute(),
    byEmails: (emails) => select().where('users.email', 'in', emails).execute(),
    byCityAndEmail: (city, email) => select().where('city', '=', city).where('email', '=', email).execute(),
    byCityOrEmail: (city, email) =>
      select()
        .where((eb) => eb.or([eb('city', '=', city), eb('email', '=', email)]))
        .execute(),
    withoutNick: () => select().where('nick', 'is', null).execute(),
    countByEmail: async (email) => {
      const query = db.selectFrom('users').select(({ fn }) => fn.countAll().as('n'))
      return Number((await query.where('email', '=', email).executeTakeFirstOrThrow()).n)
    },
    update: (id, changes) => db.updateTable('users').set(changes).where('id', '=', id).execute(),
    updateReturning: (id, changes) =>
      db.updateTable('users').set(changes).where('id', '=', id).returningAll().executeTakeFirstOrThrow(),
    updateByEmail: (email, changes) => db.updateTable('users').set(changes).where('email', '=', email).execute(),
    updateByCity: (city, changes) => db.updateTable('users').set(changes).where('city', '=', city).execute(),
    updateAtOnce: (city, changes) => db.updateTable('users').set(changes).where('city', '=', city).execute(),
    updateByIds: (ids, changes) => db.updateTable('users').set(changes).where('id', 'in', ids).execute(),
    updateByLikes: (likes, changes) =>
      db
        .updateTable('users')
        .set(changes)
        .where('id', 'in', (eb) => eb.selectFrom('posts').select('posts.user_id').where('posts.likes', '=', likes))
        .execute(),
    updateReturningNick: (id, changes) =>
      db.updateTable('users').set(changes).where('id', '=', id).returning('nick').execute(),
    upsert: (user, changes) => {
      const isEmpty = Object.keys(changes).length === 0
      return db
        .insertInto('users')
        .values(user)
        .onConflict((on) => (isEmpty ? on.doNothing() : on.column('id').doUpdateSet(changes)))
        .execute()
    },
    upsertMany: (list, by) =>
      db
        .insertInto('users')
        .values(list)
        .onConflict((on) =>
          on
            .column(by === 'id' ? 'id' : 'email_index')
            .doUpdateSet((eb) => ({ email: eb.ref('excluded.email'), nick: eb.ref('excluded.nick') })),
        )
        .execute(),
    upsertByEmail: (user, changes) =>
      db
        .insertInto('users')
        .values(user)
        .onConflict((on) => on.column('email_index').doUpdateSet(changes))
        .execute(),
    deleteByEmail: (email) => db.deleteFrom('users').where('email', '=', email).execute(),
    deleteReturning: (id) => db.deleteFrom('users').where('id', '=', id).returningAll().executeTakeFirstOrThrow(),
    transaction: (run) => db.transaction().execute((inner) => run({ ...ormOf(inner), close: async () => undefined })),
    userWithPosts: (id) =>
      select()
        .select((eb) =>
          jsonArrayFrom(eb.selectFrom('posts').selectAll().whereRef('posts.user_id', '=', 'users.id')).as('posts'),
        )
        .where('id', '=', id)
        .executeTakeFirst(),
    postsWithUser: async () => {
      const rows = await db
        .selectFrom('posts')
        .selectAll()
        .select((eb) =>
          jsonObjectFrom(eb.selectFrom('users').selectAll().whereRef('users.id', '=', 'posts.user_id'))
            .$notNull()
            .as('user'),
        )
        .execute()
      // Kysely's type of a date in JSON is a text.
      return rows.map(({ user, ...post }) => ({
        ...post,
        user: { ...user, born: user.born === null ? null : new Date(user.born) },
      }))
    },
    joined: async () => {
      const rows = await db
        .selectFrom('users')
        .leftJoin('posts as p', 'p.user_id', 'users.id')
        .selectAll('users')
        .select(['p.id as post_id', 'p.title', 'p.likes'])
        .execute()
      return rows.map(({ post_id, title, likes, ...user }) => ({
        user,
        post: post_id === null ? null : { id: post_id, user_id: user.id, title: title ?? '', likes: likes ?? 0 },
      }))
    },
    sameBy: (column) =>
      db
        .selectFrom('users')
        .innerJoin('users as same', `same.${column}`, `users.${column}`)
        .select(['users.id', 'same.id as same'])
        .execute(),
    postsByUsersEmail: (email) =>
      db
        .selectFrom('posts')
        .innerJoin('users as u', 'u.id', 'posts.user_id')
        .selectAll('posts')
        .where('u.email', '=', email)
        .execute(),
    postsWithUsersPosts: async () => {
      const rows = await db
        .selectFrom('posts as p')
        .selectAll('p')
        .select((eb) =>
          jsonObjectFrom(
            eb
              .selectFrom('users')
              .selectAll('users')
              .select((inner) =>
                jsonArrayFrom(inner.selectFrom('posts as q').selectAll('q').whereRef('q.user_id', '=', 'users.id')).as(
                  'posts',
                ),
              )
              .whereRef('users.id', '=', 'p.user_id'),
          )
            .$notNull()
            .as('user'),
        )
        .execute()
      return rows.map(({ user, ...post }) => ({
        ...post,
        user: { ...user, born: user.born === null ? null : new Date(user.born) },
      }))
    },
    postsByInnerEmail: (email) =>
      db
        .selectFrom('posts')
        .selectAll()
        .where('user_id', 'in', (eb) => eb.selectFrom('users').select('users.id').where('users.email', '=', email))
        .execute(),
    existsByEmail: async (email) => {
      const found = await db
        .selectNoFrom(({ exists, selectFrom }) =>
          exists(selectFrom('users').selectAll().where('email', '=', email)).as('is_there'),
        )
        .executeTakeFirstOrThrow()
      return Boolean(found.is_there)
    },
    countByCity: async (city) => {
      const query = db.selectFrom('users').select(({ fn }) => fn.countAll().as('n'))
      return Number((await query.where('city', '=', city).executeTakeFirstOrThrow()).n)
    },
    sumOfLikes: async () => {
      const query = db.selectFrom('posts').select(({ fn }) => fn.sum('likes').as('sum'))
      return Number((await query.executeTakeFirstOrThrow()).sum)
    },
    postsAbove: (likes) =>
      db.selectFrom('posts').selectAll().where('likes', '>=', likes).orderBy('likes', 'desc').execute(),
    pageByCity: (skip, take) => select().orderBy('city').limit(take).offset(skip).execute(),
    raw: (text) => sql.raw(text).execute(db),
    insertSample: (sample) => db.insertInto('samples').values(sample).execute(),
    sampleById: (id) => db.selectFrom('samples').selectAll().where('id', '=', id).executeTakeFirst(),
    updateSample: (id, changes) => db.updateTable('samples').set(changes).where('id', '=', id).execute(),
    insertPerson: (person) => db.insertInto('people').values(person).execute(),
    people: () => db.selectFrom('people').selectAll().execute(),
    updatePerson: (id, changes) => db.updateTable('people').set(changes).where('id', '=', id).execute(),
    updatePersonOfKey: (id, key, changes) =>
      db.updateTable('people').set(changes).where('id', '=', id).where('key_id', '=', key).execute(),
    namesOfPeople: () => db.selectFrom('people').select(['id', 'key_id', 'name']).execute(),
    updatePersonReturning: (id, key, changes) =>
      db
        .updateTable('people')
        .set(changes)
        .where('id', '=', id)
        .where('key_id', '=', key)
        .returningAll()
        .executeTakeFirstOrThrow(),
    computePerson: (id, column) =>
      db.updateTable('people').set(column, sql<string>`gen_random_uuid()`).where('id', '=', id).execute(),
    upsertPerson: (person) =>
      db
        .insertInto('people')
        .values(person)
        .onConflict((on) => on.column('id').doUpdateSet((eb) => ({ name: eb.ref('excluded.name') })))
        .execute(),
    insertLead: (table, lead) => db.insertInto(table).values(lead).execute(),
    insertLeadReturning: (lead) => db.insertInto('leads').values(lead).returning('mail').execute(),
    mailAlone: (id) => db.selectFrom('leads').select('mail').where('id', '=', id).execute(),
    updateLead: (id, changes) => db.updateTable('leads').set(changes).where('id', '=', id).execute(),
    upsertLead: (table, lead, fields) =>
      db
        .insertInto(table)
        .values(lead)
        .onConflict((on) =>
          on
            .column('id')
            .doUpdateSet((eb) => Object.fromEntries(fields.map((field) => [field, eb.ref(`excluded.${field}`)]))),
        )
        .execute(),
    insertVault: (vault) => db.insertInto('vaults').values(vault).execute(),
    vaultById: (id) => db.selectFrom('vaults').selectAll().where('id', '=', id).executeTakeFirst(),
    updateVault: (id, changes) => db.updateTable('vaults').set(changes).where('id', '=', id).execute(),
    insertPlace: (place) => db.insertInto('places').values(place).execute(),
    placeById: (id) => db.selectFrom('places').selectAll().where('id', '=', id).executeTakeFirst(),
    updatePlace: (id, address) =>
      db
        .updateTable('places')
        .set({ address: address as Place['address'] })
        .where('id', '=', id)
        .execute(),
    // Kysely makes no ids itself: those of `locals` are the application's.
    insertMade: (table, labels) => {
      const rows = labels.map((label) => ({ label, ...(table === 'locals' ? { id: randomUUID() } : {}) }))
      return db.insertInto(table).values(rows).returning(['id', 'label']).execute()
    },
    made: (table) => db.selectFrom(table).selectAll().execute(),
    upsertMade: (table, label, changed) =>
      db
        .insertInto(table)
        .values({ label, ...(table === 'locals' ? { id: randomUUID() } : {}) })
        .onConflict((on) => on.column('label').doUpdateSet({ label: changed }))
        .execute(),
    insertLogs: (logs) =>
      db
        .insertInto('logs')
        .values(logs as never)
        .execute(),
    findLogs: ({ starts, contains, due, since, amount, sent = {} }, { skip, take } = {}) => {
      let query = db.selectFrom('logs').select(['fault', 'due', 'amount']).orderBy('number')
      if (starts !== undefined) query = query.where('fault', 'ilike', `${inPattern(starts)}%`)
      if (contains !== undefined) query = query.where('fault', 'like', `%${inPattern(contains)}%`)
      if (due) query = query.where('due', '>=', due[0]).where('due', '<', due[1])
      if (since) query = query.where('due', '>=', since)
      if (amount) query = query.where((eb) => eb.between('amount', ...amount))
      for (const [field, value] of Object.entries(sent)) query = query.where(field as 'fault', '=', value as string)
      if (take !== undefined) query = query.limit(take)
      return (skip === undefined ? query : query.offset(skip)).execute()
    },
    // PostgreSQL counts before the rows are filtered, so that this is refused: the rows are counted.
    countLogs: async ({ starts }) => {
      const logs = db.selectFrom('logs').where('fault', 'like', `${starts}%`)
      await expectRefused(logs.select(({ fn }) => fn.countAll().as('n')).execute(), NO_COUNT)
      const beside = logs.select('id')
      await expectRefused(beside.select(sql`count(*) over ()`.as('n')).execute(), NO_COUNT)
      await expectRefused(beside.select(sql`1 + ${sql`count(*) over ()`}`.as('n')).execute(), NO_COUNT)
      await expectRefused(
        beside.select(({ fn }) => fn.coalesce(fn.countAll().over(), sql`0`).as('n')).execute(),
        NO_COUNT,
      )
      const either = db
        .selectFrom('logs')
        .select('id')
        .where((eb) => eb.or([eb('fault', 'like', `${starts}%`), eb('number', '=', 1)]))
      await expectRefused(either.execute(), NO_OR)
      const update = db.updateTable('logs').where('fault', 'like', `${starts}%`)
      await expectRefused(update.set({ number: 1 }).execute())
      await expectRefused(update.set({ fault: 'all' }).execute())
      return (await logs.select('id').execute()).length
    },
    byLowerEmail: (email) =>
      select()
        .where(sql`lower(${sql.ref('email')})`, '=', email)
        .execute(),
    orderedByEmail: () => select().orderBy('email', 'desc').execute(),
    groupedByEmail: () =>
      db
        .selectFrom('users')
        .select(({ fn }) => fn.countAll().as('n'))
        .groupBy('email')
        .execute(),
    afterEmail: (email) => select().where('email', '>', email).execute(),
    likeEmail: (email) => select().where('email', 'like', email).execute(),
    byBorn: (born) => select().where('born', '=', born).execute(),
    byNoEmail: () =>
      select()
        .where('email', '=', null as never)
        .execute(),
  }
}

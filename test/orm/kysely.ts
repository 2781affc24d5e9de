// Kysely, as an application would use it: the contract's operations.
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
import { encrypted } from '../../packages/sdk/src/kysely.js'
import type { Models, Orm, Post, User } from './scene.js'

interface Database {
  users: { [K in keyof User]: K extends 'prefs' ? Generated<User[K]> : User[K] } & {
    email_index: Generated<string>
    nick_index: Generated<string | null>
  }
  posts: Post
}

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
    upsert: (user, changes) => {
      const isEmpty = Object.keys(changes).length === 0
      return db
        .insertInto('users')
        .values(user)
        .onConflict((on) => (isEmpty ? on.doNothing() : on.column('id').doUpdateSet(changes)))
        .execute()
    },
    upsertMany: (list) =>
      db
        .insertInto('users')
        .values(list)
        .onConflict((on) =>
          on.column('id').doUpdateSet((eb) => ({ email: eb.ref('excluded.email'), nick: eb.ref('excluded.nick') })),
        )
        .execute(),
    upsertByEmail: (user, changes) =>
      db
        .insertInto('users')
        .values(user)
        .onConflict((on) => on.column('email_index').doUpdateSet(changes))
        .execute(),
    deleteByEmail: (email) => db.deleteFrom('users').where('email', '=', email).execute(),
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
    postsByUsersEmail: (email) =>
      db
        .selectFrom('posts')
        .innerJoin('users as u', 'u.id', 'posts.user_id')
        .selectAll('posts')
        .where('u.email', '=', email)
        .execute(),
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

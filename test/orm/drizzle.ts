// Drizzle, as an application would use it: the contract's operations.
import { and, count, desc, eq, gt, inArray, isNull, like, ne, or, relations, sql } from 'drizzle-orm'
import { integer, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { encrypted } from '../../packages/sdk/src/drizzle.js'
import type { Models, Orm, Prefs } from './scene.js'

export const users = pgTable('users', {
  id: uuid().primaryKey(),
  email: jsonb().$type<string>().notNull(),
  email_index: text(),
  nick: jsonb().$type<string>(),
  nick_index: text(),
  born: jsonb().$type<Date>(),
  prefs: jsonb().$type<Prefs>(),
  city: text().notNull(),
})

export const posts = pgTable('posts', {
  id: uuid().primaryKey(),
  user_id: uuid().notNull(),
  title: text().notNull(),
  likes: integer().notNull(),
})

const schema = {
  users,
  posts,
  usersRelations: relations(users, ({ many }) => ({ posts: many(posts) })),
  postsRelations: relations(posts, ({ one }) => ({
    user: one(users, { fields: [posts.user_id], references: [users.id] }),
  })),
}

export async function connectDrizzle(url: string, models: Models): Promise<Orm> {
  const client = postgres(url, { max: 3, onnotice: () => undefined })
  const db = encrypted(drizzle(client, { schema }), [
    [users, models.users],
    [posts, models.posts],
  ])
  return { ...ormOf(db), close: () => client.end() }
}

function open(url: string) {
  return drizzle(postgres(url), { schema })
}
type Database = ReturnType<typeof open>
type Inner = Pick<Database, 'insert' | 'select' | 'update' | 'delete' | 'query' | 'transaction' | '$count'>

function ormOf(db: Inner): Omit<Orm, 'close'> {
  const select = () => db.select().from(users)
  const excludedOf = (column: { name: string }) => sql.raw(`excluded.${column.name}`)
  return {
    insert: (user) => db.insert(users).values(user),
    insertMany: (list) => db.insert(users).values(list),
    insertReturning: async (user) => one(await db.insert(users).values(user).returning()),
    insertPosts: (list) => db.insert(posts).values(list),
    all: () => select(),
    byId: async (id) => (await select().where(eq(users.id, id)))[0],
    nickOf: async (id) => (await db.select({ id: users.id, nick: users.nick }).from(users).where(eq(users.id, id)))[0],
    nickAlone: async (id) => db.select({ nick: users.nick }).from(users).where(eq(users.id, id)),
    byEmail: (email) => select().where(eq(users.email, email)),
    byNotEmail: (email) => select().where(ne(users.email, email)),
    byEmails: (emails) => select().where(inArray(users.email, emails)),
    byCityAndEmail: (city, email) => select().where(and(eq(users.city, city), eq(users.email, email))),
    byCityOrEmail: (city, email) => select().where(or(eq(users.city, city), eq(users.email, email))),
    withoutNick: () => select().where(isNull(users.nick)),
    countByEmail: (email) => db.$count(users, eq(users.email, email)),
    update: (id, changes) => db.update(users).set(changes).where(eq(users.id, id)),
    updateReturning: async (id, changes) =>
      one(await db.update(users).set(changes).where(eq(users.id, id)).returning()),
    updateByEmail: (email, changes) => db.update(users).set(changes).where(eq(users.email, email)),
    updateByCity: (city, changes) => db.update(users).set(changes).where(eq(users.city, city)),
    upsert: (user, changes) => {
      const insert = db.insert(users).values(user)
      const isEmpty = Object.keys(changes).length === 0
      return isEmpty ? insert.onConflictDoNothing() : insert.onConflictDoUpdate({ target: users.id, set: changes })
    },
    upsertMany: (list) => {
      const set = { email: excludedOf(users.email), nick: excludedOf(users.nick) }
      return db.insert(users).values(list).onConflictDoUpdate({ target: users.id, set })
    },
    upsertByEmail: (user, changes) =>
      db.insert(users).values(user).onConflictDoUpdate({ target: users.email_index, set: changes }),
    deleteByEmail: (email) => db.delete(users).where(eq(users.email, email)),
    transaction: (run) => db.transaction((inner) => run({ ...ormOf(inner), close: async () => undefined })),
    userWithPosts: (id) => db.query.users.findFirst({ where: eq(users.id, id), with: { posts: true } }),
    postsWithUser: async () => db.query.posts.findMany({ with: { user: true } }) as never,
    joined: async () => {
      const rows = await db.select().from(users).leftJoin(posts, eq(posts.user_id, users.id))
      return rows.map((row) => ({ user: row.users, post: row.posts }))
    },
    postsByUsersEmail: async (email) => {
      const rows = await db
        .select({ post: posts })
        .from(posts)
        .innerJoin(users, eq(users.id, posts.user_id))
        .where(eq(users.email, email))
      return rows.map(({ post }) => post)
    },
    byLowerEmail: async (email) => select().where(sql`lower(${users.email}) = ${email}`),
    orderedByEmail: async () => select().orderBy(desc(users.email)),
    groupedByEmail: async () => db.select({ n: count() }).from(users).groupBy(users.email),
    afterEmail: async (email) => select().where(gt(users.email, email)),
    likeEmail: async (email) => select().where(like(users.email, email)),
    byBorn: async (born) => select().where(eq(users.born, born)),
    byNoEmail: async () => select().where(eq(users.email, null as never)),
  }
}

function one<T>(rows: readonly T[]): T {
  const [row] = rows
  if (!row) throw new Error('no row was returned')
  return row
}

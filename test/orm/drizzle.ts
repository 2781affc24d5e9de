// Drizzle, as an application would use it: the contract's operations.
import { randomUUID } from 'node:crypto'
import {
  and,
  asc,
  between,
  count,
  desc,
  eq,
  exists,
  gt,
  gte,
  ilike,
  inArray,
  isNull,
  like,
  lt,
  ne,
  or,
  relations,
  sql,
  sum,
} from 'drizzle-orm'
import { alias, integer, jsonb, pgTable, serial, text, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { expect } from 'vitest'
import { encrypted } from '../../packages/drizzle/src/index.js'
import { expectRefused, NO_COUNT, NO_OR } from './refused.js'
import { inPattern, type Models, type Orm, type Place, type Prefs, type Tree } from './scene.js'

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

export const samples = pgTable('samples', {
  id: uuid().primaryKey(),
  data: jsonb().$type<Uint8Array<ArrayBuffer>>(),
  amount: jsonb().$type<number>(),
  taken: jsonb().$type<Date>(),
  good: jsonb().$type<boolean>(),
  tree: jsonb().$type<Tree>(),
})

export const people = pgTable('people', {
  id: uuid().primaryKey(),
  key_id: uuid().notNull(),
  name: text().notNull(),
  city: text().notNull(),
})

export const leads = pgTable('leads', {
  id: uuid().primaryKey(),
  mail: jsonb().$type<string>().notNull(),
  note: jsonb().$type<string>(),
  envelope: jsonb(),
})

export const pairs = pgTable('pairs', {
  id: uuid().primaryKey(),
  mail: jsonb().$type<string>().notNull(),
  note: jsonb().$type<string>(),
  pair_index: text(),
})
const LEADS = { leads, pairs }

export const vaults = pgTable('vaults', {
  id: uuid().primaryKey(),
  mail: jsonb().$type<string>().notNull(),
  mail_index: text(),
  note: jsonb().$type<string>(),
  row_seal: jsonb(),
})

export const places = pgTable('places', {
  id: uuid().primaryKey(),
  address: jsonb().$type<NonNullable<Place['address']>>(),
  street_index: text(),
})

export const logs = pgTable('logs', {
  id: uuid().primaryKey(),
  fault: jsonb().$type<string>().notNull(),
  fault_start: text(),
  fault_parts: text().array(),
  due: jsonb().$type<Date>().notNull(),
  due_month: text(),
  amount: jsonb().$type<number>().notNull(),
  amount_step: text(),
  number: integer(),
})

const labeled = () => ({ label: text().notNull(), label_index: text() })
export const tickets = pgTable('tickets', { id: serial().primaryKey(), ...labeled() })
export const drafts = pgTable('drafts', { id: uuid().primaryKey().defaultRandom(), ...labeled() })
export const locals = pgTable('locals', {
  id: text()
    .primaryKey()
    .$defaultFn(() => randomUUID()),
  ...labeled(),
})
// Drizzle's types do not take one of several tables.
const MADE = { tickets, drafts, locals } as unknown as Record<string, typeof locals>

const schema = {
  users,
  posts,
  logs,
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
    [samples, models.samples],
    [people, models.people],
    [leads, models.leads],
    [vaults, models.vaults],
    [pairs, models.pairs],
    [places, models.places],
    [tickets, models.tickets],
    [drafts, models.drafts],
    [locals, models.locals],
    [logs, models.logs],
  ])
  return { ...ormOf(db), close: () => client.end() }
}

const madeOf = (table: string) => MADE[table] as typeof locals

function open(url: string) {
  return drizzle(postgres(url), { schema })
}
type Database = ReturnType<typeof open>
type Inner = Pick<Database, 'insert' | 'select' | 'update' | 'delete' | 'query' | 'transaction' | '$count' | 'execute'>

function ormOf(db: Inner): Omit<Orm, 'close'> {
  const select = () => db.select().from(users)
  const excludedOf = (column: { name: string }) => sql.raw(`excluded.${column.name}`)
  return {
    insert: (user) => db.insert(users).values(user),
    insertMany: (list) => db.insert(users).values(list),
    insertReturning: async (user) => one(await db.insert(users).values(user).returning()),
    insertPosts: (list) => db.insert(posts).values(list),
    insertIgnoring: (list) => db.insert(users).values(list).onConflictDoNothing({ target: users.id }),
    all: () => select(),
    byId: async (id) => (await select().where(eq(users.id, id)))[0],
    nickOf: async (id) => (await db.select({ id: users.id, nick: users.nick }).from(users).where(eq(users.id, id)))[0],
    nickAlone: async (id) => db.select({ nick: users.nick }).from(users).where(eq(users.id, id)),
    nicksWithPosts: async () =>
      db.select({ id: posts.id, name: users.nick }).from(posts).innerJoin(users, eq(users.id, posts.user_id)),
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
    updateAtOnce: (city, changes) => db.update(users).set(changes).where(eq(users.city, city)),
    updateByIds: (ids, changes) => db.update(users).set(changes).where(inArray(users.id, ids)),
    updateByLikes: (likes, changes) => {
      const ids = db.select({ id: posts.user_id }).from(posts).where(eq(posts.likes, likes))
      return db.update(users).set(changes).where(inArray(users.id, ids))
    },
    updateReturningNick: (id, changes) =>
      db.update(users).set(changes).where(eq(users.id, id)).returning({ nick: users.nick }),
    upsert: (user, changes) => {
      const insert = db.insert(users).values(user)
      const isEmpty = Object.keys(changes).length === 0
      return isEmpty ? insert.onConflictDoNothing() : insert.onConflictDoUpdate({ target: users.id, set: changes })
    },
    upsertMany: (list, by) => {
      const set = { email: excludedOf(users.email), nick: excludedOf(users.nick) }
      const target = by === 'id' ? users.id : users.email_index
      return db.insert(users).values(list).onConflictDoUpdate({ target, set })
    },
    upsertByEmail: (user, changes) =>
      db.insert(users).values(user).onConflictDoUpdate({ target: users.email_index, set: changes }),
    deleteByEmail: (email) => db.delete(users).where(eq(users.email, email)),
    deleteReturning: async (id) => one(await db.delete(users).where(eq(users.id, id)).returning()),
    transaction: (run) => db.transaction((inner) => run({ ...ormOf(inner), close: async () => undefined })),
    userWithPosts: (id) => db.query.users.findFirst({ where: eq(users.id, id), with: { posts: true } }),
    postsWithUser: async () => db.query.posts.findMany({ with: { user: true } }) as never,
    joined: async () => {
      const rows = await db.select().from(users).leftJoin(posts, eq(posts.user_id, users.id))
      return rows.map((row) => ({ user: row.users, post: row.posts }))
    },
    sameBy: async (column) => {
      const same = alias(users, 'same')
      return db.select({ id: users.id, same: same.id }).from(users).innerJoin(same, eq(users[column], same[column]))
    },
    postsByUsersEmail: async (email) => {
      const rows = await db
        .select({ post: posts })
        .from(posts)
        .innerJoin(users, eq(users.id, posts.user_id))
        .where(eq(users.email, email))
      return rows.map(({ post }) => post)
    },
    postsWithUsersPosts: async () => db.query.posts.findMany({ with: { user: { with: { posts: true } } } }) as never,
    postsByInnerEmail: (email) => {
      const ids = db.select({ id: users.id }).from(users).where(eq(users.email, email))
      return db.select().from(posts).where(inArray(posts.user_id, ids))
    },
    existsByEmail: async (email) => {
      const found = db.select({ one: sql`1` }).from(users).where(eq(users.email, email))
      return (await db.select({ id: users.id }).from(users).where(exists(found)).limit(1)).length > 0
    },
    countByCity: (city) => db.$count(users, eq(users.city, city)),
    sumOfLikes: async () => Number(one(await db.select({ sum: sum(posts.likes) }).from(posts)).sum),
    postsAbove: (likes) => db.select().from(posts).where(gte(posts.likes, likes)).orderBy(desc(posts.likes)),
    pageByCity: (skip, take) => select().orderBy(asc(users.city)).limit(take).offset(skip),
    raw: async (text) => db.execute(sql.raw(text)),
    insertSample: (sample) => db.insert(samples).values(sample),
    sampleById: async (id) => (await db.select().from(samples).where(eq(samples.id, id)))[0],
    updateSample: (id, changes) => db.update(samples).set(changes).where(eq(samples.id, id)),
    insertPerson: (person) => db.insert(people).values(person),
    people: () => db.select().from(people),
    updatePerson: (id, changes) => db.update(people).set(changes).where(eq(people.id, id)),
    updatePersonOfKey: (id, key, changes) =>
      db
        .update(people)
        .set(changes)
        .where(and(eq(people.id, id), eq(people.key_id, key))),
    namesOfPeople: () => db.select({ id: people.id, key_id: people.key_id, name: people.name }).from(people),
    updatePersonReturning: async (id, key, changes) =>
      one(
        await db
          .update(people)
          .set(changes)
          .where(and(eq(people.id, id), eq(people.key_id, key)))
          .returning(),
      ),
    computePerson: (id, column) =>
      db
        .update(people)
        .set({ [column]: sql`gen_random_uuid()` })
        .where(eq(people.id, id)),
    upsertPerson: (person) =>
      db
        .insert(people)
        .values(person)
        .onConflictDoUpdate({ target: people.id, set: { name: sql`excluded.name` } }),
    insertLead: (table, lead) => db.insert(LEADS[table]).values(lead),
    insertLeadReturning: async (lead) => db.insert(leads).values(lead).returning({ mail: leads.mail }),
    mailAlone: async (id) => db.select({ mail: leads.mail }).from(leads).where(eq(leads.id, id)),
    updateLead: (id, changes) => db.update(leads).set(changes).where(eq(leads.id, id)),
    upsertLead: (table, lead, fields) =>
      db
        .insert(LEADS[table])
        .values(lead)
        .onConflictDoUpdate({
          target: LEADS[table].id,
          set: Object.fromEntries(fields.map((field) => [field, excludedOf(LEADS[table][field])])),
        }),
    insertVault: (vault) => db.insert(vaults).values(vault),
    vaultById: async (id) => (await db.select().from(vaults).where(eq(vaults.id, id)))[0],
    updateVault: (id, changes) => db.update(vaults).set(changes).where(eq(vaults.id, id)),
    insertPlace: (place) => db.insert(places).values(place),
    placeById: async (id) => (await db.select().from(places).where(eq(places.id, id)))[0],
    updatePlace: (id, address) =>
      db
        .update(places)
        .set({ address: address as Place['address'] })
        .where(eq(places.id, id)),
    insertMade: (table, labels) =>
      db
        .insert(madeOf(table))
        .values(labels.map((label) => ({ label })))
        .returning(),
    made: (table) => db.select().from(madeOf(table)),
    upsertMade: async (table, label, changed) =>
      db
        .insert(madeOf(table))
        .values({ label })
        .onConflictDoUpdate({ target: madeOf(table).label, set: { label: changed } }),
    insertLogs: async (list) => db.insert(logs).values(list),
    findLogs: async ({ starts, contains, due, since, amount, sent = {} }, { skip, take } = {}) => {
      const where = and(
        starts === undefined ? undefined : ilike(logs.fault, `${inPattern(starts)}%`),
        contains === undefined ? undefined : like(logs.fault, `%${inPattern(contains)}%`),
        due && and(gte(logs.due, due[0]), lt(logs.due, due[1])),
        since && gte(logs.due, since),
        amount && between(logs.amount, ...amount),
        ...Object.entries(sent).map(([field, value]) => eq(logs[field as 'fault'], value as string)),
      )
      const query = db.select({ fault: logs.fault, due: logs.due, amount: logs.amount }).from(logs).where(where)
      const ordered = query.orderBy(logs.number).$dynamic()
      if (skip !== undefined) ordered.offset(skip)
      const found = await (take === undefined ? ordered : ordered.limit(take))
      // `db.query` finds the same, and returns what was searched only where it was asked for.
      const columns = { fault: true, due: true, amount: true } as const
      const from = { orderBy: asc(logs.number), ...(skip === undefined ? {} : { offset: skip }) }
      const page: { limit?: number } = take === undefined ? {} : { limit: take }
      expect(await db.query.logs.findMany({ ...from, ...page, where, columns })).toEqual(found)
      const first = await db.query.logs.findFirst({ ...from, where: () => where, columns: { amount: true } })
      expect(first).toEqual(found[0] && { amount: found[0].amount })
      return found
    },
    // PostgreSQL counts before the rows are filtered, so that this is refused: the rows are counted.
    countLogs: async ({ starts }) => {
      const where = like(logs.fault, `${starts}%`)
      await expectRefused(db.select({ n: count() }).from(logs).where(where), NO_COUNT)
      await expectRefused(db.$count(logs, where), NO_COUNT)
      const n = sql<number>`count(*) over ()`
      await expectRefused(db.select({ id: logs.id, n }).from(logs).where(where), NO_COUNT)
      await expectRefused(
        db
          .select({ id: logs.id, of: { n: sql`1 + ${n}`.as('n') } })
          .from(logs)
          .where(where),
        NO_COUNT,
      )
      await expectRefused(db.query.logs.findMany({ where, extras: { n: n.as('n') } }), NO_COUNT)
      await expectRefused(
        db
          .select({ id: logs.id })
          .from(logs)
          .where(or(where, eq(logs.number, 1))),
        NO_OR,
      )
      await expectRefused(db.update(logs).set({ number: 1 }).where(where))
      await expectRefused(db.update(logs).set({ fault: 'all' }).where(where))
      await expectRefused(db.delete(logs).where(where))
      return (await db.select({ id: logs.id }).from(logs).where(where)).length
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

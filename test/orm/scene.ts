// What the contract of the adapters is about: two tables, their models, and what an ORM must be able to do with them.
import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { type Client, createClient, date, json, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { freshDatabase } from '../support/database.js'

export interface Prefs {
  theme: 'dark' | 'light'
}

export interface User {
  id: string
  email: string
  nick: string | null
  born: Date | null
  prefs: Prefs | null
  city: string
}

export interface Post {
  id: string
  user_id: string
  title: string
  likes: number
}

/** The form of the users' values: `full` in columns of JSON, `text` in columns of text. */
export type UserFormat = 'full' | 'text'

export function modelsOf(eaas: Client, keyId: string, format: UserFormat) {
  const users = eaas.model({
    name: 'users',
    format,
    keyId,
    bind: ['id'],
    warn: false,
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      nick: text({ index: 'nick_index' }).nullable(),
      born: date().nullable(),
      prefs: json<Prefs>().optional(),
    },
  })
  const posts = eaas.model({ name: 'posts', keyId, bind: ['id'], format: 'text', fields: { title: text() } })
  return { users, posts }
}

export type Models = ReturnType<typeof modelsOf>

/** One ORM, used as its users would. What it lacks is missing. */
export interface Orm {
  insert(user: User): Promise<unknown>
  insertMany(users: User[]): Promise<unknown>
  insertReturning?(user: User): Promise<User>
  insertWithPosts?(user: User, posts: Post[]): Promise<unknown>
  insertPosts(posts: Post[]): Promise<unknown>
  all(): Promise<User[]>
  byId(id: string): Promise<User | undefined>
  nickOf(id: string): Promise<{ id: string; nick: string | null } | undefined>
  /** The nick alone, without the id that it is bound to. */
  nickAlone(id: string): Promise<unknown>
  byEmail(email: string): Promise<User[]>
  byNotEmail(email: string): Promise<User[]>
  byEmails(emails: string[]): Promise<User[]>
  byCityAndEmail(city: string, email: string): Promise<User[]>
  byCityOrEmail(city: string, email: string): Promise<User[]>
  withoutNick(): Promise<User[]>
  countByEmail(email: string): Promise<number>
  update(id: string, changes: Partial<User>): Promise<unknown>
  updateReturning?(id: string, changes: Partial<User>): Promise<User>
  updateByEmail(email: string, changes: Partial<User>): Promise<unknown>
  updateByCity(city: string, changes: Partial<User>): Promise<unknown>
  upsert(user: User, changes: Partial<User>): Promise<unknown>
  upsertMany?(users: User[]): Promise<unknown>
  /** Inserts, or changes the row of the same email, whose id is another one. */
  upsertByEmail(user: User, changes: Partial<User>): Promise<unknown>
  deleteByEmail(email: string): Promise<unknown>
  /** Rolls back if `run` throws, and rejects with its error. */
  transaction(run: (inner: Orm) => Promise<void>): Promise<unknown>
  userWithPosts?(id: string): Promise<(User & { posts: Post[] }) | undefined>
  postsWithUser?(): Promise<(Post & { user: User })[]>
  /** Users and posts by a join, with no post where a user has none. */
  joined?(): Promise<{ user: User; post: Post | null }[]>
  postsByUsersEmail(email: string): Promise<Post[]>
  byLowerEmail?(email: string): Promise<unknown>
  orderedByEmail(): Promise<unknown>
  groupedByEmail?(): Promise<unknown>
  afterEmail(email: string): Promise<unknown>
  likeEmail(email: string): Promise<unknown>
  byBorn(born: Date): Promise<unknown>
  /** Compares with null, in an ORM where nothing is equal to null. */
  byNoEmail?(): Promise<unknown>
  close(): Promise<unknown>
}

/** Every operation there is. By a record, so that one too few does not compile. */
const ALL: Record<keyof Orm, true> = {
  insert: true,
  insertMany: true,
  insertReturning: true,
  insertWithPosts: true,
  insertPosts: true,
  all: true,
  byId: true,
  nickOf: true,
  nickAlone: true,
  byEmail: true,
  byNotEmail: true,
  byEmails: true,
  byCityAndEmail: true,
  byCityOrEmail: true,
  withoutNick: true,
  countByEmail: true,
  update: true,
  updateReturning: true,
  updateByEmail: true,
  updateByCity: true,
  upsert: true,
  upsertMany: true,
  upsertByEmail: true,
  deleteByEmail: true,
  transaction: true,
  userWithPosts: true,
  postsWithUser: true,
  joined: true,
  postsByUsersEmail: true,
  byLowerEmail: true,
  orderedByEmail: true,
  groupedByEmail: true,
  afterEmail: true,
  likeEmail: true,
  byBorn: true,
  byNoEmail: true,
  close: true,
}
export const OPERATIONS = Object.keys(ALL) as (keyof Orm)[]

export interface Scene {
  orm: Orm
  sql: postgres.Sql
  models: Models
  format: UserFormat
}

const TYPES = { full: 'jsonb', text: 'text' }

export const tables = (format: UserFormat) => `
  create table users (
    id uuid primary key,
    email ${TYPES[format]} not null,
    email_index text not null unique,
    nick ${TYPES[format]},
    nick_index text,
    born jsonb,
    prefs jsonb,
    city text not null
  );
  create table posts (
    id uuid primary key,
    user_id uuid not null references users,
    title text not null,
    likes integer not null
  );`

/** Makes the tables on PostgreSQL, and the models over a service in memory. */
export async function createScene(connect: (url: string, models: Models) => Promise<Orm>, format: UserFormat) {
  const database = await freshDatabase('orm')
  if (database.backend !== 'postgres') throw new Error('an ORM needs a PostgreSQL')
  const sql = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
  await sql.unsafe(tables(format))
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const models = modelsOf(eaas, keyId, format)
  const orm = await connect(database.directUrl, models)
  const scene: Scene = { orm, sql, models, format }
  return {
    ...scene,
    async close() {
      await orm.close()
      await sql.end()
      eaas.close()
      await database.drop()
    },
  }
}

export function userOf(user: Partial<User> = {}): User {
  const { id = randomUUID() } = user
  const other = { email: `${id}@x.org`, nick: 'nick', born: new Date('1815-12-10'), prefs: null, city: 'London' }
  return { ...other, ...user, id }
}

export function postOf(user: User, post: Partial<Post> = {}): Post {
  return { id: randomUUID(), user_id: user.id, title: 'On engines', likes: 3, ...post }
}

// What the contract of the adapters is about: some tables, their models, and what an ORM must be able to do with them.
import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { boolean, bytes, type Client, createClient, date, json, number, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { freshDatabase } from '../support/database/database.js'

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

/** A row with a field of each kind. */
export interface Sample {
  id: string
  data: Uint8Array<ArrayBuffer> | null
  amount: number | null
  taken: Date | null
  good: boolean | null
  tree: Tree | null
}

export interface Tree {
  name: string
  parts: string[]
  deep?: { n: number | null }
}

/** A row with a key of its own. */
export interface Person {
  id: string
  key_id: string
  name: string
  city: string
}

/** A row of `leads`, which are compact, or of `pairs`, which have one index of both fields. */
export interface Lead {
  id: string
  mail: string
  note: string | null
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
  const samples = eaas.model({
    name: 'samples',
    format,
    keyId,
    bind: ['id'],
    fields: {
      data: bytes().nullable(),
      amount: number().nullable(),
      taken: date().nullable(),
      good: boolean().nullable(),
      tree: json<Tree>().nullable(),
    },
  })
  const people = eaas.model({
    name: 'people',
    format: 'text',
    keyId: (row) => row.key_id,
    bind: ['id'],
    fields: { name: text() },
  })
  const ofLead = { mail: text(), note: text().nullable() }
  const leads = eaas.model({ name: 'leads', keyId, bind: ['id'], format: 'compact', fields: ofLead })
  const pairs = eaas.model({
    name: 'pairs',
    keyId,
    bind: ['id'],
    fields: ofLead,
    indexes: { pair_index: { fields: ['mail', 'note'] } },
  })
  return { users, posts, samples, people, leads, pairs }
}

export type Models = ReturnType<typeof modelsOf>

export type LeadTable = 'leads' | 'pairs'

/** One ORM, used as its users would. What it lacks is missing. */
export interface Orm {
  insert(user: User): Promise<unknown>
  insertMany(users: User[]): Promise<unknown>
  insertReturning?(user: User): Promise<User>
  insertWithPosts?(user: User, posts: Post[]): Promise<unknown>
  insertPosts(posts: Post[]): Promise<unknown>
  /** Leaves out users whose id is there already. */
  insertIgnoring(users: User[]): Promise<unknown>
  all(): Promise<User[]>
  byId(id: string): Promise<User | undefined>
  nickOf(id: string): Promise<{ id: string; nick: string | null } | undefined>
  /** The nick alone, without the id that it is bound to. */
  nickAlone(id: string): Promise<unknown>
  /** The posts, with the nick of their user under another name, by a join or a relation, without the user's id. */
  nicksWithPosts(): Promise<unknown>
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
  updateByIds(ids: string[], changes: Partial<User>): Promise<unknown>
  /** Changes the users that have a post with so many likes, by a subquery or a relation. */
  updateByLikes(likes: number, changes: Partial<User>): Promise<unknown>
  /** Changes a user, and returns the nick without the id that it is bound to. */
  updateReturningNick?(id: string, changes: Partial<User>): Promise<unknown>
  upsert(user: User, changes: Partial<User>): Promise<unknown>
  upsertMany?(users: User[]): Promise<unknown>
  /** Inserts, or changes the row of the same email, whose id is another one. */
  upsertByEmail(user: User, changes: Partial<User>): Promise<unknown>
  deleteByEmail(email: string): Promise<unknown>
  deleteReturning?(id: string): Promise<User>
  /** Rolls back if `run` throws, and rejects with its error. */
  transaction(run: (inner: Orm) => Promise<void>): Promise<unknown>
  userWithPosts?(id: string): Promise<(User & { posts: Post[] }) | undefined>
  postsWithUser?(): Promise<(Post & { user: User })[]>
  /** Users and posts by a join, with no post where a user has none. */
  joined?(): Promise<{ user: User; post: Post | null }[]>
  /** The ids of users and of all users of the same email, joined by the column. */
  sameBy?(column: 'email' | 'email_index'): Promise<unknown[]>
  /** All posts, with their user, and that with all posts. */
  postsWithUsersPosts?(): Promise<(Post & { user: User & { posts: Post[] } })[]>
  postsByUsersEmail(email: string): Promise<Post[]>
  /** The same, by a subquery in the condition. */
  postsByInnerEmail(email: string): Promise<Post[]>
  existsByEmail(email: string): Promise<boolean>
  countByCity(city: string): Promise<number>
  sumOfLikes(): Promise<number>
  postsAbove(likes: number): Promise<Post[]>
  pageByCity(skip: number, take: number): Promise<User[]>
  /** Executes SQL as text. */
  raw(sql: string): Promise<unknown>
  insertSample(sample: Sample): Promise<unknown>
  sampleById(id: string): Promise<Sample | undefined>
  updateSample(id: string, changes: Partial<Sample>): Promise<unknown>
  insertPerson(person: Person): Promise<unknown>
  people(): Promise<Person[]>
  /** Finds the person by the id alone. */
  updatePerson(id: string, changes: Partial<Person>): Promise<unknown>
  /** Finds the person by the id and the key. */
  updatePersonOfKey(id: string, keyId: string, changes: Partial<Person>): Promise<unknown>
  /** Selects the id, the key and the name alone. */
  namesOfPeople(): Promise<Omit<Person, 'city'>[]>
  updatePersonReturning?(id: string, keyId: string, changes: Partial<Person>): Promise<Person>
  /** Sets the key to what the database, or an operation of the ORM, computes. */
  computeKey(id: string): Promise<unknown>
  /** By the id alone. */
  upsertPerson(person: Person): Promise<unknown>
  insertLead(table: LeadTable, lead: Lead): Promise<unknown>
  /** Changes a row of `leads`. */
  updateLead(id: string, changes: Partial<Lead> & { envelope?: null }): Promise<unknown>
  /** Inserts, or sets these fields of the row that is there to those of the lead. */
  upsertLead(table: LeadTable, lead: Lead, fields: readonly ('mail' | 'note')[]): Promise<unknown>
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
  insertIgnoring: true,
  all: true,
  byId: true,
  nickOf: true,
  nickAlone: true,
  nicksWithPosts: true,
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
  updateByIds: true,
  updateByLikes: true,
  updateReturningNick: true,
  upsert: true,
  upsertMany: true,
  upsertByEmail: true,
  deleteByEmail: true,
  deleteReturning: true,
  transaction: true,
  userWithPosts: true,
  postsWithUser: true,
  postsWithUsersPosts: true,
  joined: true,
  sameBy: true,
  postsByUsersEmail: true,
  postsByInnerEmail: true,
  existsByEmail: true,
  countByCity: true,
  sumOfLikes: true,
  postsAbove: true,
  pageByCity: true,
  raw: true,
  insertSample: true,
  sampleById: true,
  updateSample: true,
  insertPerson: true,
  people: true,
  updatePerson: true,
  updatePersonOfKey: true,
  namesOfPeople: true,
  updatePersonReturning: true,
  computeKey: true,
  upsertPerson: true,
  insertLead: true,
  updateLead: true,
  upsertLead: true,
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
  /** Makes a key, and returns its id. */
  newKey(): Promise<string>
  /** Connects as after a restart, by a client that seals under another DEK. */
  restarted(): Promise<Orm>
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
  );
  create table samples (id uuid primary key, data jsonb, amount jsonb, taken jsonb, good jsonb, tree jsonb);
  create table people (id uuid primary key, key_id uuid not null, name text not null, city text not null);
  create table leads (id uuid primary key, mail jsonb not null, note jsonb, envelope jsonb);
  create table pairs (id uuid primary key, mail jsonb not null, note jsonb, pair_index text);`

/** Makes the tables on PostgreSQL, and the models over a service in memory. */
export async function createScene(connect: (url: string, models: Models) => Promise<Orm>, format: UserFormat) {
  const database = await freshDatabase('orm')
  if (database.backend !== 'postgres') throw new Error('an ORM needs a PostgreSQL')
  const sql = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
  await sql.unsafe(tables(format))
  const service = createTestService()
  const eaas = createClient(service)
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const models = modelsOf(eaas, keyId, format)
  const orm = await connect(database.directUrl, models)
  const newKey = async () => (await eaas.keys.create({ name: randomUUID() })).id
  const opened: { close(): unknown }[] = [eaas, orm]
  const restarted = async () => {
    const later = createClient(service)
    const other = await connect(database.directUrl, modelsOf(later, keyId, format))
    opened.push(later, other)
    return other
  }
  const scene: Scene = { orm, sql, models, format, newKey, restarted }
  return {
    ...scene,
    async close() {
      await Promise.all(opened.map((one) => one.close()))
      await sql.end()
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

export function sampleOf(sample: Partial<Sample> = {}): Sample {
  return { id: randomUUID(), data: null, amount: null, taken: null, good: null, tree: null, ...sample }
}

export function personOf(key_id: string, person: Partial<Person> = {}): Person {
  return { id: randomUUID(), key_id, name: 'Ada', city: 'London', ...person }
}

export function leadOf(lead: Partial<Lead> = {}): Lead {
  return { id: randomUUID(), mail: 'ada@x.org', note: 'note', ...lead }
}

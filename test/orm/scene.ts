// What the contract of the adapters is about: some tables, their models, and what an ORM must be able to do with them.
import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import {
  boolean,
  bytes,
  type Client,
  type ClientOptions,
  createClient,
  date,
  json,
  number,
  text,
} from '../../packages/sdk/src/index.js'
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

/** A row of `leads`, which are compact, of `pairs`, which have one index of both fields, or of `vaults`, which are sealed as a whole. */
export interface Lead {
  id: string
  mail: string
  note: string | null
}

/** A row whose id the database makes, or a default of the ORM's client. */
export interface Made {
  id: string | number
  label: string
}

/** A row that is searched by the beginning and the parts of a text, and by ranges. */
export interface Log {
  id: string
  fault: string
  due: Date
  amount: number
}

/** A row with an encrypted field inside of a column. */
export interface Place {
  id: string
  address: { street?: string | undefined; town?: string } | null
}

/** What of the logs to find; all of it. */
export interface LogSearch {
  starts?: string
  contains?: string
  /** From the first, and before the second. */
  due?: readonly [Date, Date]
  /** Besides `due`, with its upper bound: a second lower one. */
  since?: Date
  /** From the first to the second. */
  amount?: readonly [number, number]
  /** Equal to what an application was sent in place of a value. */
  sent?: Partial<Record<keyof Omit<Log, 'id'>, unknown>>
}

/** `tickets` have a serial id, `drafts` a uuid by the database's default, `locals` one by a default of the client. */
export type MadeTable = 'tickets' | 'drafts' | 'locals'

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
  const people = peopleModelOf(eaas, (row) => row.key_id)
  const ofLead = { mail: text(), note: text().nullable() }
  const leads = eaas.model({ name: 'leads', keyId, bind: ['id'], format: 'compact', fields: ofLead })
  const pairs = eaas.model({
    name: 'pairs',
    keyId,
    bind: ['id'],
    fields: ofLead,
    index: { by: 'oblivious' },
    indexes: { pair_index: { fields: ['mail', 'note'] } },
  })
  const vaults = eaas.model({
    name: 'vaults',
    keyId,
    bind: ['id'],
    sealed: 'row',
    index: { by: 'oblivious' },
    fields: { mail: text({ index: 'mail_index' }), note: text().nullable() },
  })
  const inside = { 'address.street': text({ index: 'street_index' }).optional() }
  const places = eaas.model({ name: 'places', keyId, bind: ['id'], warn: false, fields: inside })
  const label = { label: text({ index: 'label_index' }) }
  const tickets = eaas.model({ name: 'tickets', keyId, bind: ['id'], format: 'text', warn: false, fields: label })
  const drafts = eaas.model({ name: 'drafts', keyId, bind: ['id'], format: 'text', warn: false, fields: label })
  const locals = eaas.model({ name: 'locals', keyId, bind: ['id'], format: 'text', warn: false, fields: label })
  return { users, posts, samples, people, leads, pairs, vaults, places, tickets, drafts, locals }
}

function peopleModelOf(eaas: Client, keyId: (row: Partial<Person>) => unknown) {
  return eaas.model({ name: 'people', format: 'text', keyId, bind: ['id'], fields: { name: text() } })
}

/** Values of all kinds in columns of type text. */
export function readingModelOf(eaas: Client, keyId: string) {
  return eaas.model({
    name: 'readings',
    format: 'text',
    keyId,
    bind: ['id'],
    warn: false,
    fields: {
      taken: date(),
      level: number().nullable(),
      good: boolean().nullable(),
      tree: json<Tree>().nullable(),
      raw: bytes().nullable(),
    },
  })
}

/** With indexes of parts and of buckets, which the service helps to make. */
export function logModelOf(eaas: Client, keyId: string) {
  return eaas.model({
    name: 'logs',
    keyId,
    bind: ['id'],
    warn: false,
    index: { by: 'oblivious' },
    fields: {
      fault: text({ normalize: ['trim', 'lowercase'] }),
      due: date({ index: 'due_month', range: 'month' }),
      amount: number({ index: 'amount_step', range: { step: 100 } }),
    },
    indexes: {
      fault_start: { prefix: 'fault', length: 3 },
      fault_parts: { ngram: 'fault', length: 3, bits: 6, acceptLeakage: true },
    },
  })
}

export type Models = ReturnType<typeof modelsOf> & { logs: ReturnType<typeof logModelOf> }

export type LeadTable = 'leads' | 'pairs'

/** One ORM, used as its users would. What it lacks is missing. */
export interface Orm {
  insert(user: User): Promise<unknown>
  insertMany(users: User[]): Promise<unknown>
  insertReturning?(user: User): Promise<User>
  insertWithPosts?(user: User, posts: Post[]): Promise<unknown>
  /** Changes a user, and the title of all its posts, by one write. */
  updateWithPosts?(id: string, nick: string, title: string): Promise<unknown>
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
  /** The same, of many rows by one statement. */
  updateAtOnce?(city: string, changes: Partial<User>): Promise<unknown>
  updateByIds(ids: string[], changes: Partial<User>): Promise<unknown>
  /** Changes the users that have a post with so many likes, by a subquery or a relation. */
  updateByLikes(likes: number, changes: Partial<User>): Promise<unknown>
  /** Changes a user, and returns the nick without the id that it is bound to. */
  updateReturningNick?(id: string, changes: Partial<User>): Promise<unknown>
  upsert(user: User, changes: Partial<User>): Promise<unknown>
  /** Inserts, or changes the rows of the same id or email. */
  upsertMany?(users: User[], by: 'id' | 'email'): Promise<unknown>
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
  /** Sets a column of a person to what the database, or an operation of the ORM, computes. */
  computePerson(id: string, column: 'key_id' | 'city'): Promise<unknown>
  /** By the id alone. */
  upsertPerson(person: Person): Promise<unknown>
  insertLead(table: LeadTable, lead: Lead): Promise<unknown>
  /** Inserts a row of `leads`, and returns its mail alone. */
  insertLeadReturning(lead: Lead): Promise<unknown>
  /** The mail of a row of `leads` alone. */
  mailAlone(id: string): Promise<unknown>
  /** Changes a row of `leads`. */
  updateLead(id: string, changes: Partial<Lead> & { envelope?: null }): Promise<unknown>
  /** Inserts, or sets these fields of the row that is there to those of the lead. */
  upsertLead(table: LeadTable, lead: Lead, fields: readonly ('mail' | 'note')[]): Promise<unknown>
  insertVault(vault: Lead): Promise<unknown>
  vaultById(id: string): Promise<Lead | undefined>
  updateVault(id: string, changes: Partial<Lead>): Promise<unknown>
  insertPlace(place: Place): Promise<unknown>
  placeById(id: string): Promise<Place | undefined>
  /** Sets the whole column, to an address or to what is none. */
  updatePlace(id: string, address: unknown): Promise<unknown>
  /** Inserts rows without ids, and returns them. */
  insertMade(table: MadeTable, labels: readonly string[]): Promise<Made[]>
  made(table: MadeTable): Promise<Made[]>
  /** Inserts a row without an id or, where there is one of the label, gives that another label. */
  upsertMade(table: MadeTable, label: string, changed: string): Promise<unknown>
  insertLogs?(logs: Log[]): Promise<unknown>
  /** Finds logs by their due date, without their ids. */
  findLogs?(search: LogSearch, page?: { skip?: number; take?: number }): Promise<Omit<Log, 'id'>[]>
  countLogs?(search: LogSearch): Promise<number>
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
  updateWithPosts: true,
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
  updateAtOnce: true,
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
  computePerson: true,
  upsertPerson: true,
  insertLead: true,
  insertLeadReturning: true,
  mailAlone: true,
  updateLead: true,
  upsertLead: true,
  insertVault: true,
  vaultById: true,
  updateVault: true,
  insertPlace: true,
  placeById: true,
  updatePlace: true,
  insertMade: true,
  made: true,
  upsertMade: true,
  insertLogs: true,
  findLogs: true,
  countLogs: true,
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
  restarted(options?: Pick<ClientOptions, 'fetch' | 'retries'>): Promise<Orm>
  /** Connects with a model of the people that finds their keys so. */
  keyedBy(keyId: (row: Partial<Person>) => unknown): Promise<Orm>
}

const TYPES = { full: 'jsonb', text: 'text' }

/** The constraint holds for every row, also in a transaction: whatever is not sealed is never in the table. */
const LABEL = `label text not null check (label like 'eaas.2.%'), label_index text not null unique`

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
  create table pairs (id uuid primary key, mail jsonb not null, note jsonb, pair_index text);
  create table vaults (id uuid primary key, mail jsonb not null, mail_index text, note jsonb, row_seal jsonb);
  create table places (id uuid primary key, address jsonb, street_index text);
  create table tickets (id serial primary key, ${LABEL}, parent_id integer references tickets);
  create table drafts (id uuid primary key default gen_random_uuid(), ${LABEL});
  create table locals (id text primary key, ${LABEL});
  create table logs (
    id uuid primary key, fault jsonb not null, fault_start text, fault_parts text[], due jsonb, due_month text, amount jsonb,
    amount_step text, number integer
  );`

/** Makes the tables on PostgreSQL, and the models over a service in memory. */
export async function createScene(connect: (url: string, models: Models) => Promise<Orm>, format: UserFormat) {
  const database = await freshDatabase('orm')
  if (database.backend !== 'postgres') throw new Error('an ORM needs a PostgreSQL')
  const sql = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
  await sql.unsafe(tables(format))
  const service = createTestService()
  const eaas = createClient(service)
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const allOf = (client: Client) => ({
    ...modelsOf(client, keyId, format),
    logs: logModelOf(client, keyId),
  })
  const models = allOf(eaas)
  const orm = await connect(database.directUrl, models)
  const newKey = async () => (await eaas.keys.create({ name: randomUUID() })).id
  const opened: { close(): unknown }[] = [eaas, orm]
  const open = async (others: Models) => {
    const other = await connect(database.directUrl, others)
    opened.push(other)
    return other
  }
  const restarted: Scene['restarted'] = (options) => {
    const later = createClient({ ...service, ...options })
    opened.push(later)
    return open(allOf(later))
  }
  const keyedBy: Scene['keyedBy'] = (find) => open({ ...models, people: peopleModelOf(eaas, find) })
  const scene: Scene = { orm, sql, models, format, newKey, restarted, keyedBy }
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

export function logOf(log: Partial<Log> = {}): Log {
  return { id: randomUUID(), fault: 'Pump blocked', due: new Date('2026-02-10'), amount: 700, ...log }
}

/** A text in a pattern of `like`, in which it stands for itself. */
export function inPattern(text: string): string {
  return text.replaceAll(/[%_\\]/g, '\\$&')
}

export function leadOf(lead: Partial<Lead> = {}): Lead {
  return { id: randomUUID(), mail: 'ada@x.org', note: 'note', ...lead }
}

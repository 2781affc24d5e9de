// Tables for the tests of what only Drizzle builds, and a database of Drizzle that notes what it sends.
import { relations } from 'drizzle-orm'
import { customType, integer, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { encrypted } from '../../packages/drizzle/src/index.js'
import { createClient, text as sealedText } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { freshDatabase } from '../support/database/database.js'

export const users = pgTable('users', {
  id: uuid().primaryKey(),
  email: jsonb().$type<string>().notNull(),
  emailIndex: text('email_index'),
  city: text(),
})
export const notes = pgTable('notes', {
  noteId: integer('note_id').primaryKey(),
  userId: uuid('user_id'),
  body: text(),
  title: text(),
})
// Numbers have many spellings, and the column's type is the application's own.
const price = customType<{ data: string; driverData: string }>({ dataType: () => 'numeric' })
export const prices = pgTable('prices', { amount: price().primaryKey(), note: text() })
// No model: nothing of it is encrypted.
export const blocked = pgTable('blocked', { userId: uuid('user_id').primaryKey(), why: text() })
const schema = {
  users,
  notes,
  blocked,
  usersRelations: relations(users, ({ many }) => ({ notes: many(notes) })),
  notesRelations: relations(notes, ({ one }) => ({
    user: one(users, { fields: [notes.userId], references: [users.id] }),
  })),
}

export const ADA = '0b7e4a52-6a0c-4d5e-9a51-0d6cb6a6f0aa'
export const BEN = '1c8f5b63-7b1d-4e6f-8b62-1e7dc7b7a1bb'
export const SECRET = 'secret@example.org'

/** What reached the database. */
export type Sent = { query: string; params: unknown[] }

type Connected = Awaited<ReturnType<typeof connect>>

/** Connects for the tests of a suite, each of which finds the same rows, and nothing sent. */
export function useScene(sent: Sent[]): Connected {
  let scene: Connected | undefined
  beforeAll(async () => {
    scene = await connect(sent)
  })
  afterAll(() => scene?.close())
  beforeEach(() => scene?.seed())
  return new Proxy({} as Connected, { get: (_, name) => Reflect.get(scene ?? {}, name) as unknown })
}

/** Makes the function that runs what is refused, before anything but what is allowed reaches the database. */
export function refusedBefore(sent: readonly Sent[], isAllowed: (query: string) => boolean = () => false) {
  return async (run: () => unknown, message: RegExp): Promise<void> => {
    await expect((async () => await run())()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
    })
    expect(sent.filter(({ query }) => !isAllowed(query))).toEqual([])
  }
}

async function connect(sent: Sent[]) {
  const database = await freshDatabase('drizzle')
  if (database.backend !== 'postgres') throw new Error('Drizzle is tested on a PostgreSQL')
  const client = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
  await client.unsafe(`
    create table users (id uuid primary key, email jsonb not null, email_index text, city text);
    create table notes (note_id integer primary key, user_id uuid, body text, title text);
    create table prices (amount numeric primary key, note text);
    create table blocked (user_id uuid primary key, why text);`)
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const userModel = eaas.model({
    name: 'users',
    keyId,
    bind: ['id'],
    warn: false,
    fields: { email: sealedText({ index: 'emailIndex' }) },
  })
  const noteModel = eaas.model({
    name: 'notes',
    keyId,
    bind: ['noteId'],
    format: 'text',
    fields: { body: sealedText().nullable() },
  })
  const priceModel = eaas.model({
    name: 'prices',
    keyId,
    bind: ['amount'],
    format: 'text',
    fields: { note: sealedText().nullable() },
  })
  const logger = { logQuery: (query: string, params: unknown[]) => sent.push({ query, params }) }
  const raw = drizzle(client, { schema, logger })
  const pairs = [
    [users, userModel],
    [notes, noteModel],
    [prices, priceModel],
  ] as const
  const db = encrypted(raw, pairs)
  const seed = async () => {
    await client`truncate users, notes, blocked, prices`
    await db.insert(users).values([
      { id: ADA, email: 'ada@example.org', city: 'London' },
      { id: BEN, email: 'ben@example.org', city: 'Paris' },
    ])
    await db.insert(notes).values([
      { noteId: 7, userId: ADA, body: SECRET, title: 'one' },
      { noteId: 8, userId: BEN, body: 'two', title: 'two' },
    ])
    await db.insert(blocked).values({ userId: BEN })
    sent.length = 0
  }
  const close = async () => {
    await client.end()
    eaas.close()
    await database.drop()
  }
  return { client, raw, db, pairs, seed, close, eaas, keyId }
}

// Queries that only Drizzle builds, on the PostgreSQL of the run: subqueries, common table expressions, counts inside of queries. Each is
// compared with what Drizzle answers without encryption, and the parameters that reach the database hold no plaintext.
import { and, eq, exists, gt, inArray, notExists, notInArray, relations, type SQL, sql } from 'drizzle-orm'
import { alias, integer, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/sdk/src/drizzle.js'
import { createClient, text as sealedText } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { backend, freshDatabase } from '../support/database.js'

const users = pgTable('users', {
  id: uuid().primaryKey(),
  email: jsonb().$type<string>().notNull(),
  emailIndex: text('email_index'),
  city: text(),
})
const notes = pgTable('notes', {
  noteId: integer('note_id').primaryKey(),
  userId: uuid('user_id'),
  body: text(),
  title: text(),
})
// No model: nothing of it is encrypted.
const blocked = pgTable('blocked', { userId: uuid('user_id').primaryKey(), why: text() })
const schema = {
  users,
  notes,
  blocked,
  usersRelations: relations(users, ({ many }) => ({ notes: many(notes) })),
  notesRelations: relations(notes, ({ one }) => ({
    user: one(users, { fields: [notes.userId], references: [users.id] }),
  })),
}

const ADA = '0b7e4a52-6a0c-4d5e-9a51-0d6cb6a6f0aa'
const BEN = '1c8f5b63-7b1d-4e6f-8b62-1e7dc7b7a1bb'
const SECRET = 'secret@example.org'

type Sent = { query: string; params: unknown[] }

async function connect(sent: Sent[]) {
  const database = await freshDatabase('drizzle')
  if (database.backend !== 'postgres') throw new Error('Drizzle is tested on a PostgreSQL')
  const client = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
  await client.unsafe(`
    create table users (id uuid primary key, email jsonb not null, email_index text, city text);
    create table notes (note_id integer primary key, user_id uuid, body text, title text);
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
  const logger = { logQuery: (query: string, params: unknown[]) => sent.push({ query, params }) }
  const raw = drizzle(client, { schema, logger })
  const db = encrypted(raw, [
    [users, userModel],
    [notes, noteModel],
  ])
  const close = async () => {
    await client.end()
    eaas.close()
    await database.drop()
  }
  return { client, raw, db, close }
}

describe.runIf(backend() === 'postgres')('Drizzle', () => {
  const sent: Sent[] = []
  let scene: Awaited<ReturnType<typeof connect>>
  type Db = (typeof scene)['db']
  beforeAll(async () => {
    scene = await connect(sent)
  })
  afterAll(() => scene.close())
  beforeEach(async () => {
    const { client, db } = scene
    await client`truncate users, notes, blocked`
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
  })

  /** Runs what is refused, before the database is reached. */
  async function refused(run: () => unknown, message: RegExp): Promise<void> {
    await expect((async () => await run())()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(message),
    })
    expect(sent).toEqual([])
  }

  const blockedIds = (db: Db) => db.select({ id: blocked.userId }).from(blocked)
  const idsWhere = async (db: Db, condition: SQL | undefined) => {
    const rows = await db.select({ id: users.id }).from(users).where(condition).orderBy(users.id)
    return rows.map(({ id }) => id)
  }
  const usersNotes = (db: Db, title: string) =>
    db
      .select()
      .from(notes)
      .where(and(eq(notes.userId, users.id), eq(notes.title, title)))

  describe('a subquery in a condition', () => {
    const CONDITIONS: [title: string, condition: (db: Db) => SQL | undefined, found: string[]][] = [
      ['not in', (db) => notInArray(users.id, blockedIds(db)), [ADA]],
      ['in', (db) => inArray(users.id, blockedIds(db)), [BEN]],
      ['and', (db) => and(eq(users.city, 'Paris'), notInArray(users.id, blockedIds(db))), []],
      ['equal to', (db) => eq(users.id, blockedIds(db)), [BEN]],
      ['exists, of rows with encrypted columns', (db) => exists(db.select().from(notes)), [ADA, BEN]],
      ['exists, of this row', (db) => exists(usersNotes(db, 'one')), [ADA]],
      ['not exists', (db) => notExists(db.select().from(blocked).where(eq(blocked.userId, users.id))), [ADA]],
      [
        'within another one',
        (db) =>
          inArray(
            users.id,
            db
              .select({ id: notes.userId })
              .from(notes)
              .where(inArray(notes.userId, blockedIds(db))),
          ),
        [BEN],
      ],
      [
        'of the database that was passed',
        () => notInArray(users.id, scene.raw.select({ id: blocked.userId }).from(blocked)),
        [ADA],
      ],
      ['a count', (db) => gt(db.$count(blocked, eq(blocked.userId, users.id)), 0 as never), [BEN]],
    ]
    it.each(CONDITIONS)('stays one: %s', async (_, condition, found) => {
      expect(await idsWhere(scene.db, condition(scene.db))).toEqual(found)
      expect(sent).toHaveLength(1)
      expect(await idsWhere(scene.raw, condition(scene.raw))).toEqual(found)
    })
    it('searches by the index of an encrypted column', async () => {
      const { db } = scene
      const adas = db.select({ id: users.id }).from(users).where(eq(users.email, 'ada@example.org'))
      const found = await db.select().from(notes).where(inArray(notes.userId, adas))
      expect(found.map(({ body }) => body)).toEqual([SECRET])
      const other = alias(users, 'other')
      const isAdas = and(eq(other.id, notes.userId), eq(other.email, 'ada@example.org'))
      expect(
        await db
          .select()
          .from(notes)
          .where(exists(db.select().from(other).where(isAdas))),
      ).toEqual(found)
      expect(sent).toHaveLength(2)
      expect(JSON.stringify(sent)).not.toContain('ada@')
    })
    it('decides which rows are deleted', async () => {
      const { db } = scene
      const deleted = await db
        .delete(users)
        .where(notInArray(users.id, blockedIds(db)))
        .returning({ id: users.id })
      expect(deleted).toEqual([{ id: ADA }])
      expect((await db.select().from(users)).map(({ id }) => id)).toEqual([BEN])
    })
    it('decides which rows are changed', async () => {
      const { db } = scene
      await db
        .update(users)
        .set({ city: 'archived' })
        .where(notInArray(users.id, blockedIds(db)))
      expect(await db.select({ city: users.city }).from(users).orderBy(users.id)).toEqual([
        { city: 'archived' },
        { city: 'Paris' },
      ])
    })
    it('is one in relational queries, counts, joins and transactions', async () => {
      const { db } = scene
      const notBlocked = (inner: Pick<Db, 'select'> = db) => notInArray(users.id, blockedIds(inner as Db))
      expect(await db.query.users.findMany({ where: notBlocked(), columns: { id: true } })).toEqual([{ id: ADA }])
      expect(await db.$count(users, notBlocked())).toBe(1)
      expect(await db.select({ id: users.id }).from(users).innerJoin(blocked, notBlocked())).toEqual([{ id: ADA }])
      expect(
        await db.transaction((inner) => inner.delete(users).where(notBlocked(inner)).returning({ id: users.id })),
      ).toEqual([{ id: ADA }])
    })
    it('is refused where its value would be an envelope', async () => {
      const { db } = scene
      await refused(
        () =>
          db
            .select()
            .from(users)
            .where(notInArray(users.city, db.select().from(notes) as never)),
        /notes\.body is encrypted/,
      )
      await refused(
        () =>
          db
            .select()
            .from(users)
            .where(sql`${users.city} <> ${db.select().from(notes)}`),
        /notes\.body is encrypted/,
      )
    })
    it('is refused where it is no select', async () => {
      const { db } = scene
      const write = db.update(users).set({ city: 'x' }).returning()
      await refused(
        () => db.select().from(users).where(sql`${users.city} in ${write}`),
        /query inside of another one|of a write/,
      )
    })
  })
})

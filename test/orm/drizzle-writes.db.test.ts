// Which row a write of Drizzle is about, on the PostgreSQL of the run: what would seal a value for another row is refused, and nothing stored.
import { randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import {
  and,
  between,
  DrizzleQueryError,
  eq,
  gt,
  inArray,
  isNotNull,
  like,
  ne,
  not,
  or,
  type SQL,
  sql,
} from 'drizzle-orm'
import { int, mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import { integer, pgTable, varchar as pgVarchar, text, uuid, withReplicas } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import { describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/drizzle/src/index.js'
import { text as sealedText } from '../../packages/sdk/src/index.js'
import { backend } from '../support/database/database.js'
import { ADA, BEN, blocked, notes, prices, refusedBefore, SECRET, type Sent, users, useScene } from './drizzle-scene.js'

describe.runIf(backend() === 'postgres')('Drizzle', () => {
  const sent: Sent[] = []
  const scene = useScene(sent)
  const refused = refusedBefore(sent, (query) => query.startsWith('select'))
  type Db = (typeof scene)['db']

  const emails = async () => (await scene.db.select().from(users).orderBy(users.id)).map(({ email }) => email)

  describe('an update of an encrypted field', () => {
    const isAda = () => eq(users.id, ADA)
    const DOUBTFUL: [title: string, condition: () => SQL | undefined][] = [
      ['text that is joined to it', () => sql.join([isAda(), eq(users.city, 'Paris')], sql` or `)],
      ['text after it', () => sql`${isAda()} ${sql.raw('or true')}`],
      ['text beside it', () => and(isAda(), sql`true or true`)],
      ['raw text beside it', () => and(isAda(), sql.raw('city is not null or 1 = 1'))],
      ['text that closes a bracket', () => and(isAda(), or(eq(users.city, 'x'), sql`true) or (true`))],
      ['text in a value', () => and(isAda(), eq(users.city, sql`'x' or true`))],
      ['text in a parameter', () => and(isAda(), eq(users.city, sql.param(sql`'x' or true`) as never))],
      [
        'text that a type makes',
        () => and(isAda(), eq(users.city, sql.param('x', { mapToDriverValue: () => sql`'x' or true` }) as never)),
      ],
      ['text that is denied', () => and(isAda(), not(sql`false and false or true`))],
      [
        'text with its own operator',
        () => and(isAda(), sql`${users.city} = any(array['x']) or ${users.city} is not null`),
      ],
      [
        'a subquery beside it',
        () => and(isAda(), inArray(users.id, scene.db.select({ id: notes.userId }).from(notes))),
      ],
      ['a value that is written into the text', () => and(isAda(), eq(users.city, "x\\' or true --"))?.inlineParams()],
    ]
    const ABOUT_MANY: [title: string, condition: () => SQL | undefined][] = [
      ['one of several conditions', () => or(isAda(), eq(users.city, 'Paris'))],
      ['another row', () => not(isAda())],
      ['another operator', () => and(ne(users.id, ADA), gt(users.id, ADA))],
      ['a list', () => inArray(users.id, [ADA, BEN])],
      ['no row', () => eq(users.city, 'nowhere')],
    ]
    it.each([...DOUBTFUL, ...ABOUT_MANY])('is sealed to each row that it finds, with %s', async (_, condition) => {
      const { db, raw } = scene
      const found = await raw.select({ id: users.id }).from(users).where(condition())
      const ids = new Set(found.map(({ id }) => id))
      await db.update(users).set({ email: 'new' }).where(condition())
      const expected = [ADA, BEN].map((id) =>
        ids.has(id) ? 'new' : id === ADA ? 'ada@example.org' : 'ben@example.org',
      )
      expect(await emails()).toEqual(expected)
    })
    it('goes by the last of two conditions, as Drizzle does', async () => {
      const update = scene.db.update(users).set({ email: 'new' }).$dynamic()
      await update.where(isAda()).where(eq(users.city, 'Paris'))
      expect(await emails()).toEqual(['ada@example.org', 'new'])
    })
    it('counts the rows that it changes one by one, and returns each', async () => {
      const { db } = scene
      const update = () => db.update(users).set({ email: 'new' })
      expect((await update()).count).toBe(2)
      expect((await update().where(eq(users.city, 'nowhere'))).count).toBe(0)
      expect(await update().returning({ email: users.email })).toEqual([{ email: 'new' }, { email: 'new' }])
      expect(await update().where(eq(users.city, 'nowhere')).returning()).toEqual([])
      expect((await update().where(sql`false`)).count).toBe(0)
    })
    it('is refused with another table', async () => {
      await refused(
        () => scene.db.update(users).set({ email: 'new' }).from(notes).where(eq(notes.userId, users.id)),
        /from in an update of users whose rows must be read before/,
      )
    })
    it("reads Drizzle's own comparisons beside the id", async () => {
      const { db } = scene
      const condition = and(
        isAda(),
        or(eq(users.city, 'London'), like(users.city, 'P%'), inArray(users.city, [])),
        and(not(eq(users.city, 'x')), isNotNull(users.city), between(users.city, 'A', 'Z')),
        eq(users.email, 'ada@example.org'),
      )
      await db.update(users).set({ email: 'new' }).where(condition)
      expect(await emails()).toEqual(['new', 'ben@example.org'])
    })
    it('may use text where nothing is sealed', async () => {
      await scene.db.update(notes).set({ title: 'x', body: null }).where(sql`${notes.noteId} > 0 or true`)
      const rows = await scene.db.select({ noteId: notes.noteId, body: notes.body }).from(notes)
      expect(rows.map(({ body }) => body)).toEqual([null, null])
    })
  })

  it.each<[string, (db: Db) => PromiseLike<unknown>]>([
    ['an insert', (db) => db.insert(users).values({ id: ADA, email: SECRET })],
    ['an insert of many rows', (db) => db.insert(users).values([ADA, BEN].map((id) => ({ id, email: SECRET })))],
    ['an update of found rows', (db) => db.update(users).set({ email: SECRET, city: sql`(1 / 0)::text` })],
    [
      'a search',
      (db) =>
        db
          .select()
          .from(users)
          .where(and(eq(users.email, SECRET), sql`1 / 0 = 1`)),
    ],
    [
      'a search by several',
      (db) =>
        db
          .select()
          .from(users)
          .where(and(inArray(users.email, [SECRET]), sql`1 / 0 = 1`)),
    ],
  ])('%s that fails quotes envelopes and hashes in its error, and no plaintext', async (_, run) => {
    const error: unknown = await run(scene.db).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(DrizzleQueryError)
    expect(inspect(error, { depth: 12, showHidden: true, maxStringLength: null })).not.toContain(SECRET)
  })

  describe('an id in another spelling', () => {
    it('is stored, found and bound as PostgreSQL returns a uuid', async () => {
      const { db } = scene
      await db.update(users).set({ email: 'new' }).where(eq(users.id, ADA.toUpperCase()))
      const [inserted] = await db
        .insert(users)
        .values({ id: ADA.replace('0b', 'FF').toUpperCase(), email: 'ff' })
        .returning()
      await db
        .insert(users)
        .values({ id: BEN.toUpperCase(), email: 'x' })
        .onConflictDoUpdate({ target: users.id, set: { email: 'upserted' } })
      expect(inserted?.id).toBe(ADA.replace('0b', 'ff'))
      expect(await emails()).toEqual(['new', 'upserted', 'ff'])
    })
    const SPELLINGS: [title: string, run: (db: Db) => unknown][] = [
      [
        'a uuid without its dashes',
        (db) =>
          db
            .update(users)
            .set({ email: 'new' })
            .where(eq(users.id, ADA.replaceAll('-', ''))),
      ],
      ['a uuid in braces that is inserted', (db) => db.insert(users).values({ id: `{${ADA}}`, email: 'new' })],
      [
        'a number with zeros',
        (db) =>
          db
            .update(notes)
            .set({ body: 'new' })
            .where(eq(notes.noteId, '007' as never)),
      ],
      ['a number with a sign', (db) => db.insert(notes).values({ noteId: '+9' as never, body: 'new' })],
    ]
    it.each(SPELLINGS)('is refused: %s', async (_, run) => {
      await refused(() => run(scene.db), /must have the spelling in which the database returns it/)
    })
    it('is compared with the stored one where its type is unknown', async () => {
      const { db } = scene
      await db.insert(prices).values({ amount: '7', note: 'seven' })
      sent.length = 0
      await refused(
        () => db.update(prices).set({ note: 'new' }).where(eq(prices.amount, '7.0')),
        /must have the spelling/,
      )
      await db.update(prices).set({ note: 'new' }).where(eq(prices.amount, '7'))
      expect(await db.select().from(prices)).toEqual([{ amount: '7', note: 'new' }])
      const upsert = db.insert(prices).values({ amount: '7.0', note: 'x' })
      await upsert.onConflictDoUpdate({ target: prices.amount, set: { note: 'y' } })
      expect(await db.select().from(prices)).toEqual([{ amount: '7', note: 'y' }])
    })
  })

  it('takes no index that is written by hand', async () => {
    const { db } = scene
    const message = /users\.emailIndex cannot be set: it is the index of email/
    await refused(() => db.update(users).set({ emailIndex: 'x' }), message)
    await refused(() => db.update(users).set({ emailIndex: sql`lower(city)` }).where(eq(users.id, ADA)), message)
    const upsert = db.insert(users).values({ id: ADA, email: 'x' })
    await refused(() => upsert.onConflictDoUpdate({ target: users.id, set: { emailIndex: 'x' } }), message)
    await db
      .insert(users)
      .values({ id: ADA, email: 'upserted' })
      .onConflictDoUpdate({
        target: users.id,
        set: { email: sql`excluded.email`, emailIndex: sql`excluded.email_index` },
      })
    expect((await db.select().from(users).where(eq(users.email, 'upserted'))).map(({ id }) => id)).toEqual([ADA])
  })
  it('inserts nothing where the index of a row is there already, by the field or by its index', async () => {
    const { db, client } = scene
    await client`create unique index of_email on users (email_index)`
    for (const target of [users.email, [users.email], users.emailIndex]) {
      await db.insert(users).values({ id: randomUUID(), email: 'ada@example.org' }).onConflictDoNothing({ target })
    }
    expect(await emails()).toEqual(['ada@example.org', 'ben@example.org'])
    await client`drop index of_email`
  })
  it('divides an insert of more rows than one statement takes with what is encrypted', async () => {
    const { db, client } = scene
    const rows = (last: string | SQL = 'Rome') =>
      Array.from({ length: 17_000 }, (_, at) => {
        return {
          noteId: at + 10,
          userId: ADA,
          title: at === 16_999 ? last : 'x',
          ...(at % 4_000 === 0 && { body: `${at}` }),
        }
      })
    const count = async () => Number((await client`select count(*) from notes`)[0]?.count) - 2
    await db.transaction(async (tx) => {
      const failing = async () => tx.insert(notes).values(rows(sql`(1 / 0)::text`))
      await expect(failing()).rejects.toBeInstanceOf(DrizzleQueryError)
      await tx.delete(blocked)
    })
    expect(await count()).toBe(0)
    const returned = await db.insert(notes).values(rows()).returning({ noteId: notes.noteId, body: notes.body })
    expect(returned).toEqual(rows().map(({ noteId, body = null }) => ({ noteId, body })))
    const upsert = db.insert(notes).values(rows())
    const target = { target: notes.noteId, set: { body: sql`excluded.body` } }
    expect((await upsert.onConflictDoUpdate(target)).count).toBe(17_000)
    expect(await count()).toBe(17_000)
  })
  it('honours or refuses each call of an upsert whose row must be read before', async () => {
    const { raw, client, eaas, keyId } = scene
    await client`create table if not exists badges (id integer primary key generated always as identity, mail text, mail_index text unique, city text)`
    const badges = pgTable('badges', {
      id: integer().primaryKey().generatedAlwaysAsIdentity(),
      mail: text(),
      mailIndex: text('mail_index').unique(),
      city: text(),
    })
    const fields = { mail: sealedText({ index: 'mailIndex' }) }
    const model = eaas.model({ name: 'badges', keyId, bind: ['id'], format: 'text', fields })
    const db = encrypted(raw, [[badges, model]])
    const rows = () => db.select({ id: badges.id, city: badges.city }).from(badges)
    const target = { target: badges.mail, set: { city: sql`excluded.city` } }
    const upsert = (city: string) =>
      db
        .insert(badges)
        .overridingSystemValue()
        .values({ id: 900, mail: 'a', city } as never)
    await upsert('Rome').onConflictDoUpdate(target)
    expect(await rows()).toEqual([{ id: 900, city: 'Rome' }])
    await upsert('Oslo').onConflictDoUpdate({ ...target, setWhere: eq(badges.city, 'Paris') })
    expect(await rows()).toEqual([{ id: 900, city: 'Rome' }])
    await upsert('Oslo').onConflictDoUpdate({ ...target, setWhere: eq(badges.city, 'Rome') })
    expect(await rows()).toEqual([{ id: 900, city: 'Oslo' }])
    sent.length = 0
    const message = /of an upsert whose row must be read before/
    await refused(() => upsert('x').onConflictDoUpdate({ ...target, targetWhere: eq(badges.city, 'x') }), message)
    const twice = () => upsert('x').$dynamic().onConflictDoUpdate(target).$dynamic().onConflictDoNothing()
    await refused(twice, message)
    expect(await rows()).toEqual([{ id: 900, city: 'Oslo' }])
  })
  it('changes none of the rows that it finds where it cannot open what it returns, and says nothing else', async () => {
    const { raw, client, eaas, keyId } = scene
    await client`create table ports (id integer primary key, name text, pier text)`
    const ports = pgTable('ports', { id: integer().primaryKey(), name: text(), pier: text() })
    const fields = { name: sealedText(), pier: sealedText() }
    const model = eaas.model({ name: 'ports', keyId, bind: ['id'], format: 'text', fields })
    const db = encrypted(raw, [[ports, model]])
    await db.insert(ports).values({ id: 1, name: 'Ostia', pier: 'old' })
    const [before] = await client`update ports set pier = name returning *`
    const update = db.update(ports).set({ name: 'new' }).returning({ pier: ports.pier })
    const message = expect.not.stringContaining('written')
    await expect((async () => await update)()).rejects.toMatchObject({ code: 'E_DECRYPTION', message })
    expect(await client`select * from ports`).toEqual([before])
  })
  it('changes no other row where what values are bound to does not identify one', async () => {
    const { raw, client, eaas, keyId } = scene
    await client`create table if not exists towns (id integer primary key, city text not null, nick text)`
    const towns = pgTable('towns', { id: integer().primaryKey(), city: text().notNull(), nick: text() })
    const nick = sealedText().nullable()
    const model = eaas.model({ name: 'towns', keyId, bind: ['city'], format: 'text', fields: { nick } })
    const db = encrypted(raw, [[towns, model]])
    const nicks = async () => (await db.select().from(towns).orderBy(towns.id)).map((one) => one.nick)
    await db.insert(towns).values([1, 2].map((id) => ({ id, city: 'Rome', nick: `old ${id}` })))
    const update = () => db.update(towns).set({ nick: 'new' })
    const upsert = db.insert(towns).values({ id: 1, city: 'Oslo', nick: 'x' })
    const calls = [
      update().where(eq(towns.id, 1)),
      update().where(eq(towns.id, 1)).returning({ nick: towns.nick }),
      upsert.onConflictDoUpdate({ target: towns.id, set: { nick: 'new' } }),
    ]
    for (const call of calls) {
      await expect((async () => await call)()).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringMatching(/towns: 2 rows, and not 1, have the values of city by which/),
      })
    }
    expect(await nicks()).toEqual(['old 1', 'old 2'])
    await update().where(and(eq(towns.id, 1), eq(towns.city, 'Rome')))
    expect(await nicks()).toEqual(['new', 'old 2'])
    await update().where(gt(towns.id, 0))
    expect(await nicks()).toEqual(['new', 'new'])
  })
  it('names columns as `casing` of Drizzle does', async () => {
    const { client, eaas, keyId } = scene
    await client`create table if not exists guests
      (guest_id integer generated by default as identity primary key, mail_text text not null, mail_index text)`
    const guests = pgTable('guests', {
      guestId: integer().primaryKey().generatedByDefaultAsIdentity(),
      mailText: text().notNull(),
      mailIndex: text(),
    })
    const fields = { mailText: sealedText({ index: 'mailIndex' }) }
    const model = eaas.model({ name: 'guests', keyId, bind: ['guestId'], format: 'text', warn: false, fields })
    const db = encrypted(drizzle(client, { casing: 'snake_case' }), [[guests, model]])
    await db.insert(guests).values([{ mailText: 'one' }, { mailText: 'two' }])
    await db
      .insert(guests)
      .values({ guestId: 1, mailText: 'upserted' })
      .onConflictDoUpdate({ target: guests.guestId, set: { mailText: sql`excluded.mail_text` } })
    const mails = { id: guests.guestId, mail: guests.mailText }
    expect(await db.select(mails).from(guests).where(eq(guests.mailText, 'upserted'))).toEqual([
      { id: 1, mail: 'upserted' },
    ])
    await db.update(guests).set({ mailText: 'all' })
    expect((await db.select(mails).from(guests)).map(({ mail }) => mail)).toEqual(['all', 'all'])
    expect(() => db.execute("select guest_id from guests where mail_text = 'all'")).toThrow('names the table guests')
  })
  it('returns an encrypted field without what it is bound to', async () => {
    const { db } = scene
    const id = randomUUID()
    const email = { email: users.email }
    expect(await db.insert(users).values({ id, email: 'x' }).returning(email)).toEqual([{ email: 'x' }])
    expect(await db.update(users).set({ city: 'x' }).where(eq(users.id, id)).returning(email)).toEqual([{ email: 'x' }])
    expect(await db.delete(users).where(eq(users.id, id)).returning(email)).toEqual([{ email: 'x' }])
  })
  it('makes ids that are always the database\u2019s, and refuses at set-up what cannot be asked for', async () => {
    const { client, raw, eaas, keyId } = scene
    await client`create table if not exists always (id integer generated always as identity primary key, note text)`
    const always = pgTable('always', { id: integer().primaryKey().generatedAlwaysAsIdentity(), note: text() })
    const model = eaas.model({ name: 'always', keyId, bind: ['id'], format: 'text', fields: { note: sealedText() } })
    const db = encrypted(raw, [[always, model]])
    await db.insert(always).values([{ note: 'one' }, { note: 'two' }])
    expect(await db.select().from(always).orderBy(always.id)).toEqual([
      { id: 1, note: 'one' },
      { id: 2, note: 'two' },
    ])
    const short = pgTable('always', { id: integer().primaryKey(), note: pgVarchar({ length: 255 }) })
    expect(() => encrypted(raw, [[short, model]])).toThrow('"note" of the table of always is of the type varchar(255)')
    const counted = pgTable('always', { id: integer().primaryKey(), note: integer() })
    // @ts-expect-error the model's field is text
    expect(() => encrypted(raw, [[counted, model]])).toThrow('is of the type integer, which does not hold')
    const cast = pgTable('always', { id: integer().primaryKey(), note: text().$type<number>() })
    // @ts-expect-error the model's field is text
    encrypted(raw, [[cast, model]])
    const elsewhere = mysqlTable('always', { id: int().primaryKey().autoincrement(), note: varchar({ length: 255 }) })
    expect(() => encrypted(raw, [[elsewhere, model]])).toThrow('always: values cannot be bound to id')
  })

  describe('another way to the same table', () => {
    it('encrypts, or is refused', async () => {
      const { db, raw, pairs, client } = scene
      const again = pgTable('users', { id: uuid().primaryKey(), mail: text('email') })
      await refused(() => db.insert(again).values({ id: BEN, mail: 'plain' }), /defined a second time/)
      const replicated = encrypted(withReplicas(raw, [raw]), pairs)
      await client`truncate users`
      await replicated.$primary.insert(users).values({ id: ADA, email: 'plain' })
      expect(JSON.stringify(await client`select * from users`)).not.toContain('plain')
      expect(await emails()).toEqual(['plain'])
    })
    it('is no list', () => {
      expect(() => encrypted(scene.raw, { users } as never)).toThrow(/takes a list of tables/)
    })
  })
})

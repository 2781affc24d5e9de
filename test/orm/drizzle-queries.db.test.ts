// Queries that only Drizzle builds, on the PostgreSQL of the run: subqueries, common table expressions, counts inside of queries. Each is
// compared with what Drizzle answers without encryption, and the parameters that reach the database hold no plaintext.
import {
  and,
  count,
  eq,
  exists,
  gt,
  gte,
  ilike,
  inArray,
  like,
  notExists,
  notIlike,
  notInArray,
  type SQL,
  sql,
} from 'drizzle-orm'
import { alias, QueryBuilder } from 'drizzle-orm/pg-core'
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { ADA, BEN, blocked, notes, refusedBefore, SECRET, type Sent, users, useScene } from './drizzle-scene.js'

describe.runIf(backend() === 'postgres')('Drizzle', () => {
  const sent: Sent[] = []
  const scene = useScene(sent)
  const refused = refusedBefore(sent) // before the database is reached
  type Db = (typeof scene)['db']

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

  it.each<[string, SQL]>([
    ['like', like(users.email, 'a%')],
    ['gte', gte(users.email, 'a')],
    ['notIlike', notIlike(users.email, 'a%')],
    ['ilike', ilike(users.email, 'a%')],
  ])('names what is refused by its own word: %s', async (word, condition) => {
    await refused(() => scene.db.select().from(users).where(condition), new RegExp(`cannot compare it by "${word}"`))
  })

  describe('a prepared query', () => {
    it.each<[string, RegExp, (db: Db) => unknown]>([
      ['of rows', /prepare\(\) of such a query/, (db) => db.select().from(users).prepare('all')],
      ['of relations', /prepare\(\) of a relational query/, (db) => db.query.users.findMany().prepare('all')],
      ['of relations, as text', /toSQL\(\) of a relational query/, (db) => db.query.users.findFirst().toSQL()],
      [
        'with a placeholder for an encrypted field',
        /a placeholder for users\.email/,
        (db) =>
          db
            .select({ id: users.id })
            .from(users)
            .where(eq(users.email, sql.placeholder('email'))),
      ],
      [
        'of a write',
        /prepare\(\) of a write/,
        (db) => db.update(users).set({ city: 'x' }).where(eq(users.id, ADA)).prepare('all'),
      ],
    ])('is refused with a sentence: %s', async (_, message, run) => {
      await refused(() => run(scene.db), message)
    })
    it('may be one of what is not encrypted', async () => {
      const prepared = scene.db
        .select({ city: users.city })
        .from(users)
        .where(eq(users.id, sql.placeholder('id')))
        .prepare('cities')
      expect(await prepared.execute({ id: ADA })).toEqual([{ city: 'London' }])
    })
  })

  describe('a field without the column that it is bound to', () => {
    const other = alias(users, 'other')
    it.each<[string, (db: Db) => unknown, unknown]>([
      ['of an alias', (db) => db.select({ email: other.email }).from(other), { email: 'ada@example.org' }],
      [
        'beside the id of another row',
        (db) => db.select({ id: users.id, email: other.email }).from(users).innerJoin(other, eq(users.id, other.id)),
        { id: ADA, email: 'ada@example.org' },
      ],
      [
        'in an object',
        (db) =>
          db
            .select({ id: users.id, note: { body: notes.body } })
            .from(users)
            .leftJoin(notes, eq(users.id, notes.userId)),
        { id: ADA, note: { body: SECRET } },
      ],
      [
        'of a subquery',
        (db) => {
          const all = db.select().from(users).as('all')
          return db.select({ email: all.email }).from(all)
        },
        { email: 'ada@example.org' },
      ],
      [
        'of a relational query',
        async (db) => [await db.query.users.findFirst({ columns: { email: true } })],
        { email: 'ada@example.org' },
      ],
      [
        'of a relational query that leaves it out',
        (db) => db.query.users.findMany({ columns: { id: false, emailIndex: false } }),
        { email: 'ada@example.org', city: 'London' },
      ],
      [
        'of a relation',
        (db) =>
          db.query.users.findMany({
            columns: { city: true },
            with: { notes: { columns: { body: true, title: false } } },
          }),
        { city: 'London', notes: [{ body: SECRET }] },
      ],
    ])('is opened, and nothing else returned: %s', async (_, run, expected) => {
      const query = run(scene.db) as PromiseLike<unknown[]>
      expect((await query)[0]).toEqual(expected)
      expect((await query)[0]).toEqual(expected)
    })
    it('is refused where nothing can be added', async () => {
      const { db } = scene
      const emails = () => db.select({ email: users.email }).from(users)
      const all = emails().as('all')
      const message = /users\.email cannot be selected without id/
      await refused(() => emails().unionAll(emails()), message)
      await refused(() => db.select({ email: all.email }).from(all), message)
    })
    it('may be what a condition asks for, or left out', async () => {
      const { db } = scene
      const bodies = db.select({ body: notes.body }).from(notes).where(eq(notes.userId, users.id))
      expect(await db.select({ city: users.city }).from(users).where(exists(bodies))).toHaveLength(2)
      const [first] = await db.query.users.findMany({
        columns: { city: true },
        with: { notes: { columns: { body: false, noteId: false } } },
      })
      expect(first).toEqual({ city: 'London', notes: [{ userId: ADA, title: 'one' }] })
      expect(await db.query.users.findFirst({ columns: {}, with: { notes: true } })).toMatchObject({
        notes: [{ body: SECRET }],
      })
    })
  })

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
    it('of a table without a model, by one with a model', async () => {
      const { db } = scene
      const bens = db.select({ id: users.id }).from(users).where(eq(users.email, 'ben@example.org'))
      expect(await db.delete(blocked).where(inArray(blocked.userId, bens)).returning({ id: blocked.userId })).toEqual([
        { id: BEN },
      ])
    })
    it('is one in relational queries, counts, joins and transactions', async () => {
      const { db } = scene
      const notBlocked = (inner: Pick<Db, 'select'> = db) => notInArray(users.id, blockedIds(inner as Db))
      expect(await db.query.users.findMany({ where: notBlocked(), columns: { id: true } })).toEqual([{ id: ADA }])
      const areBlocked = await db.query.users.findMany({
        where: (user, { exists: any, eq: equals }) =>
          any(db.select().from(blocked).where(equals(blocked.userId, user.id))),
        columns: { id: true },
      })
      expect(areBlocked).toEqual([{ id: BEN }])
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
  describe('plaintext that is searched for', () => {
    const qb = new QueryBuilder()
    const search = () => eq(users.email, SECRET)
    const adas = (builder: Pick<QueryBuilder, 'select'> = qb) =>
      builder.select({ id: users.id, email: users.email }).from(users).where(search())
    const QUERIES: [title: string, run: (db: Db) => unknown][] = [
      [
        'a common table expression of a function',
        (db) => {
          const cte = db.$with('x').as((builder) => adas(builder))
          return db.with(cte).select().from(cte)
        },
      ],
      [
        'a common table expression of another builder',
        (db) => {
          const cte = db.$with('x').as(adas())
          return db.with(cte).select().from(cte)
        },
      ],
      ['one of an update', (db) => db.with(db.$with('x').as(adas())).update(users).set({ city: 'x' })],
      ['a subquery of another builder', (db) => db.select().from(adas().as('x'))],
      [
        'a joined one',
        (db) => {
          const other = adas().as('x')
          return db.select({ id: users.id }).from(users).innerJoin(other, eq(other.id, users.id))
        },
      ],
      [
        'an expression that a subquery selects',
        (db) => {
          const other = db
            .select({ id: users.id, is: sql`${users.email} = ${SECRET}`.as('is') })
            .from(users)
            .as('x')
          return db.select({ id: other.id }).from(other).where(eq(other.is, true))
        },
      ],
      [
        'one without a name',
        (db) => {
          const other = qb
            .select({ id: users.id, is: sql`${users.email} = ${SECRET}` })
            .from(users)
            .as('x')
          return db.select({ id: other.id }).from(other)
        },
      ],
      [
        'a value that is set',
        (db) =>
          db
            .update(users)
            .set({ city: sql`case when ${users.email} = ${SECRET} then 'x' end` })
            .where(eq(users.id, ADA)),
      ],
      [
        'a condition on a row that conflicts',
        (db) =>
          db
            .insert(users)
            .values({ id: ADA, email: 'x' })
            .onConflictDoUpdate({ target: users.id, set: { city: sql`${users.email}` } }),
      ],
      [
        'a table without a model',
        (db) =>
          db
            .update(blocked)
            .set({ why: sql`${users.email}` })
            .from(users)
            .where(eq(users.id, blocked.userId)),
      ],
      ['rows of a table without a model', (db) => db.insert(blocked).values({ userId: ADA, why: sql`(${adas()})` })],
      [
        'what is inserted from a select',
        (db) => db.insert(blocked).select(db.select({ userId: users.id, why: users.email }).from(users) as never),
      ],
      ['a count that is selected', (db) => db.select({ n: db.$count(users, search()) }).from(users)],
      ['a statement', (db) => db.execute(sql`select 1 where exists ${adas()}`)],
    ]
    it.each(QUERIES)('is refused in %s', async (_, run) => {
      await refused(() => run(scene.db), /users\.email|the table users/)
    })
    it('is replaced by its index in subqueries of another builder', async () => {
      const { db } = scene
      const isAda = () =>
        sql<boolean>`exists (${qb.select({ id: users.id }).from(users).where(eq(users.email, 'ada@example.org'))})`
      await db.select({ id: notes.noteId, is: isAda() }).from(notes).orderBy(isAda())
      await db.update(notes).set({ title: sql`case when ${isAda()} then 'x' else 'y' end` })
      await db
        .update(blocked)
        .set({ why: 'x' })
        .from(users)
        .where(and(eq(users.id, blocked.userId), eq(users.email, 'ben@example.org')))
      expect(JSON.stringify(sent)).not.toMatch(/ada@|ben@/)
      expect(await db.select({ title: notes.title }).from(notes)).toEqual([{ title: 'x' }, { title: 'x' }])
      expect(await db.select({ why: blocked.why }).from(blocked)).toEqual([{ why: 'x' }])
    })
  })

  describe('what the database cannot do', () => {
    const QUERIES: [title: string, run: (db: Db) => unknown, message: RegExp][] = [
      [
        'distinct on',
        (db) => db.selectDistinctOn([users.email], { id: users.id }).from(users),
        /users\.email is encrypted: the database cannot sort/,
      ],
      [
        'nested distinct rows',
        (db) => db.selectDistinct({ user: { id: users.id, email: users.email } }).from(users),
        /users\.email is encrypted/,
      ],
      [
        'an expression on the right of a union',
        (db) => {
          const right = db.select({ id: notes.userId, x: sql<string>`${notes.body}` }).from(notes)
          return db
            .select({ id: users.id, x: users.city })
            .from(users)
            .unionAll(right as never)
        },
        /notes\.body is encrypted/,
      ],
      [
        'other columns on the right of a union',
        (db) => {
          const right = db.select({ id: notes.userId, x: notes.body }).from(notes)
          return db
            .select({ id: users.id, x: users.city })
            .from(users)
            .unionAll(right as never)
        },
        /a union of other columns/,
      ],
      [
        'a union that compares rows',
        (db) => db.select().from(users).union(db.select().from(users)),
        /a union without `all`/,
      ],
    ]
    it.each(QUERIES)('is refused: %s', async (_, run, message) => {
      await refused(() => run(scene.db), message)
    })
    it('is not refused in a union of the same columns', async () => {
      const { db } = scene
      const both = await db
        .select()
        .from(users)
        .where(eq(users.id, ADA))
        .unionAll(db.select().from(users).where(eq(users.email, 'ben@example.org')))
      expect(both.map(({ email }) => email)).toEqual(['ada@example.org', 'ben@example.org'])
    })
  })

  it('opens two tables in one subquery', async () => {
    const { db } = scene
    const both = (builder: Pick<QueryBuilder, 'select'> = db as never) =>
      builder
        .select({ id: users.id, email: users.email, noteId: notes.noteId, body: notes.body })
        .from(users)
        .innerJoin(notes, eq(notes.userId, users.id))
    const sub = both().as('sub')
    const found = { id: ADA, email: 'ada@example.org', noteId: 7, body: SECRET }
    expect(await db.select().from(sub).where(eq(sub.id, ADA))).toEqual([found])
    const cte = db.$with('cte').as((builder) => both(builder))
    expect(await db.with(cte).select().from(cte).where(eq(cte.noteId, 7))).toEqual([found])
  })
  it('counts in columns, and beside them', async () => {
    const { db, raw } = scene
    const query = (one: Db) =>
      one
        .select({ id: users.id, n: one.$count(notes, eq(notes.userId, users.id)) })
        .from(users)
        .orderBy(users.id)
    expect(await query(db)).toEqual(await query(raw))
    expect(await db.select({ n: count() }).from(users)).toEqual([{ n: 2 }])
  })
  it('fails once where rows of several tables do not open', async () => {
    const { db, client } = scene
    const unhandled: unknown[] = []
    const note = (error: unknown) => unhandled.push(error)
    process.on('unhandledRejection', note)
    try {
      await client`update users set email = jsonb_set(email, '{ciphertext}', '"AAAA"')`
      await client`update notes set body = left(body, 60)`
      await expect(db.query.notes.findMany({ with: { user: { with: { notes: true } } } })).rejects.toThrow()
      await new Promise((resolve) => setTimeout(resolve, 20))
    } finally {
      process.off('unhandledRejection', note)
    }
    expect(unhandled).toEqual([])
  })
})

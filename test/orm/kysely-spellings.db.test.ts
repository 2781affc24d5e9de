// Ids in another spelling than the database returns: Kysely does not know the types of columns, so the adapter asks PostgreSQL. Of other
// databases it reads the row before an update; they are stood in for by a dialect of PostgreSQL that does not say that it is one.
import { type Dialect, Kysely, MssqlAdapter, type PostgresAdapter, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/kysely/src/index.js'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { backend, freshDatabase } from '../support/database/database.js'

interface Row {
  id: string | number | bigint
  note: string | null
}
const TABLES = ['uuids', 'numbers', 'texts', 'padded', 'names', 'enums', 'days', 'amounts', 'domains'] as const
type Database = Record<(typeof TABLES)[number], Row> & { pairs: Row & { part: number } }

const UUID = '0d6f7e0a-1b2c-4d3e-8f90-a1b2c3d4e5f6'
const SPELLINGS = [UUID, UUID.toUpperCase(), `{${UUID}}`, UUID.replaceAll('-', '')]

describe.runIf(backend() === 'postgres')('an id in another spelling', () => {
  let pool: pg.Pool
  let eaas: Client
  let db: Kysely<Database>
  let other: Kysely<Database>
  let sqlServer: Kysely<Database>
  let close: () => Promise<void>

  beforeAll(async () => {
    const database = await freshDatabase('spellings')
    if (database.backend !== 'postgres') throw new Error('Kysely needs a PostgreSQL')
    pool = new pg.Pool({ connectionString: database.directUrl, max: 2 })
    await pool.query(`
      create collation any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create type kind as enum ('A', 'a');
      create domain person as uuid;
      create table uuids (id uuid primary key, note text);
      create table numbers (id bigint primary key, note text);
      create table texts (id varchar(40) primary key, note text);
      create table padded (id character(5) primary key, note text);
      create table names (id text collate any_case primary key, note text);
      create table enums (id kind primary key, note text);
      create table days (id date primary key, note text);
      create table amounts (id numeric(10, 2) primary key, note text);
      create table domains (id person primary key, note text);
      create table pairs (id uuid, part int, note text, primary key (id, part));`)
    eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'notes' })
    const modelOf = (name: string, bind: string[]) =>
      eaas.model({ name, keyId, bind, format: 'text', fields: { note: text().nullable() } })
    const models = Object.fromEntries(TABLES.map((table) => [table, modelOf(table, ['id'])]))
    const open = (dialect: Dialect) =>
      new Kysely<Database>({
        dialect: encrypted(dialect, { ...models, pairs: modelOf('pairs', ['id', 'part']) } as never),
      })
    const dialect = new PostgresDialect({ pool })
    db = open(dialect)
    const openAs = (adapter: object) =>
      open({
        createAdapter: () => adapter as PostgresAdapter,
        createDriver: () => dialect.createDriver(),
        createQueryCompiler: () => dialect.createQueryCompiler(),
        createIntrospector: (database) => dialect.createIntrospector(database),
      })
    other = openAs({ supportsReturning: true })
    sqlServer = openAs(new MssqlAdapter())
    close = async () => {
      await db.destroy()
      eaas.close()
      await database.drop()
    }
  })
  beforeEach(() => pool.query(`truncate ${[...TABLES, 'pairs'].join(', ')}`))
  afterAll(() => close())

  type Table = (typeof TABLES)[number]
  const insert = (table: Table, row: Row, on = db) => on.insertInto(table).values(row).execute()
  const update = (table: Table, id: Row['id'], note: string, on = db) =>
    on.updateTable(table).set({ note }).where('id', '=', id).execute()
  const upsert = (table: Table, row: Row, on = db) =>
    on
      .insertInto(table)
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ note: row.note }))
      .execute()
  const upsertAll = (table: Table, rows: Row[], on = db) =>
    on
      .insertInto(table)
      .values(rows)
      .onConflict((conflict) => conflict.column('id').doUpdateSet((eb) => ({ note: eb.ref('excluded.note') })))
      .execute()
  const all = (table: Table) => db.selectFrom(table).selectAll().orderBy('id').execute()
  const refused = (call: Promise<unknown>, message = /must have the spelling in which the database returns it/) =>
    expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })

  it.each(SPELLINGS)('is sealed to the UUID that PostgreSQL returns: %s', async (id) => {
    for (const table of ['uuids', 'domains'] as const) {
      await insert(table, { id, note: 'first' })
      expect(await all(table)).toEqual([{ id: UUID, note: 'first' }])
      await update(table, id, 'second')
      expect(await all(table)).toEqual([{ id: UUID, note: 'second' }])
      await upsert(table, { id, note: 'third' })
      expect(await all(table)).toEqual([{ id: UUID, note: 'third' }])
      await upsertAll(table, [{ id, note: 'fourth' }])
      expect(await all(table)).toEqual([{ id: UUID, note: 'fourth' }])
    }
  })
  it.each(['007', '+7', ' 7', '7', 7, 7n])('is sealed to the number that PostgreSQL returns: %o', async (id) => {
    await insert('numbers', { id, note: 'first' })
    await update('numbers', id, 'second')
    expect(await all('numbers')).toEqual([{ id: '7', note: 'second' }])
    await upsert('numbers', { id, note: 'third' })
    expect(await all('numbers')).toEqual([{ id: '7', note: 'third' }])
  })
  it('is left as it is where the column is text', async () => {
    for (const id of ['007', UUID.toUpperCase(), ' Ada', 'Ada']) {
      await insert('texts', { id, note: 'first' })
      await update('texts', id, `second ${id}`)
    }
    expect((await all('texts')).map(({ id, note }) => note === `second ${String(id)}`)).toEqual(Array(4).fill(true))
    await insert('enums', { id: 'A', note: 'first' })
    await update('enums', 'A', 'second')
    expect(await all('enums')).toEqual([{ id: 'A', note: 'second' }])
  })
  it.each<[Table, Row['id']]>([
    ['padded', 'abc'],
    ['texts', 'cut '],
    ['days', '2026-01-31'],
    ['amounts', 7],
    ['numbers', 'seven'],
    ['uuids', 'no uuid'],
  ])('is refused where PostgreSQL may return something else: %s, %o', async (table, id) => {
    await refused(insert(table, { id, note: 'x' }))
    await refused(upsertAll(table, [{ id, note: 'x' }]))
    expect(await all(table)).toEqual([])
  })
  it('is read before an update where the column ignores case, and refused in an upsert', async () => {
    await insert('names', { id: 'Ada', note: 'first' })
    await update('names', 'ADA', 'second')
    await refused(upsert('names', { id: 'ada', note: 'x' }))
    await refused(
      upsertAll('names', [
        { id: 'Ben', note: 'x' },
        { id: 'aDA', note: 'x' },
      ]),
    )
    await upsertAll('names', [
      { id: 'Ada', note: 'third' },
      { id: 'Ben', note: 'x' },
    ])
    expect(await all('names')).toEqual([
      { id: 'Ada', note: 'third' },
      { id: 'Ben', note: 'x' },
    ])
    await update('names', 'nobody', 'x')
  })
  it('is one of several columns', async () => {
    const id = UUID.toUpperCase()
    await db.insertInto('pairs').values({ id, part: 1, note: 'first' }).execute()
    await db
      .updateTable('pairs as p')
      .set({ note: 'second' })
      .where('p.id', '=', id)
      .where('p.part', '=', '01' as never)
      .execute()
    expect(await db.selectFrom('pairs').selectAll().execute()).toEqual([{ id: UUID, part: 1, note: 'second' }])
  })
  it('is known in a transaction, in a schema, and for a table that was made later', async () => {
    await pool.query(`create schema if not exists app; create table app.later (id uuid primary key, note text)`)
    const { id: keyId } = await eaas.keys.create({ name: 'later' })
    const model = eaas.model({ name: 'later', keyId, bind: ['id'], format: 'text', fields: { note: text() } })
    const later = new Kysely<{ later: Row }>({ dialect: encrypted(new PostgresDialect({ pool }), { later: model }) })
    await later.transaction().execute(async (inner) => {
      await inner.withSchema('app').insertInto('later').values({ id: UUID.toUpperCase(), note: 'x' }).execute()
    })
    expect(await later.withSchema('app').selectFrom('later').selectAll().execute()).toEqual([{ id: UUID, note: 'x' }])
  })

  describe('on a database whose types are not known', () => {
    it.each([UUID.toUpperCase(), '007', '7.0', ' Ada'])('is refused in an insert: %s', async (id) => {
      await refused(insert('texts', { id, note: 'x' }, other))
      expect(await all('texts')).toEqual([])
    })
    it('is read before an update, and refused in an upsert', async () => {
      for (const [table, id, spelled] of [
        ['uuids', UUID, UUID.toUpperCase()],
        ['numbers', '7', '007'],
        ['names', 'Ada', 'ADA'],
      ] as const) {
        await insert(table, { id, note: 'first' }, other)
        await update(table, spelled, 'second', other)
        expect(await all(table)).toEqual([{ id, note: 'second' }])
        await refused(upsert(table, { id: spelled, note: 'x' }, other))
        await upsert(table, { id, note: 'third' }, other)
        expect(await all(table)).toEqual([{ id, note: 'third' }])
      }
    })
    it('is a UUID in upper case on SQL Server', async () => {
      await refused(insert('texts', { id: UUID, note: 'x' }, sqlServer))
      await insert('texts', { id: UUID.toUpperCase(), note: 'x' }, sqlServer)
      expect(await all('texts')).toEqual([{ id: UUID.toUpperCase(), note: 'x' }])
    })
    it('may be of one of several rows that it finds', async () => {
      await pool.query(`insert into names values ('Ada', null)`)
      await pool.query('alter table names drop constraint names_pkey')
      await pool.query(`insert into names values ('ada', null)`)
      await refused(update('names', 'ADA', 'x', other))
      await pool.query(`truncate names; alter table names add primary key (id)`)
    })
  })
})

import { getTableColumns, sql } from 'drizzle-orm'
import * as mysql from 'drizzle-orm/mysql-core'
import * as pg from 'drizzle-orm/pg-core'
import * as sqlite from 'drizzle-orm/sqlite-core'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { bytes, createClient, date, json, number, text } from '../../sdk/src/index.js'
import { createTestService } from '../../sdk/src/testing.js'
import { encrypted, encryptedColumns } from './index.js'

const service = createTestService()
const eaas = createClient(service)
const { id: keyId } = await eaas.keys.create({ name: 'users' })
const fields = {
  email: text({ index: 'emailIndex' }),
  nick: text().nullable(),
  born: date().optional(),
  score: number(),
  photo: bytes().nullable(),
  prefs: json<{ theme: string }>(),
}
const modelOf = <T extends 'full' | 'text' | 'compact'>(format: T) =>
  eaas.model({ name: 'users', keyId, bind: ['id'], warn: false, format, fields })
const full = modelOf('full')
const inText = modelOf('text')
const compact = modelOf('compact')
const parts = eaas.model({
  name: 'logs',
  keyId,
  bind: ['id'],
  sealed: 'row',
  format: 'text',
  warn: false,
  fields: { fault: text() },
  indexes: { faultParts: { ngram: 'fault', length: 3, bits: 6, acceptLeakage: true } },
})

/** The columns by their types in SQL, with an exclamation mark where they are not null. */
function typesOf(table: Parameters<typeof getTableColumns>[0]) {
  const columns = Object.entries(getTableColumns(table)).map(([name, column]) => {
    return [name, `${column.getSQLType()}${column.notNull ? '!' : ''}`]
  })
  return Object.fromEntries(columns)
}

describe('the columns of a model', () => {
  const users = pg.pgTable('users', (t) => ({
    id: t.uuid().primaryKey(),
    city: t.text(),
    ...encryptedColumns(t, full),
  }))

  it('are JSON on PostgreSQL, and text where the model has that format', () => {
    const own = { email: 'jsonb!', nick: 'jsonb', born: 'jsonb', score: 'jsonb!', photo: 'jsonb', prefs: 'jsonb!' }
    expect(typesOf(users)).toEqual({ id: 'uuid!', city: 'text', ...own, emailIndex: 'text' })
    const texts = pg.pgTable('users', { id: pg.uuid().primaryKey(), ...encryptedColumns(pg, inText) })
    expect(typesOf(texts)).toMatchObject({ email: 'text!', score: 'text!', emailIndex: 'text' })
    const packed = pg.pgTable('users', { id: pg.uuid().primaryKey(), ...encryptedColumns(pg, compact) })
    expect(typesOf(packed)).toMatchObject({ email: 'jsonb!', envelope: 'jsonb' })
    const logs = pg.pgTable('logs', { id: pg.uuid().primaryKey(), ...encryptedColumns(pg, parts) })
    expect(typesOf(logs)).toEqual({ id: 'uuid!', fault: 'text!', faultParts: 'text[]', row_seal: 'text' })
  })

  it('have those of MySQL and SQLite, which have no lists', () => {
    const id = { id: mysql.varchar({ length: 36 }).primaryKey() }
    const ofMysql = mysql.mysqlTable('users', (t) => ({ ...id, ...encryptedColumns(t, full) }))
    expect(typesOf(ofMysql)).toMatchObject({ email: 'json!', emailIndex: 'varchar(64)' })
    expect(typesOf(mysql.mysqlTable('users', { ...id, ...encryptedColumns(mysql, inText) }))).toMatchObject({
      email: 'longtext!',
    })
    const ofSqlite = sqlite.sqliteTable('users', (t) => ({ id: t.text().primaryKey(), ...encryptedColumns(t, full) }))
    expect(typesOf(ofSqlite)).toMatchObject({ email: 'text!', emailIndex: 'text' })
    expect(getTableColumns(ofSqlite).email.dataType).toBe('json')
    for (const builders of [mysql, sqlite] as unknown as (typeof pg)[]) {
      expect(() => encryptedColumns(builders, parts)).toThrow('logs.faultParts: an index of parts is a list of texts')
    }
    expect(() => encryptedColumns({} as typeof pg, full)).toThrow('takes the builders of columns, and a model')
    expectTypeOf<(typeof ofMysql.$inferSelect)['born']>().toEqualTypeOf<Date | null>()
    expectTypeOf<(typeof ofSqlite.$inferSelect)['score']>().toEqualTypeOf<number>()
  })

  it('have the types that the application sees, without those that are filled for it', () => {
    expectTypeOf(users.$inferSelect).toEqualTypeOf<{
      id: string
      city: string | null
      email: string
      nick: string | null
      born: Date | null
      score: number
      photo: Uint8Array<ArrayBuffer> | null
      prefs: { theme: string }
      emailIndex: string | null
    }>()
    const row = { id: 'x', email: 'ada@example.org', score: 7, prefs: { theme: 'dark' } }
    expectTypeOf(row).toExtend<typeof users.$inferInsert>()
    expectTypeOf<Omit<typeof row, 'id'>>().not.toExtend<typeof users.$inferInsert>()
    expectTypeOf<Omit<typeof row, 'email'>>().not.toExtend<typeof users.$inferInsert>()
  })

  it('take what Drizzle adds, and fit their model', () => {
    const { emailIndex, ...others } = encryptedColumns(pg, full)
    const unique = pg.pgTable('users', { id: pg.uuid().primaryKey(), ...others, emailIndex: emailIndex.unique() })
    expect(getTableColumns(unique).emailIndex.isUnique).toBe(true)
    for (const table of [users, unique]) expect(() => encrypted({}, [[table, full]])).not.toThrow()
  })
})

describe('columns that are written by hand', () => {
  const model = eaas.model({ name: 'notes', keyId, bind: ['id'], fields: { note: text({ index: 'noteIndex' }) } })
  const index = { noteIndex: pg.text() }
  const id = { id: pg.integer().primaryKey() }

  it('are refused by the compiler, with a sentence, and at set-up', () => {
    const asText = pg.pgTable('notes', { ...id, ...index, note: pg.text() })
    // @ts-expect-error the column note is text, and the model stores JSON
    expect(() => encrypted({}, [[asText, model]])).toThrow('"note" of the table of notes is of the type text')
    const asNumber = pg.pgTable('notes', { ...id, ...index, note: pg.jsonb().$type<number>() })
    // @ts-expect-error the column note has another type than the field of the model
    expect(() => encrypted({}, [[asNumber, model]])).not.toThrow()
    const lacking = pg.pgTable('notes', { ...id, note: pg.jsonb().$type<string>() })
    // @ts-expect-error the table has no column noteIndex, which the model fills
    expect(() => encrypted({}, [[lacking, model]])).toThrow('has no column "noteIndex"')
  })

  it('fit a model that seals some members of a JSON column, as those that are made do', () => {
    const places = eaas.model({ name: 'places', keyId, bind: ['id'], fields: { 'address.street': text() } })
    const address = pg.jsonb().$type<{ street: string; city: string }>().notNull()
    expect(() => encrypted({}, [[pg.pgTable('places', { ...id, address }), places]])).not.toThrow()
    const asNumber = pg.jsonb().$type<{ street: number; city: string }>().notNull()
    // @ts-expect-error the column address has another type than the field of the model
    encrypted({}, [[pg.pgTable('places', { ...id, address: asNumber }), places]])
    const made = pg.pgTable('places', { ...id, ...encryptedColumns(pg, places) })
    expect(() => encrypted({}, [[made, places]])).not.toThrow()
    expectTypeOf({ id: 7, address: { street: 'x', city: 'y' } }).toExtend<typeof made.$inferInsert>()
    expectTypeOf({ id: 7, address: { street: 7, city: 'y' } }).not.toExtend<typeof made.$inferInsert>()
    expectTypeOf<(typeof made.$inferSelect)['address']['street']>().toEqualTypeOf<string>()
    expectTypeOf<(typeof made.$inferSelect)['address']['city']>().toBeAny()
  })

  it.each([
    ['varchar(32)', { noteIndex: pg.varchar({ length: 32 }) }],
    ['text[]', { noteIndex: pg.text().array() }],
  ])('are refused where an index is %s', (type, other) => {
    const table = pg.pgTable('notes', { ...id, ...other, note: pg.jsonb().$type<string>() })
    expect(() => encrypted({}, [[table, model]] as never)).toThrow(
      `"noteIndex" of the table of notes is of the type ${type}`,
    )
  })

  it('are refused where the database fills them, in plaintext', () => {
    const tableOf = (note: object) => pg.pgTable('notes', { ...id, ...index, note } as never)
    const note = () => pg.jsonb().$type<string>()
    for (const filled of [
      note().default('none'),
      note().default(sql`'"none"'`),
      note().generatedAlwaysAs(sql`'"x"'`),
    ]) {
      expect(() => encrypted({}, [[tableOf(filled), model]] as never)).toThrow(
        'the table of notes has a column "note" that the database fills',
      )
    }
    for (const left of [note().default(null as never), note().$defaultFn(() => 'none')]) {
      expect(() => encrypted({}, [[tableOf(left), model]] as never)).not.toThrow()
    }
  })

  it('need ids that an insert must have', () => {
    const note = { note: pg.jsonb().$type<string>().notNull(), ...index }
    expect(() => encrypted({}, [[pg.pgTable('notes', { id: pg.integer(), ...note }), model]])).toThrow(
      'notes: values cannot be bound to id: it may be null',
    )
    expect(() => encrypted({}, [[pg.pgTable('notes', { id: pg.integer().notNull(), ...note }), model]])).not.toThrow()
    expect(() => encrypted({}, [[pg.pgTable('notes', { id: pg.serial(), ...note }), model]])).not.toThrow()
  })
})

describe('a table that encrypted() does not get', () => {
  const dialects = [
    ['PostgreSQL', pg.pgTable, pg, full],
    ['PostgreSQL, as text', pg.pgTable, pg, inText],
    ['MySQL', mysql.mysqlTable, mysql, full],
    ['SQLite', sqlite.sqliteTable, sqlite, full],
  ] as const

  it.each(dialects)('takes no plaintext on %s, and what the model sealed', async (_, make, builders, model) => {
    const any = make as unknown as typeof pg.pgTable
    const { email } = getTableColumns(any('users', { id: pg.integer(), ...encryptedColumns(builders as never, model) }))
    expect(() => email?.mapToDriverValue('ada@example.com')).toThrow('users.email must be encrypted, and got plaintext')
    const row = { id: 7, email: 'ada@example.com', nick: null, score: 1, photo: null, prefs: { theme: 'dark' } }
    const sealed = (await model.encrypt(row)).email
    expect(email?.mapToDriverValue(sealed)).toBeTypeOf('string')
    expect(email?.mapToDriverValue(null)).toBeOneOf([null, 'null'])
  })
})

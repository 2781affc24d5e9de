import { createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { drizzle as drizzleOfD1 } from 'drizzle-orm/d1'
import { text as columnOfPg, integer as integerOfPg, pgTable } from 'drizzle-orm/pg-core'
import { drizzle as drizzleOfPg } from 'drizzle-orm/pg-proxy'
import { drizzle as drizzleSync } from 'drizzle-orm/sql-js'
import { text as column, integer, sqliteTable } from 'drizzle-orm/sqlite-core'
import { drizzle } from 'drizzle-orm/sqlite-proxy'
import { afterAll, beforeEach, expect, it } from 'vitest'
import { encrypted } from './index.js'
import { mergeResults } from './many-rows.js'

const people = sqliteTable('people', {
  id: integer().primaryKey(),
  email: column(),
  emailIndex: column('email_index'),
  city: column(),
})
const peopleOfPg = pgTable('people', {
  id: integerOfPg().primaryKey(),
  email: columnOfPg(),
  emailIndex: columnOfPg('email_index'),
  city: columnOfPg(),
})

const eaas = createClient(createTestService())
const { id: keyId } = await eaas.keys.create({ name: 'people' })
const fields = { email: text({ index: 'emailIndex' }).nullable() }
const model = eaas.model({ name: 'people', keyId, bind: ['id'], format: 'text', warn: false, fields })
afterAll(() => eaas.close())

/** What was sent, with the number of its parameters. */
const sent: [verb: string | undefined, parameters: number][] = []
const note = (text: string, params: readonly unknown[]) => void sent.push([text.split(' ')[0], params.length])
beforeEach(() => {
  sent.length = 0
})

/** Two values are given, and null is written for the two others of the model. */
const rowsOf = (count: number) => Array.from({ length: count }, (_, id) => ({ id, city: 'Rome' }))
/** SQLite takes 32,766 parameters. */
const MANY = rowsOf(10_000)
const PARTS: typeof sent = [8_190, 1_810].map((count) => ['insert', 4 * count])

const proxied = (fails = (_: number) => false) => {
  const driver = drizzle(async (query, params, method) => {
    note(query, params)
    if (fails(sent.length)) throw new Error('no space')
    const returned = query.includes(' returning ') ? params.filter((_, at) => at % 4 === 0).map((id) => [id]) : []
    return { rows: method === 'run' ? [] : returned }
  })
  return encrypted(driver, [[people, model]])
}

it('an insert of more rows than one statement takes is several in one transaction, in their order', async () => {
  const returned = await proxied().insert(people).values(MANY).returning({ id: people.id })
  expect(sent).toEqual([['begin', 0], ...PARTS, ['commit', 0]])
  expect(returned.map(({ id }) => id)).toEqual(MANY.map(({ id }) => id))
})
it('one that one statement takes is one, without a transaction', async () => {
  await proxied().insert(people).values(rowsOf(8_191))
  expect(sent).toEqual([['insert', 32_764]])
})
it('all are rolled back where one fails, within the transaction of the application alone', async () => {
  const thirdFails = (at: number) => at === 3
  await expect(proxied(thirdFails).insert(people).values(MANY)).rejects.toMatchObject({
    cause: { message: 'no space' },
  })
  expect(sent).toEqual([['begin', 0], ...PARTS, ['rollback', 0]])
  sent.length = 0
  const fourthFails = (at: number) => at === 4
  await proxied(fourthFails).transaction(async (tx) => {
    await expect(tx.insert(people).values(MANY)).rejects.toThrow()
  })
  expect(sent).toEqual([['begin', 0], ['savepoint', 0], ...PARTS, ['rollback', 0], ['commit', 0]])
})
it('a driver that runs each query at once runs them in a transaction that does not wait', async () => {
  const prepare = (query: string) => ({
    run: (params: unknown[]) => note(query, params),
    free: () => undefined,
  })
  const db = encrypted(drizzleSync({ prepare } as never), [[people, model]])
  await db.insert(people).values(MANY)
  expect(sent).toEqual([['begin', 0], ...PARTS, ['commit', 0]])
})
it.each<[title: string, insert: () => PromiseLike<unknown>, rows: string]>([
  [
    'a common table expression',
    () => {
      const db = proxied()
      const some = db.$with('some').as(db.select({ id: people.id }).from(people))
      return db.with(some).insert(people).values(MANY)
    },
    '8191 rows by such a statement, not 10000',
  ],
  [
    'a driver without transactions',
    () => {
      const db = encrypted(
        drizzleOfPg(async () => ({ rows: [] })),
        [[peopleOfPg, model]],
      )
      return db.insert(peopleOfPg).values(rowsOf(17_000))
    },
    '16383 rows by such a statement, not 17000',
  ],
  [
    'D1',
    () => {
      const prepare = (query: string) => ({
        bind: (...params: unknown[]) => ({
          run: async () => {
            note(query, params)
            throw new Error('D1_ERROR: To execute a transaction, please use the state.storage.transaction() API')
          },
        }),
      })
      return encrypted(drizzleOfD1({ prepare } as never), [[people, model]])
        .insert(people)
        .values(rowsOf(30))
    },
    '25 rows by such a statement, not 30',
  ],
])('is refused with the number of rows that fit where it cannot be divided: %s', async (_, insert, rows) => {
  await expect((async () => insert())()).rejects.toMatchObject({
    code: 'E_INVALID_INPUT',
    message: expect.stringMatching(
      /^people: with what is encrypted, the statement has \d+ parameters, and the database/,
    ),
    hint: `Insert at most ${rows}.`,
  })
  expect(sent.filter(([verb]) => verb === 'insert')).toEqual([])
})
it.each<[driver: string, results: unknown[], merged: unknown]>([
  [
    'mysql2',
    [
      [{ affectedRows: 2, insertId: 5 }, undefined],
      [{ affectedRows: 1, insertId: 7 }, undefined],
    ],
    [{ affectedRows: 3, insertId: 5 }, undefined],
  ],
  [
    'libsql',
    [
      { rowsAffected: 2, lastInsertRowid: 6n },
      { rowsAffected: 1, lastInsertRowid: 7n },
    ],
    { rowsAffected: 3, lastInsertRowid: 7n },
  ],
  [
    'better-sqlite3',
    [
      { changes: 2, lastInsertRowid: 6 },
      { changes: 1, lastInsertRowid: 7 },
    ],
    { changes: 3, lastInsertRowid: 7 },
  ],
  ['rows', [[1, 2], [3]], [1, 2, 3]],
  ['sql.js', [undefined, undefined], undefined],
])('the results of several statements of %s are one', (_, results, merged) => {
  expect(mergeResults(results)).toEqual(merged)
})

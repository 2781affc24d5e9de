// Which definitions are of one table.
import { pgTable, text } from 'drizzle-orm/pg-core'
import { sqliteTable, text as sqliteText } from 'drizzle-orm/sqlite-core'
import { expect, it } from 'vitest'
import { nameOf } from './tables.js'

it('a table of SQLite is the same in whatever case it is written, and one of PostgreSQL is another', () => {
  const [lower, upper] = ['customers', 'Customers']
  const id = sqliteText()
  expect(nameOf(sqliteTable(lower, { id }))).toBe(nameOf(sqliteTable(upper, { id })))
  expect(nameOf(pgTable(lower, { id: text() }))).not.toBe(nameOf(pgTable(upper, { id: text() })))
})

// The database in three forms: as the application uses it, as it is stored, and as statements.

import { encrypted } from '@eaas/drizzle'
import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { TABLES, users } from './schema.mjs'

/** @import { defineUsers } from './schema.mjs' */

/** @typedef {Awaited<ReturnType<typeof openDatabase>>} Database */

/** Opens PostgreSQL in this process and in memory. With a server, pass its driver to `drizzle`: nothing else changes. */
export async function openDatabase() {
  const postgres = await PGlite.create()
  await postgres.exec(TABLES)
  const stored = drizzle(postgres)
  return {
    /**
     * Encrypts what it writes, decrypts what it reads, and searches by index.
     *
     * @param {ReturnType<typeof defineUsers>} model
     */
    encrypted: (model) => encrypted(stored, [[users, model]]),
    /** The table as it is stored. */
    stored,
    /**
     * Runs one statement outside of a transaction: for migrations, and for what works through the whole table.
     *
     * @param {string} text
     * @param {string[]} [parameters]
     */
    query: async (text, parameters) => (await postgres.query(text, parameters)).rows,
    close: () => postgres.close(),
  }
}

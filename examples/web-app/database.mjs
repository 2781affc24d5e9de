// The database in two forms: as the application uses it, and as it is stored.

import { encrypted } from '@eaas/sdk/drizzle'
import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { TABLES, users } from './schema.mjs'

/** @import { defineUsers } from './schema.mjs' */

/** @typedef {Awaited<ReturnType<typeof openDatabase>>} Database */

/**
 * Opens PostgreSQL in this process and in memory. With a server, pass its driver to `drizzle`: nothing else changes.
 *
 * @param {ReturnType<typeof defineUsers>} model
 */
export async function openDatabase(model) {
  const postgres = await PGlite.create()
  await postgres.exec(TABLES)
  const stored = drizzle(postgres)
  return {
    /** Encrypts what it writes, decrypts what it reads, and searches by index. */
    db: encrypted(stored, [[users, model]]),
    /** The table as it is: for rewrapping alone. */
    stored,
    close: () => postgres.close(),
  }
}

// The database of an application of Kysely.
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Database } from './database.js'

const dialect = new PostgresDialect({
  pool: new pg.Pool({ connectionString: process.env.DATABASE_URL ?? '', max: 1 }),
})

export const db = new Kysely<Database>({
  dialect,
})

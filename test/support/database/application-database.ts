// A database of an application, which has nothing of ours: empty, and a way to run SQL in it on either back end.
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { freshDatabase } from './database.js'

type RunSql = (statement: string, parameters?: string[]) => Promise<readonly object[]>

export type ApplicationDatabase = { query: RunSql; close: () => Promise<void> } & (
  | { backend: 'postgres'; url: string; sql: postgres.Sql }
  | { backend: 'embedded'; pglite: PGlite }
)

/** Opens one on the back end of the running project. `close` also drops it. */
export async function openApplicationDatabase(name: string): Promise<ApplicationDatabase> {
  const database = await freshDatabase(name)
  const { backend } = database
  if (backend === 'postgres') {
    const sql = postgres(database.directUrl, { max: 4, onnotice: () => undefined })
    const query: RunSql = async (statement, parameters) => [...(await sql.unsafe(statement, parameters))]
    return { backend, url: database.directUrl, sql, query, close: () => sql.end().then(database.drop) }
  }
  const pglite = new PGlite(join(database.dataDir, 'postgres'))
  const query: RunSql = async (statement, parameters) => (await pglite.query<object>(statement, parameters)).rows
  return { backend, pglite, query, close: () => pglite.close().then(database.drop) }
}

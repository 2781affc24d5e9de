// What the driver of TypeORM needs of `pg`, on a PostgreSQL in memory.
import type { PGlite } from '@electric-sql/pglite'

/** The class for `driver: { Pool }`, and its one connection. `sent` gets what is sent, as JSON. */
export function poolOn(postgres: PGlite, sent: string[] = []) {
  const on = () => undefined
  const connection = {
    on,
    removeListener: on,
    async query(sql: string, values: unknown[] = []) {
      sent.push(JSON.stringify([sql, values]))
      const { rows, affectedRows } = await postgres.query(sql, values)
      return { rows, rowCount: affectedRows, command: sql.split(' ', 1)[0] }
    },
  }
  class Pool {
    on = on
    end = (done: () => void) => done()
    connect = (done: (error: undefined, client: object, release: () => void) => void) => done(undefined, connection, on)
  }
  return { Pool, connection }
}

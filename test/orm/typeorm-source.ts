// Data sources of TypeORM on a PostgreSQL in memory, by what its driver needs of `pg`.
import type { PGlite } from '@electric-sql/pglite'
import { DataSource, type DataSourceOptions } from 'typeorm'

/**
 * `open` makes a data source that is not initialized. `Pool` is its driver's class, with its one connection. `sent` gets
 * what is sent, as JSON.
 */
export function sourcesOn(postgres: PGlite, sent: string[] = []) {
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
  const common = { type: 'postgres', driver: { Pool }, installExtensions: false, uuidExtension: 'pgcrypto' } as const
  const open = (entities: DataSourceOptions['entities'], options: object = {}) =>
    new DataSource({ ...common, entities, ...options } as never)
  return { open, Pool, connection }
}

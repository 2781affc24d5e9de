// A dialect of Kysely whose connection notes what it is sent, so that a test needs no database.
import {
  type DialectAdapter,
  type Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryCompiler,
} from 'kysely'

const COLUMNS = [{ name: 'id', type: 'integer', category: 'N', is_deterministic: true }]

/** `sent` gets what is sent, as JSON. Each query is answered with `rows`, or the types of the columns of `users`. */
export function recordDialect(
  Adapter: new () => DialectAdapter = PostgresAdapter,
  Compiler: new () => QueryCompiler = PostgresQueryCompiler,
) {
  const sent: string[] = []
  const rows: object[] = []
  const dialect = {
    createAdapter: () => new Adapter(),
    createQueryCompiler: () => new Compiler(),
    createIntrospector: (database: Kysely<unknown>) => new PostgresIntrospector(database),
    createDriver: () => ({
      init: async () => undefined,
      acquireConnection: async () => ({
        async executeQuery<R>(query: { sql: string; parameters: readonly unknown[] }) {
          if (query.sql.includes('pg_trigger')) return { rows: [] }
          if (query.sql.includes('pg_catalog')) return { rows: COLUMNS as R[] }
          sent.push(JSON.stringify([query.sql, query.parameters]))
          return { rows: structuredClone(rows) as R[] }
        },
        async *streamQuery<R>() {
          yield { rows: structuredClone(rows) as R[] }
        },
      }),
      beginTransaction: async () => undefined,
      commitTransaction: async () => undefined,
      rollbackTransaction: async () => undefined,
      releaseConnection: async () => undefined,
      destroy: async () => undefined,
    }),
  }
  return { dialect, sent, rows }
}

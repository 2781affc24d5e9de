/**
 * Refuses answers of the database that cannot be judged: a row is not as the server wrote it, or rows may be hidden
 * from this role. While rows may be hidden, the absence of one says nothing about the data, so that is checked before
 * an alarm is raised or a backup is advised. Row level security also fails each statement from which it would hide rows
 * (text-formats.ts); a view in place of a table hides them without an error.
 */
import type { Queryable } from './db.js'
import { GRANTED_TABLES } from './grants.js'
import { assertFormats } from './text-formats.js'

export class TamperedRowError extends Error {
  override readonly name: string = 'TamperedRowError'
}

/**
 * Returns the row that a query found, if any; `asked` are the columns that the query named. The owner of the database can drop a
 * primary key and put an older row beside the newer one, or make a view, a type or a policy answer with another row. That row's MAC
 * is valid as well, so no reader may choose between rows. @throws TamperedRowError if there are several, or another one
 */
export function onlyRow<Row>(rows: readonly Row[], what: string, asked: Partial<Row> = {}): Row | undefined {
  if (rows.length > 1) {
    throw new TamperedRowError(`the database holds ${what} more than once: a constraint was dropped outside the server`)
  }
  const [row] = rows
  if (row && !isAsked(row, asked)) throw new TamperedRowError(`the database answered with another row than ${what}`)
  return row
}

export function isAsked<Row>(row: Row, asked: Partial<Row>): boolean {
  return (Object.keys(asked) as (keyof Row)[]).every((column) => row[column] === asked[column])
}

export const SHOW_ROWS =
  'as the owner of the tables, turn row level security off (alter table … disable row level security), which eaas does not need: nobody else has rights on them'

export class HiddenRowsError extends Error {
  override readonly name = 'HiddenRowsError'

  constructor(hiding: readonly string[]) {
    super(
      `Rows may be hidden from this role: ${hiding.join(', ')}. Nothing was judged by what it sees. Put tables back in the place of views; ${SHOW_ROWS}`,
    )
  }
}

/** An SQL expression: texts that say which of our tables may hide rows from this role, and how. */
export function hidingTables(sql: Queryable) {
  return sql`array(
    select case when c.relkind in ('r', 'p') then 'row level security of ' || t.name
                when c.relkind = 'v' then t.name || ' is a view'
                else t.name || ' is not a table' end
    from pg_catalog.unnest(${[...GRANTED_TABLES]}::text[]) as t (name)
    join pg_catalog.pg_class as c on c.oid = pg_catalog.to_regclass(t.name)::oid
    where c.relkind not in ('r', 'p') or pg_catalog.row_security_active(c.oid)
  )`
}

export async function assertWhole(sql: Queryable): Promise<void> {
  const [row] = await sql<{ hiding: string[] }[]>`select ${hidingTables(sql)} as hiding`
  if (row === undefined || row.hiding.length > 0) throw new HiddenRowsError(row?.hiding ?? [])
}

/** @throws WrongFormatError, HiddenRowsError if this session may read something else than the tables contain */
export async function assertJudgeable(sql: Queryable): Promise<void> {
  await assertFormats(sql)
  await assertWhole(sql)
}

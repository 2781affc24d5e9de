/**
 * What makes the rows of an answer unfit to be judged: they are not as the server wrote them, or some may be hidden from
 * this role. Then the absence of a row says nothing about the data, so that is asked before an alarm is raised or a
 * backup is advised. Row level security also fails each statement that it would hide rows from (text-formats.ts); a view
 * in the place of a table hides them without an error.
 */
import type { Queryable } from './db.js'
import { GRANTED_TABLES } from './grants.js'
import { assertFormats } from './text-formats.js'

/** Thrown when the database holds a row that is not as the server wrote it. */
export class TamperedRowError extends Error {
  override readonly name: string = 'TamperedRowError'
}

/**
 * The row that a query found, if any; `asked` are the columns that the query named. The owner of the database can drop
 * a primary key and put an older row beside the newer one, or make a view, a type or a policy answer with another row,
 * whose MAC is as valid: so no reader may choose between rows. @throws TamperedRowError if there are several, or another one
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

/** An expression for the texts that say which of our tables may hide rows from this role, and how. */
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

/** @throws HiddenRowsError if one of our tables may hide rows from this role */
export async function assertWhole(sql: Queryable): Promise<void> {
  const [row] = await sql<{ hiding: string[] }[]>`select ${hidingTables(sql)} as hiding`
  if (row === undefined || row.hiding.length > 0) throw new HiddenRowsError(row?.hiding ?? [])
}

/** @throws WrongFormatError, HiddenRowsError if what this session reads is not what the tables have */
export async function assertJudgeable(sql: Queryable): Promise<void> {
  await assertFormats(sql)
  await assertWhole(sql)
}

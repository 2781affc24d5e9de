/**
 * Ids that PostgreSQL makes: of `serial` and identity columns, and of any other default. Values are bound to
 * them, so an adapter asks for them before the insert, by the default itself. The row is then sealed as it is
 * first written: no placeholder of it is ever in the table, where a trigger, a replica or a unique index would
 * see it. If the insert fails, a sequence has a gap, as after any insert that fails.
 */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'

/** Runs SQL as text, without parameters, and returns its rows. */
export type RunSql = (sql: string) => Promise<readonly unknown[]>

/** A column for which PostgreSQL makes a value where an insert gives none. */
interface Fill {
  /** Finds the table by the search path of the moment: each schema may have one of its name. */
  expression: string
  /** `generated always as identity`: takes a value by `overriding system value` only. */
  isAlways: boolean
}

export interface MadeIds {
  /** The ids of each row, as text. */
  rows: Row[]
  /** Whether an insert of them needs `overriding system value`. */
  isAlways: boolean
}

export interface IdMaker {
  /**
   * Makes the values of some columns for a number of rows.
   *
   * @param table its name in SQL, quoted, with its schema if that is not found by the search path
   * @throws InvalidInputError where PostgreSQL makes none for one of them
   */
  make(run: RunSql, table: string, ask: { columns: readonly string[]; count: number }): Promise<MadeIds>
}

/** Makes the ids of a database, of which it asks once for each table how it fills its columns. */
export function createIdMaker(): IdMaker {
  const known = new Map<string, ReadonlyMap<string, Fill>>()
  return {
    async make(run, table, { columns, count }) {
      const fills = known.get(table) ?? (await readFills(run, table))
      if (fills.size > 0) known.set(table, fills) // a table that is not there may be created
      const own = columns.map((column) => fills.get(column) ?? refuseUnmade(table, column))
      const values = own.map(({ expression }, at) => `(${expression})::text as v${at}`)
      const made = (await run(`select ${values.join(', ')} from generate_series(1, ${Number(count)})`)) as Row[]
      return {
        rows: made.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[`v${at}`]]))),
        isAlways: own.some(({ isAlways }) => isAlways),
      }
    },
  }
}

async function readFills(run: RunSql, table: string): Promise<ReadonlyMap<string, Fill>> {
  const rows = (await run(`select a.attname::text as name, a.attidentity = 'a' as is_always,
  case a.attidentity when '' then pg_get_expr(d.adbin, d.adrelid)
    else format('nextval(pg_get_serial_sequence(%L, %L))', ${literal(table)}, a.attname) end as expression
from pg_catalog.pg_attribute a
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and (a.attidentity <> '' or d.adbin is not null)
  and a.attrelid = to_regclass(${literal(table)})`)) as { name: string; is_always: boolean; expression: string }[]
  return new Map(rows.map(({ name, is_always, expression }) => [name, { expression, isAlways: is_always }]))
}

function literal(text: string): string {
  return `E'${text.replaceAll(/['\\]/g, '\\$&')}'`
}

function refuseUnmade(table: string, column: string): never {
  throw new InvalidInputError(
    `${table}: the row has no ${column}, which its encrypted values are bound to, and the database makes none`,
    `Give it, or give the column a default, such as gen_random_uuid().`,
  )
}

/** Quotes the name of a table for SQL. */
export function quoteName(table: string, schema?: string | null): string {
  return [schema ?? [], table]
    .flat()
    .map((name) => `"${name.replaceAll('"', '""')}"`)
    .join('.')
}

/** Refuses, at set-up, to bind values to a column whose value is not known before the insert. */
export function refuseUnbindable(model: string, column: string, why: string, hint: string): never {
  throw new InvalidInputError(`${model}: values cannot be bound to ${column}: ${why}`, hint)
}

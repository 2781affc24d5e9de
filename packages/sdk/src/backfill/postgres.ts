/** A table of PostgreSQL, read and written by any function that runs a query. */

import { DatabaseError, InvalidInputError } from '../errors.js'
import { groupBy } from '../groups.js'
import { assertOptions, isName, kindOf } from '../input.js'
import { nearestName } from '../nearest-name.js'
import { assertHoldsEnvelopes, type PostgresColumn, quoteName, readColumn, writeColumn } from './postgres-values.js'
import type { Table, TableChange, TableColumns, TableRow, TableSource } from './table.js'

/**
 * Runs one statement with `$1`, `$2` … and returns its rows. All parameters are text, and so are all columns of the result: `(text, parameters) =>
 * sql.unsafe(text, parameters)` with postgres.js, `async (text, parameters) => (await pool.query(text, parameters)).rows` with pg.
 */
export type PostgresQuery = (text: string, parameters: string[]) => Promise<readonly object[]>

export interface PostgresOptions {
  /** The columns by which pages are read, unique together and never null; those of the primary key by default. */
  key?: readonly string[] | undefined
  /** The names of columns in the database, where they differ from those of the model: `{ emailIndex: 'email_index' }`. */
  columns?: Readonly<Record<string, string>> | undefined
}

/** What the run needs of a row besides its values: what is compared before it is written. */
interface Read {
  key: readonly string[]
  texts: readonly (string | null)[]
}

/** A column of the model and of the table. */
interface Placed {
  name: string
  column: PostgresColumn
}

/**
 * Reads and writes a table of PostgreSQL 12 or later. Statements run by themselves, each at once, and skip rows that are locked: none waits for the
 * application while it holds a lock. Pass a function that runs them outside of a transaction. Does not use the network before the run.
 *
 * @param table its name, with its schema where that is not on the search path: `users`, `crm.users`
 */
export function postgresTable(query: PostgresQuery, table: string, options: PostgresOptions = {}): TableSource {
  assertOptions('postgresTable()', options, ['key', 'columns'] satisfies (keyof PostgresOptions)[])
  if (typeof query !== 'function') throw new InvalidInputError(`query must be a function, got ${kindOf(query)}`)
  if (typeof table !== 'string' || !table.split('.').every(isName)) throw new InvalidInputError('table must be a name')
  const { columns: renamed = {}, key } = options
  assertOptions('columns', renamed)
  const name = table.split('.').map(quoteName).join('.')
  const ask = async (text: string, parameters: string[] = []): Promise<unknown[]> => {
    const rows = await query(text, parameters).catch((error) => refuse(error))
    // The only column, whatever the driver calls it.
    return rows.map((row) => JSON.parse(String(Object.values(row)[0] ?? 'null')))
  }
  return async (wanted) => {
    const described = await describe(ask, name)
    return createTable(ask, name, place(wanted, described, { key, renamed }))
  }
}

type Ask = (text: string, parameters?: string[]) => Promise<unknown[]>

interface Described {
  columns: Map<string, PostgresColumn>
  primary: string[]
  unique: string[][]
}

async function describe(ask: Ask, table: string): Promise<Described> {
  const [found] = (await ask(
    `select json_build_object(
       'columns', (select json_agg(json_build_array(a.attname, format_type(a.atttypid, null), format_type(coalesce(nullif(t.typbasetype, 0), a.atttypid), null), a.atttypmod))
         from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
       'indexes', (select json_agg(json_build_array(i.indisprimary, (select json_agg(a.attname order by k.at)
           from unnest(i.indkey::int2[]) with ordinality as k(attnum, at)
           join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum and a.attnotnull
           where k.at <= i.indnkeyatts), i.indnkeyatts))
         from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null)
     )::text as r from pg_catalog.pg_class c where c.oid = to_regclass($1::text)`,
    [table],
  )) as [{ columns: [string, string, string, number][]; indexes: [boolean, string[] | null, number][] | null }?]
  if (!found) throw new InvalidInputError(`there is no table ${table}`, 'Name its schema too: "crm.users".')
  const columns = found.columns.map(([name, type, base, modifier]): [string, PostgresColumn] => {
    const maxLength = base === 'character varying' && modifier > 4 ? modifier - 4 : undefined
    // A cast to `character` keeps one character.
    return [name, { name, type: type === 'character' ? 'bpchar' : type, base, maxLength }]
  })
  // An index over an expression, or over a column that may be null, does not tell rows apart.
  const unique = (found.indexes ?? []).filter(([, names, count]) => names?.length === count)
  const [, primary] = unique.find(([isPrimary]) => isPrimary) ?? []
  return { columns: new Map(columns), primary: primary ?? [], unique: unique.map(([, names]) => names ?? []) }
}

interface Places {
  key: PostgresColumn[]
  columns: Placed[]
}

/** Finds the columns of the model in the table. @throws InvalidInputError naming the one that is missing or cannot hold what it has to */
function place(
  { fields, indexes, bind, header }: TableColumns,
  { columns, primary, unique }: Described,
  { key = primary, renamed }: { key?: readonly string[] | undefined; renamed: Readonly<Record<string, string>> },
): Places {
  const get = (name: string): PostgresColumn => {
    const column = columns.get(name)
    if (column) return column
    const near = nearestName(name, [...columns.keys()])
    const meant = near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`
    throw new InvalidInputError(`the table has no column ${JSON.stringify(name)}${meant}`, 'Name it in `columns`.')
  }
  const placed = (name: string): Placed => ({ name, column: get(renamed[name] ?? name) })
  const names = [...fields, ...indexes.map(({ column }) => column), ...bind, header.column]
  assertOptions('columns', renamed, names)
  const sealed = fields.map(placed)
  const hasHeader =
    header.required || ['json', 'jsonb'].includes(columns.get(renamed[header.column] ?? header.column)?.base ?? '')
  const envelopes = [...sealed, ...(hasHeader ? [placed(header.column)] : [])]
  for (const { column } of envelopes) assertHoldsEnvelopes(column)
  for (const { column: name, list } of indexes) {
    const { base } = placed(name).column
    const fitting = list ? ['text[]', 'json', 'jsonb'] : ['text', 'character varying', 'citext']
    if (!fitting.includes(base)) {
      throw new InvalidInputError(
        `the column of the index ${JSON.stringify(name)} is of type ${base}`,
        `Give it the type ${fitting[0]}.`,
      )
    }
  }
  if (key.length === 0 || !unique.some((one) => one.every((name) => key.includes(name)))) {
    throw new InvalidInputError(
      'the rows have no unique key',
      'Name columns of a unique index, none of which may be null, in `key`.',
    )
  }
  const own = new Map(
    [...envelopes, ...indexes.map(({ column }) => placed(column)), ...bind.map(placed)].map((one) => [one.name, one]),
  )
  return { key: key.map(get), columns: [...own.values()] }
}

function createTable(ask: Ask, table: string, { key, columns }: Places): Table {
  const reads = new WeakMap<TableRow, Read>()
  const of = ({ name }: PostgresColumn) => `t.${quoteName(name)}`
  const keyFrom = (source: string) => key.map(({ type }, at) => `(${source}->>${at})::${type}`).join(', ')
  const keyColumns = key.map(of).join(', ')
  const selected = `json_build_array(json_build_array(${key.map((one) => `${of(one)}::text`).join(', ')}), json_build_array(${columns
    .map(({ column }) => `${of(column)}::text`)
    .join(', ')}))::text as r`
  const behind = (after: string | undefined) =>
    after === undefined ? '' : ` where (${keyColumns}) > (${keyFrom('$1::text::json')})`
  // As texts: a value that only a type or a collation calls equal has changed, and json has no equality.
  const unchanged = columns
    .map(({ column }, at) => `${of(column)}::text collate "C" is not distinct from (given.o->>${at})`)
    .join(' and ')
  const isRow = (source: string) => `(${keyColumns}) = (${keyFrom(source)})`

  const rowsOf = (found: unknown[]): TableRow[] =>
    (found as [string[], (string | null)[]][]).map(([key, texts]) => {
      const row = Object.fromEntries(
        columns.map(({ name, column }, at) => [name, readColumn(column, texts[at] ?? null)]),
      )
      const read = { key: JSON.stringify(key), row }
      reads.set(read, { key, texts })
      return read
    })
  const swapSome = async (changes: readonly TableChange[], written: readonly Placed[]): Promise<number[]> => {
    const given = changes.map(({ from, to }) => {
      const { key, texts } = reads.get(from) ?? { key: [], texts: [] }
      return { k: key, o: texts, n: written.map(({ name, column }) => writeColumn(column, to[name])) }
    })
    const set = written
      .map(({ column }, at) => `${quoteName(column.name)} = (given.n->>${at})::${column.type}`)
      .join(', ')
    // Locks only what it need not wait for, so that it never holds a row while it waits for the application.
    const [swapped] = await ask(
      `with sent as materialized (
         select (at - 1)::int as at, value->'k' as k, value->'o' as o, value->'n' as n
         from json_array_elements($1::text::json) with ordinality as e(value, at)
       ), given as materialized (
         select given.* from sent as given join ${table} as t on ${isRow('given.k')} where ${unchanged} for update of t skip locked
       ), done as (
         update ${table} as t set ${set} from given where ${isRow('given.k')} and ${unchanged} returning given.at
       ) select coalesce(json_agg(at), '[]')::text as r from done`,
      [JSON.stringify(given)],
    )
    return swapped as number[]
  }
  return {
    page: async (after, limit) =>
      rowsOf(
        await ask(
          `select ${selected} from ${table} as t${behind(after)} order by ${keyColumns} limit ${limit}`,
          after === undefined ? [] : [readKey(after, key.length)],
        ),
      ),
    again: async (keys) =>
      rowsOf(
        await ask(
          `select ${selected} from json_array_elements($1::text::json) as given(k) join ${table} as t on ${isRow('given.k')} order by ${keyColumns}`,
          [`[${keys.join(',')}]`],
        ),
      ),
    async swap(changes) {
      const done = new Set<TableChange>()
      for (const [names, some] of byColumns(changes)) {
        const written = columns.filter(({ name }) => names.includes(name))
        for (const at of await swapSome(some, written)) if (some[at]) done.add(some[at])
      }
      return changes.map((change) => done.has(change))
    },
    async count(after) {
      const [count] = await ask(
        `select count(*)::text as r from ${table} as t${behind(after)}`,
        after === undefined ? [] : [readKey(after, key.length)],
      )
      return Number(count)
    },
  }
}

/** Changes of the same columns, which one statement writes. */
function byColumns(changes: readonly TableChange[]): [string[], TableChange[]][] {
  const groups = groupBy(changes, ({ to }) => JSON.stringify(Object.keys(to).sort()))
  return [...groups].map(([names, some]) => [JSON.parse(names) as string[], some])
}

/** @throws InvalidInputError when it is no key of this table */
function readKey(after: string, length: number): string {
  try {
    const key: unknown = JSON.parse(after)
    if (Array.isArray(key) && key.length === length && key.every((one) => typeof one === 'string')) return after
  } catch {
    // not JSON
  }
  throw new InvalidInputError('after is no key of this table', 'Pass the text that progress told, or omit it.')
}

/** The messages of drivers and their details quote rows and parameters. */
function refuse(error: unknown): never {
  const seen = [error, (error as { cause?: unknown } | null)?.cause] as { code?: unknown }[]
  const state = seen.map((one) => one?.code).find((code) => typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code))
  const message =
    state === undefined
      ? 'the database did not answer a statement'
      : `the database refused a statement: SQLSTATE ${state}`
  throw new DatabaseError(message, state as string | undefined)
}

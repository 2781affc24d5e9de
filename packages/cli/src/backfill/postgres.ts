/** A table of PostgreSQL, read and written by any function that runs a query. */
import { readJson } from '@eaas/protocol'
import { InvalidInputError, isEaasError } from '@eaas/sdk'
import { assertUnchanged } from '@eaas/sdk/adapter'
import { assertOptions, DatabaseError, kindOf, type Row, type TableColumns } from '@eaas/sdk/maintenance'
import { type Ask, type FoundTable, type Placed, type Places, placeColumns, readTable } from './postgres-columns.js'
import { findUnfit, isJson, type PostgresColumn, quoteName, readColumn, writeColumn } from './postgres-values.js'
import { notOfThisTable, type Table, type TableChange, type TableRow, type TableSource } from './table.js'

/**
 * Runs one statement with `$1`, `$2` … and returns its rows. All parameters and all columns of the result are text:
 * `(text, parameters) => sql.unsafe(text, parameters)` with postgres.js, `async (text, parameters) => (await
 * pool.query(text, parameters)).rows` with pg.
 */
export type PostgresQuery = (text: string, parameters: string[]) => Promise<readonly object[]>

export interface PostgresOptions {
  /** The columns by which pages are read: unique together and never null. By default those of the primary key. */
  key?: readonly string[] | undefined
  /** The names of columns in the database, if they differ from those of the model: `{ emailIndex: 'email_index' }`. */
  columns?: Readonly<Record<string, string>> | undefined
  /** More columns for the rows that readers get, such as one for an encryption context. They are never written. */
  readColumns?: readonly string[] | undefined
}

type Read = { key: readonly string[]; texts: readonly (string | null)[] }

/**
 * Reads and writes a table of PostgreSQL 12 or later. Each statement runs on its own, and skips locked rows: none waits
 * for the application while it holds a lock. Pass a function that runs statements outside a transaction. Does not use
 * the network before the run.
 * @param table its name as it is spelled, with its schema if that is not on the search path: `users`, `crm.users`,
 * `userTable`. Quote a part with a dot or a quote as in SQL: `crm."users.old"`
 */
export function postgresTable(query: PostgresQuery, table: string, options: PostgresOptions = {}): TableSource {
  assertOptions('postgresTable()', options, ['key', 'columns', 'readColumns'] satisfies (keyof PostgresOptions)[])
  const { columns: renamed = {}, key, readColumns = [] } = options
  assertOptions('columns', renamed)
  if (!Array.isArray(readColumns) || !readColumns.every(isName))
    throw new InvalidInputError('readColumns must be a list of names')
  const { ask, name } = openPostgres(query, table)
  return async (wanted) => {
    const found = await readTable(ask, name)
    const places = placeColumns(wanted, found, { key, renamed, readColumns })
    const scope = `${found.name} (${places.key.map((one) => quoteName(one.name)).join(', ')})`
    const columns = places.envelopes.map((column) => column.name)
    const runText = async (text: string) => (await query(text, []).catch(refuse)) as Row[]
    return {
      ...{ scope, ...createTable(ask, name, places, wanted.indexes) },
      assertTakes: (kind) =>
        kind === 'plaintext'
          ? assertTakesPlaintext(name, found)
          : assertUnchanged(runText, { model: found.table, table: name, columns }),
    }
  }
}

/** Reads a table's name, and makes the function that queries its database. @throws InvalidInputError */
export function openPostgres(query: PostgresQuery, table: string): { ask: Ask; name: string } {
  if (typeof query !== 'function') throw new InvalidInputError(`query must be a function, got ${kindOf(query)}`)
  const name = readTableName(table).map(quoteName).join('.')
  const ask: Ask = async (text, parameters = []) => {
    const rows = await query(text, parameters).catch((error) => refuse(error))
    // The only column, whatever the driver calls it.
    return rows.map((row) => JSON.parse(String(Object.values(row)[0] ?? 'null')))
  }
  return { ask, name }
}

function assertTakesPlaintext(table: string, { sealedChecks }: FoundTable): void {
  if (sealedChecks.length === 0) return
  const drops = sealedChecks.map((name) => `drop constraint ${quoteName(name)}`).join(', ')
  const hint = `Drop them first: alter table ${table} ${drops}`
  throw new InvalidInputError('constraints of the table refuse plaintext', hint)
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value !== '__proto__'
}

/** A part of a table's name, as it is spelled or in SQL quotes. */
const NAME_PART = /^(?:"(?<quoted>(?:[^"]|"")+)"|(?<plain>[^".][^.]*))(?<dot>\.(?!$)|$)/

function readTableName(table: unknown): string[] {
  const parts: string[] = []
  let rest = typeof table === 'string' ? table : ''
  do {
    const { quoted, plain = '', dot = '' } = NAME_PART.exec(rest)?.groups ?? {}
    const part = quoted?.replaceAll('""', '"') ?? plain
    if (!isName(part)) {
      const hint = 'Put quotes around a part with a dot or a quote, as in SQL: \'crm."users.old"\'.'
      throw new InvalidInputError('table must be a name', hint)
    }
    parts.push(part)
    rest = rest.slice((quoted === undefined ? plain.length : quoted.length + 2) + dot.length)
  } while (rest !== '')
  return parts
}

/**
 * Fixes, for one statement, the settings on which the text of a value depends. So a key's text is exact, and the same
 * in every session. It gives a time with its offset, since PostgreSQL may read an abbreviation such as IST as another
 * zone. Each statement sets this for itself: behind a pooler the next one may run in another session. As a condition
 * without a column, it is evaluated before a row is read. Statements that write do not set it: they read these texts
 * alike under all settings, and the table's triggers must find the session's own.
 */
const PINNED = `(select count(set_config(name, value, true)) from (values
  ('DateStyle', 'ISO'), ('IntervalStyle', 'postgres'), ('TimeZone', 'UTC'), ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('array_nulls', 'on')
) as pinned(name, value)) > 0`

/** PostgreSQL's code for an invalid power; in these statements only the root of a negative number can cause it. */
const NEGATIVE_ROOT = '2201F'
const ALTERED = new DatabaseError('a trigger of the table changes what is written, so the row was left', NEGATIVE_ROOT)

function createTable(ask: Ask, table: string, { key, columns }: Places, indexes: TableColumns['indexes']): Table {
  const reads = new WeakMap<TableRow, Read>()
  const of = ({ name }: PostgresColumn) => `t.${quoteName(name)}`
  const keyFrom = (source: string) => key.map(({ type }, at) => `(${source}->>${at})::${type}`).join(', ')
  const keyColumns = key.map(of).join(', ')
  const selected = `json_build_array(json_build_array(${key.map((one) => `${of(one)}::text`).join(', ')}), json_build_array(${columns
    .map(({ column }) => `${of(column)}::text`)
    .join(', ')}), (${keyColumns}) = (${key.map((one) => `${of(one)}::text::${one.type}`).join(', ')}))::text as r`
  const behind = (after: string | undefined) =>
    after === undefined ? 'true' : `(${keyColumns}) > (${keyFrom('$1::text::json')})`
  // Compares texts, since json has no equality, and a value that only its type or collation calls equal has changed.
  const unchanged = columns
    .map(({ column }, at) => `${of(column)}::text collate "C" is not distinct from (given.o->>${at})`)
    .join(' and ')
  const isRow = (source: string) => `(${keyColumns}) = (${keyFrom(source)})`

  const rowsOf = (found: unknown[]): TableRow[] =>
    (found as [string[], (string | null)[], boolean][]).map(([texted, texts, leadsBack]) => {
      // If not, the next page would begin elsewhere, and the row would look deleted.
      if (!leadsBack) throw notFoundByText(key)
      const row = Object.fromEntries(
        columns.map(({ name, column }, at) => [name, readColumn(column, texts[at] ?? null)]),
      )
      const read = { key: JSON.stringify(texted), row }
      reads.set(read, { key: texted, texts })
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
    const isAsSent = written
      .map(({ column: { name, type } }, at) => {
        const sent = `(given.n->>${at})::${type}::text`
        return `t.${quoteName(name)}::text collate "C" is not distinct from ${sent}`
      })
      .join(' and ')
    // Skips locked rows, so that it never holds a row while it waits for the application. If a trigger changed the
    // written value, the root of a negative number fails the statement: an altered envelope never opens.
    const [swapped] = await ask(
      `with sent as materialized (
         select (at - 1)::int as at, value->'k' as k, value->'o' as o, value->'n' as n
         from json_array_elements($1::text::json) with ordinality as e(value, at)
       ), given as materialized (
         select given.* from sent as given join ${table} as t on ${isRow('given.k')} where ${unchanged} for update of t skip locked
       ), done as (
         update ${table} as t set ${set} from given where ${isRow('given.k')} and ${unchanged} returning given.at, ${isAsSent} as "isAsSent"
       ) select (select coalesce(json_agg(at), '[]') from done)::text as r where sqrt(-(select count(*) from done where not "isAsSent")) = 0`,
      [JSON.stringify(given)],
    ).catch((error) => {
      throw isEaasError(error) && error.code === 'E_DATABASE' && error.sqlState === NEGATIVE_ROOT ? ALTERED : error
    })
    return swapped as number[]
  }
  /** Names the row that already has the values of a unique index. */
  const withOther = async (error: Refusal, { from, to }: TableChange, written: readonly Placed[]) => {
    if (error.sqlState !== NOT_UNIQUE || error.constraint === undefined) return error
    const [unique] = (await ask(
      `select json_agg(a.attname)::text as r from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
       join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey::int2[])
       where i.indrelid = to_regclass($1::text) and c.relname = $2`,
      [table, error.constraint],
    )) as [string[] | null]
    const same = (unique ?? []).map((name) => {
      const at = written.findIndex(({ column }) => column.name === name)
      const own = at < 0 ? `own.${quoteName(name)}` : `($2::text::json->>${at})::${written[at]?.column.type}`
      return `t.${quoteName(name)} = ${own}`
    })
    if (same.length === 0) return error
    const [other] = await ask(
      `select json_build_array(${key.map((one) => `${of(one)}::text`).join(', ')})::text as r
       from ${table} as t, (select * from ${table} as t where ${isRow('$1::text::json')}) as own where ${same.join(' and ')} limit 1`,
      [from.key, JSON.stringify(written.map(({ name, column }) => writeColumn(column, to[name])))],
    )
    if (other === undefined) return error
    const columns = (unique ?? []).map(quoteName).join(', ')
    const hint = `The row ${JSON.stringify(other)} has the same in ${columns}, where values are equal after \`normalize\`: change one of the two by the application.`
    return new DatabaseError(error.message, error.sqlState, hint)
  }
  const isNull = (name: string) => columns.flatMap((one) => (one.name === name ? [`${of(one.column)} is null`] : []))
  const lacks = indexes.map(({ column, of }) =>
    [...isNull(column), ...of.flatMap(isNull).map((one) => `not ${one}`)].join(' and '),
  )
  const reading = (condition: string) => ({
    page: async (after: string | undefined, limit: number) =>
      rowsOf(
        await ask(
          `select ${selected} from ${table} as t where ${PINNED} and ${behind(after)} and ${condition} order by ${keyColumns} limit ${limit}`,
          after === undefined ? [] : [readKey(after, key.length)],
        ),
      ),
    async count(after: string | undefined) {
      const [count] = await ask(
        `select count(*)::text as r from ${table} as t where ${behind(after)} and ${condition}`,
        after === undefined ? [] : [readKey(after, key.length)],
      )
      return Number(count)
    },
  })
  return {
    ...reading('true'),
    lacking: lacks.length === 0 ? undefined : reading(`(${lacks.join(' or ')})`),
    again: async (keys) =>
      rowsOf(
        await ask(
          `select ${selected} from json_array_elements($1::text::json) as given(k) join ${table} as t on ${isRow('given.k')} where ${PINNED} order by ${keyColumns}`,
          [`[${keys.join(',')}]`],
        ),
      ),
    sqlNames(field) {
      const found = columns.find(({ name }) => name === field)?.column
      return found && !isJson(found) ? { table, column: quoteName(found.name) } : undefined
    },
    unfit(to) {
      for (const { name, column } of columns) {
        const message = findUnfit(column, to[name])
        if (message !== undefined) return { column: name, message }
      }
      return undefined
    },
    async swap(changes) {
      const done = new Set<TableChange>()
      for (const [names, some] of byColumns(changes)) {
        const written = columns.filter(({ name }) => names.includes(name))
        const swapped = await swapSome(some, written).catch(async (error) => {
          const [only] = some.length === 1 ? some : []
          throw only && error instanceof Refusal ? await withOther(error, only, written) : error
        })
        for (const at of swapped) if (some[at]) done.add(some[at])
      }
      return changes.map((change) => done.has(change))
    },
  }
}

function notFoundByText(key: readonly PostgresColumn[]): InvalidInputError {
  const columns = key.map(({ name, type }) => `${JSON.stringify(name)} of type ${type}`).join(', ')
  const hint = 'Name other columns in `key`, of types such as integers, uuid and text.'
  return new InvalidInputError(`PostgreSQL does not find a row by its key as text: ${columns}`, hint, { option: 'key' })
}

function byColumns(changes: readonly TableChange[]): [string[], TableChange[]][] {
  const groups = new Map<string, TableChange[]>()
  for (const change of changes) {
    const names = JSON.stringify(Object.keys(change.to).sort())
    groups.set(names, [...(groups.get(names) ?? []), change])
  }
  return [...groups].map(([names, some]) => [JSON.parse(names) as string[], some])
}

/** @throws InvalidInputError when it is not a key of this table */
function readKey(after: string, length: number): string {
  const key = readJson(after)
  if (Array.isArray(key) && key.length === length && key.every((one) => typeof one === 'string')) return after
  throw notOfThisTable()
}

/** A refusal by the database: its code, and the index or constraint that caused it. */
class Refusal extends DatabaseError {
  constructor(
    state: string | undefined,
    readonly constraint: string | undefined,
  ) {
    const by = constraint === undefined ? '' : ` because of ${JSON.stringify(constraint)}`
    const message =
      state === undefined
        ? 'the database did not answer a statement'
        : `the database refused a statement${by}: SQLSTATE ${state}`
    super(message, state, state === TOO_LONG ? tooLongHint(constraint) : undefined)
  }
}

const TOO_LONG = '54000'
const NOT_UNIQUE = '23505'

function tooLongHint(index: string | undefined): string {
  const which = index === undefined ? 'the index of the column that holds it' : `the index ${quoteName(index)}`
  return `No index holds a value as long as the encrypted one: drop ${which}, which finds nothing encrypted anyway.`
}

/** Keeps only the SQLSTATE and the constraint: drivers' messages and details quote rows and parameters. */
function refuse(error: unknown): never {
  const seen = [error, (error as { cause?: unknown } | null)?.cause] as Record<string, unknown>[]
  const found = seen.find((one) => typeof one?.code === 'string' && /^[0-9A-Z]{5}$/.test(one.code))
  const constraint = found?.constraint ?? found?.constraint_name // pg, and postgres.js
  throw new Refusal(found?.code as string | undefined, typeof constraint === 'string' ? constraint : undefined)
}

/** The table of a backfill. `postgres.ts` makes one for PostgreSQL; applications provide others. */
import { readJson } from '@eaas/protocol'
import { ContentError, InvalidInputError } from '@eaas/sdk'
import type { Row, TableColumns } from '@eaas/sdk/maintenance'

export function columnNames({ fields, indexes, bind, header }: TableColumns): string[] {
  return [...fields, ...indexes.map(({ column }) => column), ...bind, header.column]
}

export interface TableRow {
  /** Identifies the row and gives its position in the order of rows. */
  readonly key: string
  /** The model's columns under the model's names, as values that the model opens: objects, text, numbers, null. */
  readonly row: Readonly<Row>
}

export interface TableChange {
  /** What was read: the very object that `page` or `again` returned. */
  readonly from: TableRow
  /** The columns to write; all others stay. */
  readonly to: Readonly<Row>
}

/** A table whose rows a backfill reads in the order of their keys. */
export interface Table {
  /**
   * Identifies what the keys belong to, such as the database, the table and the key's columns. `after` of the progress
   * includes it, and a run refuses an `after` with another one. Without it, an `after` from any table with keys of this
   * form would fit.
   */
  readonly scope?: string | undefined
  /** Reads the next rows after a key, or the first ones: at most `limit`, and none only at the end. */
  page(after: string | undefined, limit: number): Promise<readonly TableRow[]>
  /** Reads rows again, except deleted ones. If `page` still returns a row that is missing here, the run ends with an error. */
  again(keys: readonly string[]): Promise<readonly TableRow[]>
  /**
   * Writes each row in one step if all columns of the model still hold what was read (compare-and-swap), and must not
   * write it otherwise. Returns for each whether it was written. Its errors must not contain a row's values.
   */
  swap(changes: readonly TableChange[]): Promise<readonly boolean[]>
  /** Names a column that cannot hold what would be written, and why. The row then fails, even in `check` and a dry run. */
  unfit?(to: Readonly<Row>): { column: string; message: string } | undefined
  /** Called before a run that writes: throws if the table would refuse or change every value of this kind. */
  assertTakes?(kind: 'plaintext' | 'envelopes'): void | Promise<void>
  /** Names the table and the text column of a field in SQL, for advice. */
  sqlNames?(field: string): { table: string; column: string } | undefined
  /** Counts the rows after a key, to estimate the remaining time. */
  count?(after: string | undefined): Promise<number>
  /** Reads and counts only rows that may lack an index: searches miss them, so the work `index` begins with them. */
  readonly lacking?: { page: Table['page']; count(after: string | undefined): Promise<number> } | undefined
}

/** A table, or a function that opens one for the columns of the model. */
export type TableSource = Table | ((columns: TableColumns) => Promise<Table>)

/** Returns `after` for the next run. */
export function writeAfter({ scope }: Table, key: string): string {
  return scope === undefined ? key : JSON.stringify({ scope, key })
}

/** Returns the key after which to continue. @throws InvalidInputError when it belongs to another table */
export function readAfter({ scope }: Table, after: string | undefined): string | undefined {
  if (scope === undefined || after === undefined) return after
  const { scope: from, key } = Object(readJson(after)) as { scope?: unknown; key?: unknown }
  if (typeof from !== 'string' || typeof key !== 'string') throw notOfThisTable()
  if (from === scope) return key
  const hint = 'Omit it to begin at the first row: rows that are done cost reading only.'
  throw new InvalidInputError(`after belongs to ${from}, and this is ${scope}`, hint, { option: 'after' })
}

export function notOfThisTable(): InvalidInputError {
  const hint = 'Pass the text that progress told, or omit it.'
  return new InvalidInputError('after is no key of this table', hint, { option: 'after' })
}

/** Advice about a column that a row lacks. */
export const ROW_HINT =
  'The row has the columns of the model; name others in `readColumns` of postgresTable(). Bind the model to columns that never change only.'

/**
 * Calls a function of the application with a row. Returns undefined if it throws: its error may quote the row.
 * @throws ContentError when it reads a column that the row lacks, which String() would turn into `undefined`
 */
export function askWithRow(option: string, ask: (row: Readonly<Row>) => unknown, row: Readonly<Row>): unknown {
  let lacking: string | undefined
  const guarded = new Proxy(row, {
    get(target, name) {
      if (typeof name === 'string' && !(name in target)) lacking ??= name
      return Reflect.get(target, name)
    },
  })
  let made: unknown
  try {
    made = ask(guarded)
  } catch {
    // undefined
  }
  if (lacking === undefined) return made
  throw new ContentError(`\`${option}\` reads the column ${JSON.stringify(lacking)}, which the row lacks`, ROW_HINT)
}

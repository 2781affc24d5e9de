/** Where a backfill reads rows and writes them back. `postgres.ts` makes one for PostgreSQL; others are the application's. */
import type { Row } from '../input.js'
import type { Definition } from '../models/definition.js'

/** A row of the table, as it was read. */
export interface TableRow {
  /** Tells the row from all others, and its place in their order. */
  readonly key: string
  /** The columns of the model by the model's names, as values that the model opens: objects, text, numbers, null. */
  readonly row: Readonly<Row>
}

/** A row to write. */
export interface TableChange {
  /** What was read: the very object that `page` or `again` returned. */
  readonly from: TableRow
  /** The columns to write. All others stay as they are. */
  readonly to: Readonly<Row>
}

/** A table whose rows a backfill reads in the order of their keys. */
export interface Table {
  /**
   * What its keys belong to, such as the names of the database, the table and the key's columns. `after` of the progress holds it too, and that of another
   * table is refused. Without it `after` is a key alone, which fits any table that has keys of this form.
   */
  readonly scope?: string | undefined
  /** Reads the next rows behind a key, or the first ones; at most `limit`, and none only at the end. */
  page(after: string | undefined, limit: number): Promise<readonly TableRow[]>
  /** Reads rows again. Leaves out those that are gone; the run ends with an error when `page` still returns one of them. */
  again(keys: readonly string[]): Promise<readonly TableRow[]>
  /**
   * Writes each row in one step if all columns of the model still hold what was read (compare-and-swap), and must not write it otherwise. Tells
   * for each whether it was written. What it rejects with must hold no value of a row.
   */
  swap(changes: readonly TableChange[]): Promise<readonly boolean[]>
  /** Counts the rows behind a key, for the time left. */
  count?(after: string | undefined): Promise<number>
}

/** The columns of a model's table, by the model's names. */
export interface TableColumns {
  /** Hold a sealed value, or an object with some. */
  readonly fields: readonly string[]
  /** Hold the value of an index, or with `list` several. */
  readonly indexes: readonly { readonly column: string; readonly list: boolean }[]
  /** Identify the row, and are read only. */
  readonly bind: readonly string[]
  /** Holds what the fields of a compact row share; the table may lack it where the model writes another form. */
  readonly header: { readonly column: string; readonly required: boolean }
}

/** A table, or a function that opens one for the columns of the model. */
export type TableSource = Table | ((columns: TableColumns) => Promise<Table>)

export function columnsOf({ fields, columns, bind, header, format }: Definition): TableColumns {
  const heads = (list: readonly { path: readonly string[] }[]) => [...new Set(list.map(({ path }) => path[0] ?? ''))]
  return {
    fields: heads(fields),
    indexes: columns.map(({ column, kind }) => ({ column, list: kind === 'ngram' })),
    bind: heads(bind),
    header: { column: header, required: format === 'compact' },
  }
}

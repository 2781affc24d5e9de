/** Statements of many rows. An update takes its values from one JSON parameter, read as rows of the table's types. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import { quoteName } from './made-ids.js'
import type { SealedTable } from './sealed-table.js'

export const MANY_ROWS = 'eaas_rows'

export interface ManyRows {
  same: Row
  own: readonly string[]
  /** The values of these columns and of `bind`, as JSON text. */
  json: string
}

/** Seals the changes for each of the rows that were read. `nameOf` returns the database's name of a column. */
export async function sealMany(
  table: SealedTable,
  changes: Row,
  rows: readonly Row[],
  nameOf: (column: string) => string = (column) => column,
): Promise<ManyRows> {
  const sealed = await table.sealEach(changes, rows)
  const [first = {}] = sealed
  const own = Object.keys(first).filter((name) => table.stored.some(({ column }) => column === name))
  const values = rows.map((row, at) => ({
    ...Object.fromEntries(table.bind.map((column) => [nameOf(column), String(row[column])])),
    ...Object.fromEntries(own.map((column) => [nameOf(column), sealed[at]?.[column]])),
  }))
  const same = Object.fromEntries(Object.entries(first).filter(([column]) => !own.includes(column)))
  return { same, own, json: JSON.stringify(values) }
}

/** Names a column of the values as no table names one, so that other names stay unambiguous. */
export function manyRowsColumn(table: SealedTable, column: string): string {
  return `eaas_${table.columns.indexOf(column)}`
}

/** The SQL before and after the parameter with the values. `name` is the table in SQL. */
export function manyRowsSql(
  table: SealedTable,
  { own, name, quote = quoteName }: { own: readonly string[]; name: string; quote?: (column: string) => string },
): [before: string, after: string] {
  const columns = [...table.bind, ...own].map((column) => `${quote(column)} as ${manyRowsColumn(table, column)}`)
  return [
    `(select ${columns.join(', ')} from jsonb_populate_recordset(cast(null as ${name}), `,
    `::text::jsonb)) as ${MANY_ROWS}`,
  ]
}

/** The most parameters in a statement that the databases and all their usual drivers accept. */
export const MOST_PARAMETERS = { postgres: 65_533, mysql: 65_535, sqlite: 32_766, sqlServer: 2_100 } as const

/** Divides rows, in order, into parts of at most `most` parameters; `costOf` counts those of a row. */
export function divideRows<T>(rows: readonly T[], costOf: (row: T) => number, most: number): T[][] {
  const parts: T[][] = []
  let left = 0
  for (const row of rows) {
    const cost = costOf(row)
    const part = parts.at(-1)
    if (part && cost <= left) part.push(row)
    else parts.push([row])
    left = (part && cost <= left ? left : most) - cost
  }
  return parts
}

/** Refuses an insert of `rows` rows that has too many parameters and cannot be divided. @throws InvalidInputError */
export function refuseParameters(
  table: string,
  { rows, count, most }: Record<'rows' | 'count' | 'most', number>,
): never {
  throw new InvalidInputError(
    `${table}: with what is encrypted, the statement has ${count} parameters, and the database takes at most ${most}`,
    `Insert at most ${Math.floor((rows * most) / count)} rows by such a statement, not ${rows}.`,
  )
}

/**
 * Generates ids before the insert, as the database would. Only the statement gets them. The application's objects take
 * theirs from its result, so that no object has the id of a row that does not exist.
 */
import { makeLacking, quoteName, type Row, type RunSql } from '@eaas/sdk/adapter'
import type { ColumnMetadata } from './internals.js'
import type { Target } from './writes.js'

export interface MadeIds {
  /** The columns that some rows lacked. */
  columns: readonly (readonly [name: string, column: ColumnMetadata])[]
  /** The rows with their ids, once these are generated. */
  rows: readonly Row[]
}

/** Finds the columns, of `bind` by default, in which rows lack a value that would be generated. */
export function findLacking(target: Target, rows: readonly Row[], names = target.known.sealed.bind): MadeIds {
  const columns = names.flatMap((name) => {
    const column = columnNamed(target, name)
    const isLacking = column && isMade(column) && rows.some((row) => isMissing(row[name]))
    return isLacking ? [[name, column] as const] : []
  })
  return { columns, rows }
}

/** Returns the rows with their ids. One query generates all ids that the database would. */
export async function withIds({ metadata, ids }: Target, made: MadeIds, run: RunSql): Promise<Row[]> {
  const columns = made.columns.map(([name, column]) => ({
    name,
    column: column.databaseName,
    make: column.generationStrategy === 'uuid' ? () => crypto.randomUUID() : undefined,
    read: (text: unknown) => asReturned(column, text),
  }))
  const table = quoteName(metadata.tableName, metadata.schema)
  const ask = { table, columns, rows: made.rows, cannotOverride: metadata.name, isLacking: isMissing }
  const { rows } = await makeLacking(ids, run, ask)
  return made.rows.map((row, at) => ({ ...row, ...rows[at] }))
}

/** Aligns the returned rows with the sent ones if the insert skipped some. Otherwise TypeORM would give an object the id of another row. */
export function inPlaces({ columns, rows }: MadeIds, returned: readonly Row[]): readonly (Row | undefined)[] {
  const inDatabase = columns.map(([, column]) => column.databaseName)
  const isIdKnown = columns.length > 0 && returned.every((row) => inDatabase.every((column) => column in row))
  if (returned.length === rows.length || !isIdKnown) return returned
  const textOf = (row: Row, names: readonly string[]) => JSON.stringify(names.map((name) => String(row[name])))
  const found = new Map(returned.map((row) => [textOf(row, inDatabase), row]))
  const names = columns.map(([name]) => name)
  return rows.map((row) => found.get(textOf(row, names)))
}

/** Finds a column by the rows' name for it, which may be unknown to the model. */
export function columnNamed({ known, metadata }: Target, name: string): ColumnMetadata | undefined {
  return metadata.columns.find((column) => known.nameInRow(column) === name)
}

/** Returns the rows' name for a column of the database. */
export function nameByColumn({ known, metadata }: Pick<Target, 'known' | 'metadata'>, column: string): string {
  const found = metadata.findColumnWithDatabaseName(column)
  return found ? known.nameInRow(found) : ''
}

export function isMissing(value: unknown): boolean {
  return value === null || value === undefined
}

function isMade(column: ColumnMetadata): boolean {
  return column.isGenerated || column.default !== undefined
}

/** Returns the value as the driver would: all integer types but bigint as numbers. */
function asReturned({ type }: ColumnMetadata, text: unknown): unknown {
  return type === Number || /^(smallint|int|int2|int4|integer)$/.test(String(type)) ? Number(text) : text
}

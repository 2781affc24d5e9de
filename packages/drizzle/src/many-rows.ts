/** One update of PostgreSQL for many rows that were read, with values that are sealed to each. */
import { MANY_ROWS, manyRowsColumn, manyRowsSql, quoteName, type Row, sealMany } from '@eaas/sdk/adapter'
import { and, type Column, eq, type SQL, sql } from 'drizzle-orm'
import { type KnownTable, sqlName } from './tables.js'

/** Whether PostgreSQL reads the values of all columns from JSON: a type of the application's own may not. */
export function takesMany({ sealed, columns }: KnownTable): boolean {
  return sealed.columns.every((key) => {
    const { columnType = '', dataType } = columns[key] ?? {}
    return columnType.startsWith('Pg') && dataType !== 'custom'
  })
}

/** Seals the changes of rows, and returns what is set, from which values. */
export async function setMany(known: KnownTable, changes: Row, rows: readonly Row[]): Promise<{ set: Row; from: SQL }> {
  const { same, own, json } = await sealMany(known.sealed, changes, rows, known.nameIn)
  const quote = (key: string) => quoteName(known.nameIn(key))
  const [before, after] = manyRowsSql(known.sealed, { own, name: sqlName(known.table), quote })
  return {
    set: { ...same, ...Object.fromEntries(own.map((key) => [key, manyValue(known, key)])) },
    from: sql`${sql.raw(before)}${json}${sql.raw(after)}`,
  }
}

/** The condition by which each row is found again. */
export function boundToMany(known: KnownTable): SQL | undefined {
  return and(...known.sealed.bind.map((key) => eq(known.columns[key] as Column, manyValue(known, key))))
}

function manyValue({ sealed }: KnownTable, key: string): SQL {
  return sql.raw(`${MANY_ROWS}.${manyRowsColumn(sealed, key)}`)
}

/** One update of PostgreSQL for many rows that were read, with values sealed to each. */
import { MANY_ROWS, manyRowsColumn, manyRowsSql, quoteName, type Row, sealMany } from '@eaas/sdk/adapter'
import { and, type Column, eq, type SQL, sql } from 'drizzle-orm'
import { type KnownTable, sqlName } from './tables.js'

/** Tells whether PostgreSQL reads the values of all columns from JSON: a custom type may not be readable so. */
export function takesMany({ sealed, columns }: KnownTable): boolean {
  return sealed.columns.every((key) => {
    const { columnType = '', dataType } = columns[key] ?? {}
    return columnType.startsWith('Pg') && dataType !== 'custom'
  })
}

/** Seals the changes of rows; returns what is set, and the values that it is set from. */
export async function setMany(known: KnownTable, changes: Row, rows: readonly Row[]): Promise<{ set: Row; from: SQL }> {
  const { same, own, json } = await sealMany(known.sealed, changes, rows, known.nameIn)
  const quote = (key: string) => quoteName(known.nameIn(key))
  const [before, after] = manyRowsSql(known.sealed, { own, name: sqlName(known.table), quote })
  return {
    set: { ...same, ...Object.fromEntries(own.map((key) => [key, manyValue(known, key)])) },
    from: sql`${sql.raw(before)}${json}${sql.raw(after)}`,
  }
}

/** Returns the condition that finds each row again. */
export function boundToMany(known: KnownTable): SQL | undefined {
  return and(...known.sealed.bind.map((key) => eq(known.columns[key] as Column, manyValue(known, key))))
}

function manyValue({ sealed }: KnownTable, key: string): SQL {
  return sql.raw(`${MANY_ROWS}.${manyRowsColumn(sealed, key)}`)
}

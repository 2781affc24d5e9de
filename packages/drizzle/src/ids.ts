/** What PostgreSQL is asked before a write: for the ids that it makes, and for triggers that change values. */

import { assertWritable, createIdMaker, type IdMaker, type Row, refuseCall } from '@eaas/sdk/adapter'
import { type Column, sql } from 'drizzle-orm'
import { type KnownTables, sqlName } from './tables.js'
import type { Database, Written } from './written.js'

/** One maker per database, which knows how that fills its columns. */
const makers = new WeakMap<KnownTables, IdMaker>()

/** @throws InvalidInputError if a trigger would change what is written */
export async function assertNoTriggers({ known, table, on }: Written): Promise<void> {
  const { sealed, columns, nameIn } = known
  const isPostgres = Object.values(columns).some(({ columnType }) => columnType.startsWith('Pg'))
  if (!isPostgres || !on.execute) return
  await assertWritable((text) => runText(on, text), sealed, { table: sqlName(table), nameIn })
}

/** Adds the ids that PostgreSQL would make. */
export async function withMadeIds(
  { tables, known, table, on }: Written,
  rows: readonly Row[],
): Promise<{ rows: Row[]; isAlways: boolean }> {
  const keys = known.sealed.bind.filter(
    (key) => isMade(known.columns[key]) && rows.some((row) => row[key] === undefined),
  )
  if (keys.length === 0) return { rows: [...rows], isAlways: false }
  if (!on.execute) {
    refuseCall(`with() of an insert into ${known.sealed.name} whose id the database makes`, 'Give the rows their ids.')
  }
  const columns = keys.map((key) => known.nameIn(key))
  const maker = makers.get(tables) ?? createIdMaker()
  makers.set(tables, maker)
  const made = await maker.make((text) => runText(on, text), sqlName(table), { columns, count: rows.length })
  const filled = rows.map((row, at) => {
    const own = keys.flatMap((key, number) => {
      const value = made.rows[at]?.[columns[number] ?? '']
      return row[key] === undefined ? [[key, known.columns[key]?.mapFromDriverValue(value)] as const] : []
    })
    return { ...row, ...Object.fromEntries(own) }
  })
  return { rows: filled, isAlways: made.isAlways }
}

/** Tells whether PostgreSQL makes the values of a column. */
function isMade(column: Column | undefined): boolean {
  if (column === undefined || !column.columnType.startsWith('Pg')) return false
  return column.hasDefault || column.generatedIdentity !== undefined
}

/** Runs SQL as text. Drivers return rows in different ways. */
async function runText(on: Database, text: string): Promise<Row[]> {
  const result = await on.execute(sql.raw(text))
  return (Array.isArray(result) ? result : (result as { rows: Row[] }).rows) as Row[]
}

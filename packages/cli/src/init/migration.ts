/** The SQL that changes a table in PostgreSQL and keeps its values. */
import { fieldText, quoteName } from '../backfill/postgres-values.js'
import { addSealedChecks, makeSealedChecks } from '../backfill/sealed-checks.js'
import type { Column, FoundTable } from './application.js'

/** A table, its columns to encrypt, and those of them that lack an index column. */
export interface Change {
  table: FoundTable
  columns: readonly Column[]
  lacking: readonly Column[]
  timeZone: string
}

/** Tells whether sealed text does not fit the type of a column, which then becomes `text`. */
export function isConverted({ type }: Column): boolean {
  return !['text', 'json', 'jsonb'].includes(type)
}

/** SQL for the text of a column from which its field reads the value. */
function textOf(column: string, type: string, timeZone: string): string {
  const isLocal = type === 'timestamp without time zone' && timeZone !== 'UTC'
  return isLocal
    ? fieldText(`${column} at time zone '${timeZone}'`, 'timestamp with time zone')
    : fieldText(column, type)
}

export function convertColumns({ table, columns, timeZone }: Change): string[] {
  const actions = columns.filter(isConverted).map(({ stored, type }) => {
    const column = quoteName(stored)
    return `ALTER COLUMN ${column} TYPE TEXT${type === 'character varying' ? '' : ` USING ${textOf(column, type, timeZone)}`}`
  })
  return actions.length > 0 ? [`ALTER TABLE ${sqlName(table)} ${actions.join(', ')};`] : []
}

/** The same for tools whose own cast omits the zone of times, and depends on database settings for days and fractions. */
export function convertByHand(change: Change): string | undefined {
  const isCast = change.columns.some(({ type }) => /^(timestamp|date|real|double)/.test(type))
  return isCast ? convertColumns(change)[0] : undefined
}

export function addIndexes({ table, lacking }: Change): string[] {
  return lacking.flatMap((one) => {
    const { index, isUnique } = one
    const name = quoteName(indexName(table, one))
    const column = quoteName(index.stored)
    return [
      `ALTER TABLE ${sqlName(table)} ADD COLUMN ${column} TEXT;`,
      `CREATE ${isUnique ? 'UNIQUE ' : ''}INDEX ${name} ON ${sqlName(table)}(${column});`,
    ]
  })
}

/** The name of the index on a model's index column, as Prisma names it. */
export function indexName({ stored }: FoundTable, { index, isUnique }: Column): string {
  return `${stored}_${index.stored}_${isUnique ? 'key' : 'idx'}`
}

export function addConstraints({ table, columns }: Change): string {
  const sealed = columns.map((column) => {
    const type = column.kind === 'json' && !isConverted(column) ? 'json' : 'text'
    return { column: column.stored, path: [], format: 'text', type } as const
  })
  return addSealedChecks(sqlName(table), makeSealedChecks('postgresql', table.stored, sealed))
}

function sqlName({ schema, stored }: FoundTable): string {
  return [...(schema ? [schema] : []), stored].map(quoteName).join('.')
}

/** How a database returns what was stored in a column. */
import { AS_READ, type Row, refuseSpelling, spellAs, spellRow } from '@eaas/sdk/adapter'
import type { Column } from 'drizzle-orm'
import type { KnownTable } from './tables.js'

/** Spells a row in the columns of `bind` as the database will return it. @throws InvalidInputError if that is unknown */
export function withSpellings({ sealed, columns }: KnownTable, row: Row): Row {
  return spellRow(sealed, row, (key, value) => {
    const column = columns[key]
    return column ? spell(column, value) : value
  })
}

/** Tells whether the database finds a row only by spellings that `withSpellings` unifies. */
export function isFoundBySpelling({ sealed, columns }: KnownTable): boolean {
  return sealed.bind.every((key) => {
    const column = columns[key]
    // MySQL compares text without case. What a custom type does is unknown.
    return !column || !/Custom|^(MySql|SingleStore)/.test(column.columnType) || isWhole(column)
  })
}

/** @throws InvalidInputError if a row has another spelling in a column of `bind` than it was found by */
export function assertSpelled({ sealed, columns }: KnownTable, stored: Row, given: Row): void {
  for (const key of sealed.bind) {
    const column = columns[key]
    if (column && given[key] !== undefined && String(stored[key]) !== String(given[key]))
      refuseSpelling(sealed.name, key, AS_READ)
  }
}

function isWhole(column: Column): boolean {
  return /^(tiny|small|medium|big)?(int|serial)/.test(column.getSQLType())
}

/** Spells a value, which must be spelled already but for the case of a UUID. */
function spell(column: Column, value: string | number | bigint) {
  const type = column.getSQLType().toLowerCase()
  if (column.dataType === 'custom' && type !== 'uuid' && !isWhole(column)) return value
  const isText = type.startsWith('text') || Boolean(column.enumValues)
  const spelled = spellAs(isWhole(column) ? 'bigint' : type, value, isText)
  const given = type === 'uuid' ? String(value).toLowerCase() : String(value)
  return String(spelled) === given ? spelled : undefined
}

/**
 * How a database returns what was stored in a column. Values are bound to the row as it is returned: an id in
 * another spelling finds the row, but a value sealed for that spelling no longer opens.
 */

import { isSpelledUuid, isSpelledWhole, type Row, refuseSpelling } from '@eaas/sdk/adapter'
import type { Column } from 'drizzle-orm'
import type { KnownTable } from './tables.js'

const BINDABLE = 'Pass it as it was read. Bind values to a column of uuid, whole numbers or text.'

/**
 * Replaces the values of a row in the columns of `bind` by what the database will return. @throws InvalidInputError
 * if that is unknown
 */
export function withSpellings({ sealed, columns }: KnownTable, row: Row): Row {
  const spelled = sealed.bind.flatMap((key) => {
    const column = columns[key]
    const value = row[key]
    if (!column || !isText(value)) return []
    return [[key, spell(column, value) ?? refuseSpelling(sealed.name, key, BINDABLE)]]
  })
  return spelled.length > 0 ? { ...row, ...Object.fromEntries(spelled) } : row
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
    if (column && given[key] !== undefined && String(stored[key]) !== String(given[key])) {
      refuseSpelling(sealed.name, key, BINDABLE)
    }
  }
}

type Bound = string | number | bigint

function isText(value: unknown): value is Bound {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
}

function isWhole(column: Column): boolean {
  return /^(tiny|small|medium|big)?(int|serial)/.test(column.getSQLType())
}

function spell(column: Column, value: Bound): Bound | undefined {
  const type = column.getSQLType().toLowerCase()
  if (type === 'uuid') {
    const lower = String(value).toLowerCase()
    return isSpelledUuid(lower) ? lower : undefined
  }
  if (isWhole(column)) return isSpelledWhole(value) ? value : undefined
  if (column.dataType === 'custom') return value
  // The database pads a shorter value, and cuts trailing spaces that do not fit.
  const [, length] = /^char(?:acter)?(?:\((\d+)\))?$/.exec(type) ?? []
  if (/^char(acter)?\b/.test(type) && !/varying/.test(type))
    return String(value).length === Number(length ?? 1) ? value : undefined
  if (/^(varchar|character varying)/.test(type)) return String(value).endsWith(' ') ? undefined : value
  return type.startsWith('text') || column.enumValues ? value : undefined
}

/**
 * Finds which row a write is bound to: the values that its condition gives, as the database returns them. Reads only
 * conditions that Drizzle's own functions build, since SQL text may end in `or true`.
 */
import { AS_READ, type Row, refuseSpelling, spellAs, spellRow } from '@eaas/sdk/adapter'
import { Column, is, Param, SQL, StringChunk, type Table } from 'drizzle-orm'
import { isGuarded } from './columns.js'
import { isBlank, textOf } from './conditions.js'
import { isColumn, type KnownTable } from './tables.js'

const OPERATORS = new Set('=,<>,>,>=,<,<=,like,not like,ilike,not ilike,in,not in'.split(','))

/** Reads the values that a condition gives for a row: `id = 7`, alone or joined by `and`; undefined if unreadable. */
export function readPins(known: KnownTable, table: Table, condition: unknown): Row | undefined {
  if (!is(condition, SQL) || (condition as unknown as { shouldInlineParams: boolean }).shouldInlineParams)
    return undefined
  const chunks = condition.queryChunks.filter((chunk) => !isBlank(chunk))
  const [first, second, third, ...rest] = chunks
  if (isColumn(first)) return readComparison(known, table, chunks)
  if (chunks.length === 1) {
    // `inArray` of an empty list is `false`.
    return is(first, StringChunk) && /^(true|false)$/.test(textOf(first)) ? {} : readPins(known, table, first)
  }
  if (!is(first, StringChunk)) return undefined
  if (textOf(first) === 'not' && second !== undefined && third === undefined)
    return readPins(known, table, second) && {}
  const isClosed = textOf(first) === '(' && is(third, StringChunk) && textOf(third) === ')' && rest.length === 0
  return isClosed && is(second, SQL) ? readJoined(known, table, second) : undefined
}

function readJoined(known: KnownTable, table: Table, { queryChunks }: SQL): Row | undefined {
  const words = queryChunks
    .filter((_, at) => at % 2 === 1)
    .map((chunk) => (is(chunk, StringChunk) ? textOf(chunk) : ''))
  const isAnd = words.every((word) => word === 'and')
  if (!isAnd && !words.every((word) => word === 'or')) return undefined
  const parts = queryChunks.filter((_, at) => at % 2 === 0).map((part) => readPins(known, table, part))
  if (parts.includes(undefined)) return undefined
  return isAnd ? Object.assign({}, ...parts) : {}
}

function readComparison(known: KnownTable, table: Table, chunks: readonly unknown[]): Row | undefined {
  const [column, operator, value, word, end] = chunks
  if (!isColumn(column) || !is(operator, StringChunk)) return undefined
  const name = textOf(operator)
  if (/^is( not)? null$/.test(name) && chunks.length === 2) return {}
  if (/^(not )?between$/.test(name) && chunks.length === 5)
    return is(word, StringChunk) && textOf(word) === 'and' && isValue(value) && isValue(end) ? {} : undefined
  if (!OPERATORS.has(name) || chunks.length !== 3 || !isValue(value)) return undefined
  return name === '=' && is(value, Param) && column.table === table ? { [known.keyOf(column)]: value.value } : {}
}

function isValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isValue)
  if (is(value, Param))
    return isValue(value.value) && (isGuarded(value.encoder) || !is(value.encoder.mapToDriverValue(value.value), SQL))
  return typeof value !== 'object' || value === null || value instanceof Date || is(value, Column)
}

/** Spells a row in the columns of `bind` as the database will return it. @throws InvalidInputError if that is unknown */
export function withSpellings({ sealed, columns }: KnownTable, row: Row): Row {
  return spellRow(sealed, row, (key, value) => {
    const column = columns[key]
    return column ? spell(column, value) : value
  })
}

/** Tells whether the database finds a row only in the spellings that `withSpellings` returns. */
export function isFoundBySpelling({ sealed, columns }: KnownTable): boolean {
  return sealed.bind.every((key) => {
    const column = columns[key]
    // MySQL compares text without case. What a custom type does is unknown.
    return !column || !/Custom|^(MySql|SingleStore)/.test(column.columnType) || isWhole(column)
  })
}

/** @throws InvalidInputError if a row's column of `bind` is spelled otherwise than the value it was found by */
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

/** Returns a value as the database will; undefined unless it is spelled so already, apart from the case of a UUID. */
function spell(column: Column, value: string | number | bigint) {
  const type = column.getSQLType().toLowerCase()
  if (column.dataType === 'custom' && type !== 'uuid' && !isWhole(column)) return value
  const isText = type.startsWith('text') || Boolean(column.enumValues)
  const spelled = spellAs(isWhole(column) ? 'bigint' : type, value, isText)
  const given = type === 'uuid' ? String(value).toLowerCase() : String(value)
  return String(spelled) === given ? spelled : undefined
}

/** Rows to insert, and changes, whose encrypted columns hold values that are sealed when the query is sent. */
import { InvalidInputError } from '@eaas/sdk'
import {
  type IdMaker,
  isSpelledUuid,
  isSpelledWhole,
  MANY_ROWS,
  manyRowsColumn,
  manyRowsSql,
  quoteName,
  type Row,
  type RunSql,
  refuseComputed,
  refuseSpelling,
  sealMany as sealRows,
} from '@eaas/sdk/adapter'
import type { EntityMetadata } from 'typeorm'
import { findLacking, type MadeIds, withIds } from './ids.js'
import type { ColumnMetadata, UpdateBuilder } from './internals.js'
import { once, Pending } from './pending.js'
import { isTextual, type KnownTable } from './tables.js'
import { marked } from './text.js'

/** Prepares a column's value for the driver. */
export type Prepare = (value: unknown, column: ColumnMetadata) => unknown

export type Target = { known: KnownTable; metadata: EntityMetadata; prepare: Prepare; ids: IdMaker }

/** Returns the rows with the model's columns replaced, and the ids that they will get. */
export function sealInserts(target: Target, entities: readonly object[]): { values: object[]; made: MadeIds } {
  const { known, metadata, prepare } = target
  const { sealed } = known
  const rows = entities.map((entity) => readRow(known, metadata, entity))
  const made = findLacking(target, rows)
  const all = once(async (run: RunSql) => {
    made.rows = await withIds(target, made, run)
    return sealed.sealRows(made.rows)
  })
  const lacking = made.columns.map(([name]) => name)
  const filled = sealed.columns.filter((name) => lacking.includes(name) || !sealed.bind.includes(name))
  const values = entities.map((entity, at) => {
    const own = new Map<unknown, Pending>()
    for (const name of filled) {
      const column = known.columnOf(metadata, name)
      own.set(column.propertyName, new Pending(async (run) => prepare((await all(run))[at]?.[name], column)))
    }
    // A proxy, not a copy: an entity may have private fields.
    return new Proxy(entity, {
      get: (from, key) => own.get(key) ?? Reflect.get(from, key, from),
      has: (from, key) => own.has(key) || Reflect.has(from, key),
    })
  })
  return { values, made }
}

/** Returns the changes with the model's columns replaced. `bound` are the known values of the changed row. */
export function sealChanges({ known, metadata, prepare }: Target, changes: Row, bound: Row): Row {
  const { sealed } = known
  const { row, own, out } = readChanges({ known, metadata }, changes, [bound])
  if (own.length === 0) return out
  if (own.some((name) => sealed.isSealed(name))) assertSpelling(known, metadata, bound)
  const all = once(() => sealed.sealChanges(row, bound))
  const names = new Set(sealed.withMade(own))
  for (const name of names) {
    const column = known.columnOf(metadata, name)
    out[column.propertyName] = new Pending(async () => {
      const made = await all()
      const other = sealed.columns.find((one) => names.has(one) !== (made[one] !== undefined))
      if (other !== undefined) refusePart(sealed.name, other)
      return prepare(made[name], column)
    })
  }
  return out
}

/**
 * Reads a change: its values, which of them are in columns of the model, and what else is set.
 * @throws InvalidInputError if it would give a row another key
 */
export function readChanges(
  { known, metadata }: Pick<Target, 'known' | 'metadata'>,
  changes: Row,
  rows: readonly Row[],
): { row: Row; own: string[]; out: Row } {
  const { sealed } = known
  const row = readRow(known, metadata, changes)
  const given = metadata.columns.map((column) => [known.nameInRow(column), column.getEntityValue(changes)])
  const values = Object.fromEntries(given) as Row
  for (const bound of rows) sealed.assertKeepsKey(values, bound)
  const own = Object.keys(row).filter((name) => sealed.columns.includes(name))
  const out = { ...changes }
  // A loaded entity holds old index values. TypeORM would take them for changes once the field was saved.
  for (const name of madeColumns(known)) {
    const { propertyName, databaseName } = known.columnOf(metadata, name)
    if (out[propertyName] !== undefined) out[propertyName] = () => quoteName(databaseName)
  }
  return { row, own, out }
}

export function madeColumns({ sealed }: KnownTable): string[] {
  return sealed.columns.filter((name) => !sealed.isSealed(name) && !sealed.bind.includes(name))
}

export function refusePart(table: string, column: string): never {
  throw new InvalidInputError(
    `${table}.${column} is made of more fields than the change has`,
    'Change all of its fields together.',
  )
}

/** Reads the values of an entity. @throws InvalidInputError for SQL in a column of the model */
export function readRow(known: KnownTable, metadata: EntityMetadata, entity: object): Row {
  const { sealed } = known
  const made = madeColumns(known)
  const row: Row = {}
  for (const column of metadata.columns) {
    const name = known.nameInRow(column)
    const value: unknown = column.getEntityValue(entity)
    if (value === undefined || made.includes(name)) continue
    if (typeof value !== 'function') row[name] = value
    else if (sealed.columns.includes(name)) refuseComputed(sealed.name, name)
  }
  assertSpelling(known, metadata, row)
  return row
}

/** @throws InvalidInputError if a value in a column of `bind` is not spelled as the database returns it */
function assertSpelling({ sealed, columnOf }: KnownTable, metadata: EntityMetadata, row: Row): void {
  for (const name of sealed.bind) {
    const value = row[name]
    if (value === null || value === undefined) continue
    const { type } = columnOf(metadata, name)
    if (isTextual(type)) continue
    const isSpelled = type === 'uuid' ? isSpelledUuid(value) : isSpelledWhole(value)
    if (!isSpelled) refuseSpelling(sealed.name, name)
  }
}

export interface Many {
  target: Target
  /** The changes, with SQL for the model's columns. */
  changes: Row
  /** The columns whose values differ by row. */
  own: readonly string[]
  json: Pending
}

export function sealMany(target: Target, changes: Row, rows: readonly Row[]): Many {
  const { known, metadata } = target
  const { sealed } = known
  const { row, own: given, out } = readChanges(target, changes, rows)
  const own = sealed.withMade(given).filter((name) => !sealed.bind.includes(name))
  for (const name of own) out[known.columnOf(metadata, name).propertyName] = () => manyValue(target, name)
  const json = new Pending(async () => {
    const many = await sealRows(sealed, row, rows, (name) => known.columnOf(metadata, name).databaseName)
    const other = sealed.columns.find((name) => own.includes(name) !== many.own.includes(name))
    return other === undefined ? many.json : refusePart(sealed.name, other)
  })
  return { target, changes: out, own, json }
}

/** Returns the SQL of the values, and of the condition that finds each row again. */
export function conditionOfMany(builder: UpdateBuilder, { target, own, json }: Many): string {
  const { sealed } = target.known
  const table = builder.getTableName(builder.getMainTableName())
  const quote = (name: string) => quoted(builder, target, name)
  const [before, after] = manyRowsSql(sealed, {
    own,
    name: table,
    quote: (name) => (sealed.bind.includes(name) ? quote(name) : marked(quote(name))),
  })
  const found = sealed.bind.map((name) => `${table}.${quote(name)} = ${manyValue(target, name)}`)
  return ` FROM ${before}${builder.createParameter(json)}${after} WHERE ${found.join(' AND ')}`
}

export function markMany(builder: UpdateBuilder, { target, own }: Many, text: string): string {
  return own.reduce((sql, name) => {
    const column = quoted(builder, target, name)
    const value = manyValue(target, name)
    return sql.replace(`${column} = ${value}`, () => `${marked(column)} = ${value}`)
  }, text)
}

function quoted(builder: UpdateBuilder, { known, metadata }: Target, name: string): string {
  return builder.escape(known.columnOf(metadata, name).databaseName)
}

function manyValue({ known }: Target, name: string): string {
  return `${MANY_ROWS}.${manyRowsColumn(known.sealed, name)}`
}

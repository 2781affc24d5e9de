/** One update for many rows that were read, with values sealed to each. */
import { MANY_ROWS, manyRowsColumn, manyRowsSql, type Row, sealMany as sealRows } from '@eaas/sdk/adapter'
import type { UpdateBuilder } from './internals.js'
import { Pending } from './pending.js'
import { marked } from './text.js'
import { readChanges, refusePart, type Target } from './writes.js'

/** What many rows are set to. */
export interface Many {
  target: Target
  /** The changes; those of the model's columns are SQL. */
  changes: Row
  /** The columns in which each row has its own value. */
  own: readonly string[]
  /** The values of all rows. */
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

/** Returns the source of the values, and the condition that finds each row again. */
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

/** Marks the columns that are set. */
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

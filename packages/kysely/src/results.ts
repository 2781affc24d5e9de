/** Opens the rows that a query of Kysely returned. */
import { type Row, refuseCall } from '@eaas/sdk/adapter'
import { type Instance, instanceOf, type Output } from './scope.js'

/** @throws InvalidInputError if two columns of a result share a name, and one is encrypted, or one that values are bound to */
export function assertDistinct(outputs: readonly Output[]): void {
  const seen = new Map<string, { instance: Instance; column: string }>()
  for (const output of outputs) {
    if ('inner' in output) {
      assertDistinct(output.inner)
      continue
    }
    const instance = instanceOf(output)
    const columns =
      'all' in output ? output.all.table.columns.map((name) => [name, name]) : [[output.name, output.source.column]]
    for (const [name = '', column = ''] of columns) {
      const other = seen.get(name)
      if (other && (other.instance !== instance || other.column !== column))
        refuseCall(`a result with two columns ${JSON.stringify(name)}`, 'Give each a name of its own, by `as`.')
      seen.set(name, { instance, column })
    }
  }
}

/** Refuses, before the query runs, to return an encrypted column without what it is bound to. */
export function assertReadable(outputs: readonly Output[]): void {
  for (const output of outputs) if ('inner' in output) assertReadable(output.inner)
  for (const [{ table }, columns] of columnsByInstance(outputs)) table.assertReadable(columns)
}

export function columnsByInstance(outputs: readonly Output[]): Map<Instance, string[]> {
  const selected = new Map<Instance, string[]>()
  for (const output of outputs) {
    if ('inner' in output) continue
    const columns = 'all' in output ? output.all.table.columns : [output.source.column]
    const instance = instanceOf(output)
    selected.set(instance, [...(selected.get(instance) ?? []), ...columns])
  }
  return selected
}

type Place = { column: string; name: string }

export async function openRows(outputs: readonly Output[], rows: readonly Row[], isJson = false): Promise<void> {
  const inner = outputs.flatMap((output) => ('inner' in output ? [output] : []))
  const own = outputs.flatMap((output) => ('inner' in output ? [] : [output]))
  for (const { name, inner: columns } of inner) if (columns.length > 0) parseJson(rows, name)
  const instances = new Set(own.map(instanceOf))
  const result = { rows, isJson, names: new Set(outputs.flatMap((output) => ('all' in output ? [] : [output.name]))) }
  await Promise.all([
    ...inner.map((output) => openRows(output.inner, rows.flatMap((row) => row[output.name] ?? []) as Row[], true)),
    ...[...instances].map((instance) => {
      const some = own.filter((output) => instanceOf(output) === instance)
      return openInstance(instance, some, result)
    }),
  ])
}

/** Parses the JSON of an inner query, which SQLite returns as text. */
function parseJson(rows: readonly Row[], name: string): void {
  for (const row of rows) if (typeof row[name] === 'string') row[name] = JSON.parse(row[name]) as unknown
}

/** Removes from opened rows, and from JSON in them, what was selected only for the adapter. */
export function hide(outputs: readonly Output[], rows: readonly Row[]): void {
  for (const output of outputs) {
    if ('inner' in output) hide(output.inner, rows.flatMap((row) => row[output.name] ?? []) as Row[])
  }
  const hidden = outputs.flatMap((output) => ('isHidden' in output && output.isHidden ? [output.name] : []))
  if (hidden.length > 0) for (const row of rows) for (const name of hidden) delete row[name]
}

interface Result {
  rows: readonly Row[]
  isJson: boolean
  names: ReadonlySet<string>
}

async function openInstance(
  { table }: Instance,
  outputs: readonly Output[],
  { rows, isJson, names }: Result,
): Promise<void> {
  const places = rows.map((row) => outputs.flatMap((output) => placesIn(output, row, names)))
  if (!places.some((some) => some.some(({ column }) => table.isSealed(column)))) return
  const opened = await table.openRows(rows.map((row, at) => readStored(row, places[at] ?? [])))
  for (const [at, row] of rows.entries()) {
    for (const { column, name } of places[at] ?? []) {
      if (!table.isSealed(column) || (row[name] ?? null) === null) continue
      const value = opened[at]?.[column]
      row[name] = isJson ? asInJson(value) : value
    }
  }
}

/** @throws InvalidInputError if a column has two values: they belong to two rows, and one row would get the other's */
function readStored(row: Row, places: readonly Place[]): Row {
  const stored: Row = {}
  for (const { column, name } of places) {
    if (column in stored && textOf(stored[column]) !== textOf(row[name]))
      refuseCall(`a result in which ${column} has two values`, 'Select each table by itself.')
    stored[column] = row[name]
  }
  return stored
}

function textOf(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function placesIn(output: Output, row: Row, names: ReadonlySet<string>): Place[] {
  if ('source' in output) return [{ column: output.source.column, name: output.name }]
  if ('inner' in output) return []
  const { columns, keyByRow } = output.all.table
  // Columns that the model does not name determine the key of each row.
  const own = Object.keys(row).filter((column) => columns.includes(column) || (keyByRow && !names.has(column)))
  return own.map((column) => ({ column, name: column }))
}

/** Returns dates and bytes as the text that databases write in JSON, and that Kysely's types promise. */
function asInJson(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString()
  if (!(value instanceof Uint8Array)) return value
  return `\\x${Array.from(value, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

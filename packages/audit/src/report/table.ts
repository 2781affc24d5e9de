/** The parts of a report's sections. A table becomes a table of the page, a CSV file, and a JSON member. */
import type { Figure } from './figure.js'

/** A cell of kind `count` is a figure, or `unknown`. */
export type Cell = string | number | null | Figure

/** `id`: of a key, API key or tenant; `entry`: of an entry, with a link to it; `user`: as the application named them. */
export type Kind = 'text' | 'user' | 'id' | 'time' | 'number' | 'count' | 'entry' | 'mark'

export interface Column {
  /** the name in CSV and JSON */
  name: string
  title: string
  kind: Kind
}

export type Tone = 'alarm' | 'due'

export interface Row {
  cells: readonly Cell[]
  tones?: Readonly<Record<string, Tone>>
}

export interface Table {
  /** the name of the CSV file and the JSON member */
  name: string
  title: string
  columns: readonly Column[]
  rows: readonly Row[]
  /** shown instead of a table without rows */
  empty: string
  notes?: readonly string[]
}

export interface Section {
  id: string
  title: string
  about: readonly string[]
  tables: readonly Table[]
  days?: readonly Day[]
}

/** How much was opened on a day (UTC). */
export interface Day {
  day: string
  opened: number
  exported: number
  /** openings by hour, 24 numbers */
  hours: readonly number[]
  figure: Figure
  isSpike: boolean
}

/** Adds a column of names after each column of ids, for forms that show no name with an id. */
export function withNames(table: Table, names: ReadonlyMap<string, string>): Table {
  const { columns, rows } = table
  const isId = columns.map(({ kind }) => kind === 'id')
  return {
    ...table,
    columns: columns.flatMap((column, at): Column[] => {
      const { name, title } = column
      return isId[at] ? [column, { name: `${name}_name`, title: `${title}: name`, kind: 'text' }] : [column]
    }),
    rows: rows.map((row) => ({
      ...row,
      cells: row.cells.flatMap((cell, at) => (isId[at] ? [cell, names.get(String(cell)) ?? null] : [cell])),
    })),
  }
}

/** Columns, each with a function that makes its cell for an item. */
export type Columns<Item> = readonly (readonly [name: string, title: string, kind: Kind, cell: (item: Item) => Cell])[]

interface Layout<Item> extends Omit<Table, 'columns' | 'rows'> {
  columns: Columns<Item>
  tonesOf?: (item: Item) => NonNullable<Row['tones']>
}

/** Makes a table with a row for each item. */
export function layOut<Item>(items: readonly Item[], { columns, tonesOf = () => ({}), ...rest }: Layout<Item>): Table {
  return {
    ...rest,
    columns: columns.map(([name, title, kind]) => ({ name, title, kind })),
    rows: items.map((item) => ({ cells: columns.map(([, , , cell]) => cell(item)), tones: tonesOf(item) })),
  }
}

export function isFigure(cell: Cell): cell is Figure {
  return typeof cell === 'object' && cell !== null
}

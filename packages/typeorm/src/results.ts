/** Opens and filters the rows of a query, from the columns that it selects. */
import { pageOf, type Row } from '@eaas/sdk/adapter'
import type { MadeIds } from './ids.js'
import type { RowFilter } from './pending.js'
import type { KnownTable } from './tables.js'

export interface Output {
  known: KnownTable
  /** The table's alias, since a query may have several rows of one table. */
  alias: string
  /** The column's name in the model; `output` is its name in the result. */
  name: string
  output: string
  /** Whether the adapter added it, and removes it from the rows. */
  isHidden?: boolean
}

/** A query that a builder is about to send. */
export interface Run {
  outputs: Output[]
  /** Whether the query runner opens the rows. A select's rows are opened later, after TypeORM has read its cache. */
  opens: boolean
  /** Whether the query is a step of a write that is undone if it fails. */
  isStep?: boolean
  /** The ids that an insert sends. */
  made?: MadeIds
  /** What the rows of a select must match. */
  filters?: readonly RowFilter[]
  /** The requested page, counted after the rows are filtered. */
  page?: { skip: number; take: number | undefined }
}

/** Refuses an encrypted column without the columns that it is bound to. @throws InvalidInputError */
export function assertReadable(outputs: readonly Output[]): void {
  for (const own of byAlias(outputs)) own[0]?.known.sealed.assertReadable(own.map(({ name }) => name))
}

export async function openRows(outputs: readonly Output[], rows: readonly Row[]): Promise<void> {
  await Promise.all(byAlias(outputs).map((own) => openAlias(own, rows)))
}

/** Returns the matching rows of the requested page. */
export function filterRows({ outputs, filters = [], page }: Run, rows: Row[]): Row[] {
  const isRight = (row: Row) =>
    filters.every(({ alias, field, query }) => {
      const output = outputs.find((one) => one.alias === alias && one.name === field)
      return output?.known.sealed.searches.matches({ [field]: row[output.output] }, [{ field, query }])
    })
  return filters.length > 0 || page ? pageOf(rows, isRight, page) : rows
}

export function hide(outputs: readonly Output[], rows: readonly Row[]): void {
  const hidden = outputs.filter(({ isHidden }) => isHidden)
  if (hidden.length > 0) for (const row of rows) for (const { output } of hidden) delete row[output]
}

function byAlias(outputs: readonly Output[]): Output[][] {
  const aliases = new Set(outputs.map(({ alias }) => alias))
  return [...aliases].map((alias) => outputs.filter((output) => output.alias === alias))
}

async function openAlias(outputs: readonly Output[], rows: readonly Row[]): Promise<void> {
  const [first] = outputs
  if (!first) return
  const { sealed } = first.known
  const opened = await sealed.openRows(
    rows.map((row) => Object.fromEntries(outputs.map(({ name, output }) => [name, row[output]]))),
  )
  for (const [at, row] of rows.entries()) {
    for (const { name, output } of outputs) {
      if (sealed.isSealed(name) && (row[output] ?? null) !== null) row[output] = opened[at]?.[name]
    }
  }
}

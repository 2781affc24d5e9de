/** Opens the rows of a query, by the columns that it selects. */
import { groupBy } from '../../groups.js'
import { isMissing, type Row } from '../../input.js'
import type { KnownTable } from './tables.js'

/** A column of a result which a model knows. */
export interface Output {
  known: KnownTable
  /** Which row of the table it is of: a query may have several. */
  alias: string
  /** The column's name in the model, and in the result. */
  name: string
  output: string
}

/** Refuses an encrypted column without those that it is bound to. @throws InvalidInputError */
export function assertReadable(outputs: readonly Output[]): void {
  for (const own of groupBy(outputs, ({ alias }) => alias).values()) {
    own[0]?.known.sealed.assertReadable(own.map(({ name }) => name))
  }
}

/** Opens rows in place. */
export async function openRows(outputs: readonly Output[], rows: readonly Row[]): Promise<void> {
  const byAlias = groupBy(outputs, ({ alias }) => alias)
  await Promise.all([...byAlias.values()].map((own) => openAlias(own, rows)))
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
      if (sealed.isSealed(name) && !isMissing(row[output])) row[output] = opened[at]?.[name]
    }
  }
}

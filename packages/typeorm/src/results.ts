/** Opens the rows of a query, by the columns that it selects. */
import type { Row } from '@eaas/sdk/adapter'
import type { KnownTable } from './tables.js'

export interface Output {
  known: KnownTable
  /** The alias of its table, since a query may have several rows of it. */
  alias: string
  /** The column's name in the model, and in the result. */
  name: string
  output: string
  /** Whether it was added, and is removed from the rows again. */
  isHidden?: boolean
}

/** Refuses an encrypted column without the columns that it is bound to. @throws InvalidInputError */
export function assertReadable(outputs: readonly Output[]): void {
  for (const own of byAlias(outputs)) own[0]?.known.sealed.assertReadable(own.map(({ name }) => name))
}

export async function openRows(outputs: readonly Output[], rows: readonly Row[]): Promise<void> {
  await Promise.all(byAlias(outputs).map((own) => openAlias(own, rows)))
}

/** Removes from the rows what was selected only for the adapter. */
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

/** The tables with encrypted columns, by their names in the database. */
import { InvalidInputError } from '@eaas/sdk'
import type { SealedTable } from '@eaas/sdk/adapter'

export type Models = ReadonlyMap<string, SealedTable>

/** Finds the model of a table. @throws InvalidInputError if a model has its name in another spelling */
export function findTable(models: Models, name: string): SealedTable | undefined {
  return models.get(name) ?? refuseOtherName('table', name, models.keys())
}

/** @throws InvalidInputError if an encrypted column has this name in another spelling */
export function assertSpelling(table: SealedTable, column: string): void {
  if (table.columns.includes(column)) return
  const sealed = table.columns.filter((one) => table.isSealed(one))
  refuseOtherName(`column of ${table.name}`, column, sealed)
}

function refuseOtherName(kind: string, name: string, others: Iterable<string>): undefined {
  const other = [...others].find((one) => inSnakeCase(one) === inSnakeCase(name))
  if (other === undefined) return undefined
  throw new InvalidInputError(
    `the ${kind} is ${JSON.stringify(name)} in the database, and ${JSON.stringify(other)} in the models`,
    'Name tables, fields, indexes and `bind` as the database does, also with a plugin that renames them.',
  )
}

function inSnakeCase(name: string): string {
  return name.replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1_$2').toLowerCase()
}

/**
 * What an upsert may change. Encrypted values are bound to their row, and an upsert changes the row that it finds.
 * That is the row to insert only if the conflict is in the columns of `bind`.
 */
import type { Row } from '../input.js'
import { refuseCall } from './refusals.js'
import type { SealedTable } from './sealed-table.js'

export interface Conflict {
  /** What the changed row is known to have in the columns of the conflict. */
  bound: Row
  /**
   * Lists the columns to take from the row to insert: `columns`, and what is made with their fields. That row was
   * sealed under its own DEK, so what belongs together is taken together.
   *
   * @throws InvalidInputError if the changed row may be another one or have another key, or if `columns` has only a
   * part of what belongs together
   */
  excluded(columns: readonly string[]): readonly string[]
}

/** Whether the columns that the conflict is in tell which row an upsert changes, and its key. */
export function tellsRow(table: SealedTable, targets: readonly string[]): boolean {
  const tellsKey = !table.keyByRow || targets.some((column) => !table.columns.includes(column))
  return table.bind.every((column) => targets.includes(column)) && tellsKey
}

/** @param targets the columns that the conflict is in @param rows the rows to insert */
export function readConflict(table: SealedTable, targets: readonly string[], rows: readonly Row[]): Conflict {
  const isSameRow = table.bind.every((column) => targets.includes(column))
  const known = rows.map((row) => Object.fromEntries(targets.map((column) => [column, row[column]])))
  const [only = {}, ...others] = known
  return {
    bound: isSameRow && others.length === 0 ? only : {},
    excluded(columns) {
      if (columns.length === 0) return []
      if (isSameRow && !known.every((row) => table.tellsKey(row))) {
        const hint = "Name the key's column in its target too, or update the row."
        return refuseCall(`an upsert by ${targets.join(', ')}, which does not tell the key of the row,`, hint)
      }
      if (isSameRow) return table.withMade(columns)
      const hint = `Its target must be ${table.bind.join(', ')}: values are bound to it.`
      return refuseCall(`an upsert by ${targets.join(', ') || 'a constraint'}`, hint)
    },
  }
}

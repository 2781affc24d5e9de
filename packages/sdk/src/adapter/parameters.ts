/**
 * How many parameters a statement may have. Encryption adds some to each row, so an insert of many rows may exceed
 * what the database takes although the ORM's own statement does not: its rows are then divided among several.
 */
import { InvalidInputError } from '../errors.js'

/** The most parameters of a statement that the databases, and all of their usual drivers, take. */
export const MOST_PARAMETERS = { postgres: 65_533, mysql: 65_535, sqlite: 32_766, sqlServer: 2_100 } as const

/**
 * Divides rows, in their order, into parts of one statement each; one part if all fit.
 *
 * @param costOf counts the parameters of a row
 * @param most the parameters that a statement has for its rows
 */
export function divideRows<T>(rows: readonly T[], costOf: (row: T) => number, most: number): T[][] {
  const parts: T[][] = []
  let left = 0
  for (const row of rows) {
    const cost = costOf(row)
    const part = parts.at(-1)
    if (part && cost <= left) part.push(row)
    else parts.push([row])
    left = (part && cost <= left ? left : most) - cost
  }
  return parts
}

/**
 * Refuses a statement that would have too many parameters, and cannot be divided.
 *
 * @param rows how many rows it inserts
 * @throws InvalidInputError with the number of rows that fit
 */
export function refuseParameters(
  table: string,
  { rows, count, most }: { rows: number; count: number; most: number },
): never {
  throw new InvalidInputError(
    `${table}: with what is encrypted, the statement has ${count} parameters, and the database takes at most ${most}`,
    `Insert at most ${Math.floor((rows * most) / count)} rows by such a statement, not ${rows}.`,
  )
}

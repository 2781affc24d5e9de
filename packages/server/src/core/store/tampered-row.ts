/**
 * Refuses rows that no server wrote. The owner of the database can drop a primary key and put an older row beside the
 * newer one, or make a view, a type or a policy answer with another row, whose MAC is as valid. So no reader may choose
 * between rows, or accept one that was not asked for.
 */

/** Thrown when the database holds a row that is not as the server wrote it. */
export class TamperedRowError extends Error {
  override readonly name: string = 'TamperedRowError'
}

/**
 * The row that a query found, if any; `asked` are the columns that the query named. @throws TamperedRowError if it
 * found several, or another one
 */
export function onlyRow<Row>(rows: readonly Row[], what: string, asked: Partial<Row> = {}): Row | undefined {
  if (rows.length > 1) {
    throw new TamperedRowError(`the database holds ${what} more than once: a constraint was dropped outside the server`)
  }
  const [row] = rows
  if (row && !isAsked(row, asked)) throw new TamperedRowError(`the database answered with another row than ${what}`)
  return row
}

/** Whether a row has the values that a query asked for. */
export function isAsked<Row>(row: Row, asked: Partial<Row>): boolean {
  return (Object.keys(asked) as (keyof Row)[]).every((column) => row[column] === asked[column])
}

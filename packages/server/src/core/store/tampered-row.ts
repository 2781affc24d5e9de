/** Thrown when the database holds a row that is not as the server wrote it. */
export class TamperedRowError extends Error {
  override readonly name: string = 'TamperedRowError'
}

/**
 * The row that a query found, if any; `asked` are the columns that the query named. The owner of the database can drop
 * a primary key and put an older row beside the newer one, or make a view, a type or a policy answer with another row,
 * whose MAC is as valid: so no reader may choose between rows. @throws TamperedRowError if there are several, or another one
 */
export function onlyRow<Row>(rows: readonly Row[], what: string, asked: Partial<Row> = {}): Row | undefined {
  if (rows.length > 1) {
    throw new TamperedRowError(`the database holds ${what} more than once: a constraint was dropped outside the server`)
  }
  const [row] = rows
  if (row && !isAsked(row, asked)) throw new TamperedRowError(`the database answered with another row than ${what}`)
  return row
}

export function isAsked<Row>(row: Row, asked: Partial<Row>): boolean {
  return (Object.keys(asked) as (keyof Row)[]).every((column) => row[column] === asked[column])
}

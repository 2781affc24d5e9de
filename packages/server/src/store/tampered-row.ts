/** Thrown when the database holds a row that is not as the server wrote it. */
export class TamperedRowError extends Error {
  override readonly name: string = 'TamperedRowError'
}

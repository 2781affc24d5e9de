/** How long a caller waits for the database before it is told that the call failed. */

/** Milliseconds. Longer than any statement should take, shorter than a client's patience. */
export const DATABASE_DEADLINE_MS = 4_000

/** Thrown when the database did not answer in time. What it was asked may still happen. */
export class DatabaseDeadlineError extends Error {
  override readonly name = 'DatabaseDeadlineError'
}

/** Waits for the database, but not for ever. @throws DatabaseDeadlineError */
export async function withDeadline<T>(work: Promise<T>, ms = DATABASE_DEADLINE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseDeadlineError(`the database did not answer within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/** Why a server with workers did not start. */

/** Thrown when a worker ended before the server was there for its callers; it has said why on standard error. */
export class WorkerEndedError extends Error {
  override readonly name = 'WorkerEndedError'

  constructor(
    number: number,
    readonly code: number | null,
    signal: NodeJS.Signals | null,
  ) {
    super(`worker ${number} ended ${signal === null ? `with code ${code}` : `by ${signal}`} before it was ready`)
  }
}

/** The embedded PostgreSQL gave up: it could not write to the disk. Only a new process opens the directory again. */
export class EmbeddedStoppedError extends Error {
  override readonly name = 'EmbeddedStoppedError'

  /** @param what PostgreSQL's own word for it */
  constructor(what: string) {
    super(
      `The embedded PostgreSQL stopped (${what}), because it could not write to the disk, or for a fault of its own. What it ` +
        'acknowledged is kept. If the disk is full, make room, and start again.',
    )
  }
}

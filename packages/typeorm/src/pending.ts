/**
 * Values of a query that are not known yet. TypeORM builds SQL at once, and sealing takes time: so these
 * stand in the parameters of a query until it is sent.
 */
import { refuseCall } from '@eaas/sdk/adapter'

export class Pending {
  readonly resolve: () => Promise<unknown>

  constructor(resolve: () => Promise<unknown>) {
    this.resolve = resolve
  }

  /** Called by TypeORM, which names a query in its cache by the text of the parameters. */
  toJSON(): string {
    return '[encrypted]'
  }

  /** Called by `pg` where a query comes by another way. */
  toPostgres(): never {
    refuseCall('a parameter of a query builder elsewhere', 'Execute the query builder itself.')
  }
}

/** Runs once, at the first call. */
export function once<T>(run: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined
  return () => {
    result ??= run()
    return result
  }
}

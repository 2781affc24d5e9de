/** Values that are the parameters of a query until it is sent: TypeORM builds SQL at once, and sealing takes time. */
import { type Filter, type RunSql, refuseCall } from '@eaas/sdk/adapter'

/** What rows must match after they are opened, if their condition finds others too. */
export interface RowFilter extends Filter {
  alias: string
}

/** Makes a value; may run SQL before the query, on its connection. */
type Resolve = (run: RunSql) => Promise<unknown>

export class Pending {
  readonly resolve: Resolve
  /** Set if the rows that it finds must be filtered. */
  readonly filter: RowFilter | undefined

  constructor(resolve: Resolve, filter?: RowFilter) {
    this.resolve = resolve
    this.filter = filter
  }

  /** Called by TypeORM, which names a query in its cache by the text of the parameters. */
  toJSON(): string {
    return '[encrypted]'
  }

  /** Called by `pg` if a parameter reaches it in a query that the adapter did not execute. */
  toPostgres(): never {
    refuseCall('a parameter of a query builder elsewhere', 'Execute the query builder itself.')
  }
}

export function once<T, Given extends unknown[]>(
  run: (...given: Given) => Promise<T>,
): (...given: Given) => Promise<T> {
  let result: Promise<T> | undefined
  return (...given) => {
    result ??= run(...given)
    return result
  }
}

export function filtersIn(parameters: readonly unknown[]): RowFilter[] {
  return parameters.flatMap((one) => (one instanceof Pending ? (one.filter ?? []) : []))
}

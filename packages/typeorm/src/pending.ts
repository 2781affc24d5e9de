/** A value that is sealed when its query is sent: TypeORM builds SQL synchronously, and sealing is asynchronous. */
import { type Filter, type RunSql, refuseCall } from '@eaas/sdk/adapter'

/** What opened rows must match, if their condition also finds others. */
export interface RowFilter extends Filter {
  alias: string
}

/** Makes the value. May first run SQL on the query's connection. */
type Resolve = (run: RunSql) => Promise<unknown>

export class Pending {
  readonly resolve: Resolve
  /** Set if the rows found by it must be filtered. */
  readonly filter: RowFilter | undefined

  constructor(resolve: Resolve, filter?: RowFilter) {
    this.resolve = resolve
    this.filter = filter
  }

  /** TypeORM calls it: the text of the parameters names a query in the cache. */
  toJSON(): string {
    return '[encrypted]'
  }

  /** `pg` calls it if a query that the adapter did not execute has it as a parameter. */
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

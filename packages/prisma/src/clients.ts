/** The clients that run what the adapter adds to an operation: in its transaction, if it has one. */
import { InvalidInputError } from '@eaas/sdk'
import { type Row, refuseCall } from '@eaas/sdk/adapter'

/** A Prisma client, without its types. */
export interface Client extends Row {
  $extends(extension: object): object
  $queryRawUnsafe(sql: string): Promise<unknown[]>
  $transaction<T>(run: (client: Client) => Promise<T>): Promise<T>
  _createItxClient?(transaction: Transaction, scope: string, state: { stack: unknown[] }): Client
}

/** Prisma's own: the transaction that an operation is part of. */
export interface Transaction {
  kind: string
  id?: string
}

/** How an operation runs. */
export interface Running {
  client: Client
  transaction: Transaction | undefined
}

/** The client of the transaction of an operation; the one without a transaction for a list of operations. */
export function clientOf({ client, transaction }: Running): Client {
  if (transaction?.kind !== 'itx') return client
  if (client._createItxClient) return client._createItxClient(transaction, String(transaction.id), { stack: [] })
  throw new InvalidInputError('this version of Prisma cannot continue a transaction', 'Install Prisma 7.')
}

/** Runs a function in the transaction of an operation, or in one of its own. */
export async function inTransaction<T>(
  running: Running,
  model: string,
  run: (client: Client) => Promise<T>,
): Promise<T> {
  const { client, transaction } = running
  if (transaction?.kind === 'itx') return run(clientOf(running))
  if (transaction) {
    const hint = 'Pass a function: `$transaction(async (tx) => …)`. Or find its row by what its values are bound to.'
    return refuseCall(`in a list of operations, an update of ${model} whose row must be read before`, hint)
  }
  return client.$transaction(run)
}

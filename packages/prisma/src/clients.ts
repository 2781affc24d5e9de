/** How an operation runs what the adapter makes of it: in its transaction, if it has one, or in one of its own. */
import { InvalidInputError } from '@eaas/sdk'
import { type Row, refuseCall } from '@eaas/sdk/adapter'

/** A Prisma client, without its types. */
export interface Client extends Row {
  $extends(extension: object): Client
  $queryRawUnsafe(sql: string): Promise<unknown[]>
  $transaction<T>(run: (client: Client) => Promise<T>): Promise<T>
  _createItxClient?(transaction: Transaction, scope: string, state: { stack: unknown[] }): Client
  _createPrismaPromise?(run: (transaction?: Transaction) => Promise<void>): PromiseLike<void>
}

/** Prisma's own: the transaction that an operation is part of. */
export interface Transaction {
  kind: string
  id?: string
}

/** Runs an operation of the model that a call is about, or of another one. */
export type Statement = (operation: string, args: Row, model?: string) => Promise<unknown>

/** How a call runs. */
export interface Running {
  client: Client
  transaction: Transaction | undefined
  /** Statements behind this extension: the queries of those before it have seen the call, and must not see what was sealed. */
  statementIn(transaction: Transaction | undefined): Statement
}

/** The client of the transaction of a call; the one without a transaction for a list of operations. */
export function clientOf({ client, transaction }: Running): Client {
  if (transaction?.kind !== 'itx') return client
  if (client._createItxClient) return client._createItxClient(transaction, String(transaction.id), { stack: [] })
  throw notPrisma7()
}

/** Runs a function in the transaction of a call, or in one of its own. */
export async function inTransaction<T>(
  { client, transaction, statementIn }: Running,
  model: string,
  run: (statement: Statement) => Promise<T>,
): Promise<T> {
  if (transaction?.kind === 'itx') return run(statementIn(transaction))
  if (transaction) {
    const hint = 'Pass a function: `$transaction(async (tx) => …)`. Or find its row by what its values are bound to.'
    return refuseCall(`in a list of operations, an update of ${model} whose row must be read before`, hint)
  }
  return client.$transaction(async (begun) => run(statementIn(await transactionOf(begun))))
}

/** Prisma hands a client's transaction to what it runs, and to nobody else. */
async function transactionOf(client: Client): Promise<Transaction> {
  let found: Transaction | undefined
  await client._createPrismaPromise?.(async (transaction) => {
    found = transaction
  })
  if (!found) throw notPrisma7()
  return found
}

function notPrisma7(): InvalidInputError {
  return new InvalidInputError('this version of Prisma cannot continue a transaction', 'Install Prisma 7.')
}

/** Runs the statements that the adapter adds to an operation: in the operation's transaction, or in a new one. */
import { InvalidInputError } from '@eaas/sdk'
import { type Row, refuseCall } from '@eaas/sdk/adapter'

export interface Client extends Row {
  $extends(extension: object): Client
  $queryRawUnsafe(sql: string): Promise<unknown[]>
  $transaction<T>(run: (client: Client) => Promise<T>): Promise<T>
  _createItxClient?(transaction: Transaction, scope: string, state: { stack: unknown[] }): Client
  _createPrismaPromise?(run: (transaction?: Transaction) => Promise<void>): PromiseLike<void>
}

/** Prisma's own type: the transaction of an operation. */
export type Transaction = { kind: string; id?: string }

export type Statement = (operation: string, args: Row, model?: string) => Promise<unknown>

export interface Running {
  client: Client
  transaction: Transaction | undefined
  /** Returns a function whose statements skip the extensions before this one: their queries must not see sealed values. */
  statementIn(transaction: Transaction | undefined): Statement
}

/** Returns the client of a call's interactive transaction; for a list of operations, the client without a transaction. */
export function clientOf({ client, transaction }: Running): Client {
  if (transaction?.kind !== 'itx') return client
  if (client._createItxClient) return client._createItxClient(transaction, String(transaction.id), { stack: [] })
  throw notPrisma7()
}

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

/** Prisma passes a client's transaction only to the function that it runs. */
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

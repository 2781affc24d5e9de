/**
 * Makes a call from its row of the contract. Loaded with the first call: the table is no part of what a page
 * loads at once.
 */
import { type OperationId, type OperationWithId, ROUTES, type RouteRow, type wire } from '@eaas/protocol'
import type { Call } from './calls.js'

interface Sent extends Pick<Call, 'query' | 'body' | 'parts' | 'secrets' | 'signal'> {
  /** The id of a key or of an API key: it stands for `:id` in the path, and the answer must be about it. */
  id?: string
}

/** An id where the path holds one, and a body exactly where the contract has one. */
type Needed<Id extends OperationId> = (Id extends OperationWithId ? { id: string } : unknown) &
  (Id extends keyof wire.Bodies ? { body: object } : { body?: never })

/** Makes the call of an operation. */
export function toCall<Id extends OperationId>(operationId: Id, sent: Sent & Needed<Id>): Call<Id> {
  const { id = '', ...rest }: Sent = sent
  const row: RouteRow = ROUTES[operationId]
  return { repeatable: false, ...row, ...rest, operationId, path: row.path.slice(1).replace(':id', id), about: id }
}

/** What a route is: a row of the table in routes.ts. Everything that is done for each of them alike is done in serve.ts. */
import type { Action, Permission, ProblemCode } from '@eaas/protocol'
import type { ZodMiniType } from 'zod/mini'
import type { ServerModeCall } from '../runner/envelope-only.js'
import type { Operation } from '../runner/operation.js'

export interface RouteInput<Body, Query> {
  /** the `:id` of the path as it came; empty where the path has none */
  id: string
  body: Body
  query: Query
  /** of a call with a time of its own: aborted when its client leaves, or when that time is over */
  signal?: AbortSignal
  /** logs what was unexpected where the call as a whole does not fail by it */
  onError: (error: unknown) => void
}

export interface Route<Body = unknown, Query = unknown, Answer = unknown> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** what generated clients call it: unique, camel case, kept for ever */
  operationId: string
  /** what the call does, in one line of the documentation */
  summary: string
  /** what the operation itself refuses with, beside what every call of its kind may get (openapi-problems.ts) */
  problems?: readonly ProblemCode[]
  /** all of these; none where each part of the call is checked by itself */
  permissions: readonly Permission[]
  /** the status of success; 204 has no body */
  status: 200 | 201 | 204
  body?: ZodMiniType<Body>
  query?: ZodMiniType<Query>
  answer?: ZodMiniType<Answer>
  /** of an answer that is a stream of text rather than JSON by a schema */
  contentType?: 'application/x-ndjson'
  /** what a successful call writes to the audit log, once */
  action?: Action
  /** what it is called in the log where it is refused to an envelope-only tenant, whatever the body is */
  serverMode?: ServerModeCall['operation']
  /** bytes of body at most, where the usual limit does not do */
  bodyLimit?: number
  /** of a call that is many operations: how many. It waits for its turn before any of them is decided */
  countOperations?: (body: Body) => number
  /** how long the call may take, where the usual limit does not do */
  timeoutMs?: number
  operation: (input: RouteInput<Body, Query>) => Operation<Answer>
}

/** Types a row of the table by its own schemas. */
export function route<Body, Query, Answer>(row: Route<Body, Query, Answer>): Route {
  return row as unknown as Route
}

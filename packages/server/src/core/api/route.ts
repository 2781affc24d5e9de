/** A route: a row of the contract (protocol/routes.ts) with its schemas and its operation. */
import {
  CALL_RULES,
  type CallRule,
  findKeyProblems,
  type HeldPermission,
  type LogAction,
  type OperationId,
  type ProblemCode,
  ROUTES,
  type RouteRow,
  wire,
} from '@eaas/protocol'
import { en } from 'zod/locales'
import { config, type ZodMiniType } from 'zod/mini'
import type { Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { Paged } from './pages.js'

config(en())

interface RouteInput<Body, Query> {
  /** the `:id` of the path, a UUID in its canonical form; empty where the path has none */
  id: string
  /** the `:version` of the path as the caller sent it; empty where the path has none */
  version: string
  body: Body
  query: Query
  /** makes the signal that is aborted when the client disconnects, or when the `timeoutMs` of the route are over */
  signal?: () => AbortSignal
  /** logs an unexpected error that does not fail the call as a whole */
  onError: (error: unknown) => void
}

/** Performs an operation as the caller, once there is room for it. */
export type Perform = <Answer>(
  operation: Operation<Answer>,
  room: { operations?: number | undefined; hashingCost?: number | undefined },
) => Promise<Answer>

export interface Binding<Body, Query, Answer> {
  /** what the call does, in one line of the documentation */
  summary: string
  /** the call's own refusals; docs/openapi/problems.ts adds those of every call of its kind and of the key's state */
  problems?: readonly ProblemCode[]
  /** the content type of an answer that streams text instead of JSON by a schema */
  contentType?: 'application/x-ndjson'
  /** the action of the one audit entry that a successful call writes */
  action?: LogAction
  /** the most bytes of a body, if the usual limit is too small */
  bodyLimit?: number
  /** counts the operations of a call that has many; the call waits until there is room for all of them */
  countOperations?: (body: Body) => number
  /** counts the elements of a call to evaluate as a blind hash; the call waits for its turn */
  hashingCost?: (body: Body) => number
  /** performs a call as several, each of which waits for room of its own */
  inParts?: (input: RouteInput<Body, Query>, perform: Perform) => Promise<Answer>
  /** how long the call may take, in milliseconds, if the usual limit is too short */
  timeoutMs?: number
  operation: (input: RouteInput<Body, Query>) => Operation<Answer> | Operation<Paged<Answer>>
}

export interface ServedRoute<Body = unknown, Query = unknown, Answer = unknown>
  extends Omit<RouteRow, 'status'>,
    Omit<CallRule, 'permissions'>,
    Binding<Body, Query, Answer> {
  operationId: string
  permissions: readonly HeldPermission[]
  isOperators?: true // accepts operators' API keys, and no others
  status: 200 | 201 | 204
  body?: ZodMiniType<Body>
  query?: ZodMiniType<Query>
  answer?: wire.Answer<Answer>
}

export type Route = ServedRoute & { operationId: OperationId; permissions: CallRule['permissions'] }

type BindingOf<Id extends OperationId> = Binding<Member<wire.Bodies, Id>, Member<wire.Queries, Id>, AnswerOf<Id>>
type Member<Table, Id> = Id extends keyof Table ? Table[Id] : undefined
/** An answer without a schema is a stream, or nothing. */
type AnswerOf<Id> = Id extends keyof wire.Answers ? wire.Answers[Id] : unknown

/** Binds operations to their rows of the contract; a row's schemas determine the types of its operation. */
export function bindRoutes<Id extends OperationId>(bindings: { [I in Id]: BindingOf<I> }): Record<Id, Route> {
  const entries = Object.entries<Binding<never, never, unknown>>(bindings).map(([name, binding]) => {
    const operationId = name as OperationId
    const rule = CALL_RULES[operationId]
    const problems = [...(rule.key ? findKeyProblems(rule.key) : []), ...(binding.problems ?? [])]
    const row = { status: 200, ...ROUTES[operationId], ...rule, operationId, ...wire.getSchemas(operationId) }
    return [operationId, { ...row, ...binding, problems }]
  })
  return Object.fromEntries(entries) as Record<Id, Route>
}

/**
 * Parses unknown input by a schema into a typed value. `otherwise` is the message if no field can be named.
 * @throws Refusal E_VALIDATION, which names the field
 */
export function parse<Value>(schema: ZodMiniType<Value>, input: unknown, otherwise: string): Value {
  const overlong = wire.findOverlong(input)
  if (overlong) throw new Refusal('E_VALIDATION', overlong)
  const result = schema.safeParse(input)
  if (result.success) return result.data
  throw new Refusal('E_VALIDATION', wire.describeIssue(result.error, otherwise))
}

/** Notes of how a call ended, which its log line and the metrics read: what was refused, and why it failed. */
import { PROBLEMS, type ProblemCode, type wire } from '@eaas/protocol'
import type { FastifyRequest } from 'fastify'
import type { Refusal, RefusedCaller } from '../runner/refusal.js'

/** What was refused in a call. */
export interface Refusals {
  /** the code of the answer; undefined if the call succeeded and only operations in it were refused */
  code?: ProblemCode
  /** how often each code was the reason */
  counts: ReadonlyMap<ProblemCode, number>
  caller: RefusedCaller
}

const refused = new WeakMap<FastifyRequest, Refusals>()

/**
 * Notes that a call is refused. The first note of a request counts; a failure of the server is no refusal.
 */
export function noteRefusal(
  request: FastifyRequest,
  { code, caller = {} }: Pick<Refusal, 'code'> & Partial<Pick<Refusal, 'caller'>>,
): void {
  if (isRefusal(code) && !refused.has(request)) refused.set(request, { code, counts: new Map([[code, 1]]), caller })
}

/** Notes which operations of a batch were refused: in its answer they are parts of a success. */
export function noteRefusedItems(request: FastifyRequest, { results }: wire.BatchResults): void {
  const counts = new Map<ProblemCode, number>()
  for (const { status, body } of results) {
    if (status < 400) continue
    const { code } = body as { code: ProblemCode }
    if (isRefusal(code)) counts.set(code, (counts.get(code) ?? 0) + 1)
  }
  if (counts.size > 0) refused.set(request, { counts, caller: {} })
}

export const refusalsOf = (request: FastifyRequest): Refusals | undefined => refused.get(request)

/** The log's message for an unexpected error. */
export const UNEXPECTED = 'unexpected error'

export interface Failure {
  error: unknown
  msg: string
}

const failures = new WeakMap<FastifyRequest, Failure>()

/** Records why a request failed, for its log line. If there are several errors, as in a batch, the first is logged. */
export function noteFailure(request: FastifyRequest, error: unknown, msg: string): void {
  if (!failures.has(request)) failures.set(request, { error, msg })
}

export const failureOf = (request: FastifyRequest): Failure | undefined => failures.get(request)

function isRefusal(code: ProblemCode): boolean {
  return PROBLEMS[code].status < 500
}

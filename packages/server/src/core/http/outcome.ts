/** The end of a call, even if its client has left, and the notes for its log line and metrics. */
import { PROBLEMS, type ProblemCode, type wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Refusal, RefusedCaller } from '../runner/refusal.js'

/** The refusals in a call, by code; `code` is the answer's, unless only operations of a batch were refused. */
export type Refusals = { code?: ProblemCode; counts: ReadonlyMap<ProblemCode, number>; caller: RefusedCaller }

const refused = new WeakMap<FastifyRequest, Refusals>()

/** Notes that a call is refused. The first note of a request counts; a failure of the server is not a refusal. */
export function noteRefusal(
  request: FastifyRequest,
  { code, caller = {} }: Pick<Refusal, 'code'> & Partial<Pick<Refusal, 'caller'>>,
): void {
  if (isRefusal(code) && !refused.has(request)) refused.set(request, { code, counts: new Map([[code, 1]]), caller })
}

/** Notes which operations of a batch were refused, since its answer as a whole is a success. */
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

export const UNEXPECTED = 'unexpected error'

export type Failure = { error: unknown; msg: string }

const failures = new WeakMap<FastifyRequest, Failure>()

/** Records why a request failed, for its log line. Of several errors, as in a batch, the first one is logged. */
export function noteFailure(request: FastifyRequest, error: unknown, msg: string): void {
  if (!failures.has(request)) failures.set(request, { error, msg })
}

export const failureOf = (request: FastifyRequest): Failure | undefined => failures.get(request)

function isRefusal(code: ProblemCode): boolean {
  return PROBLEMS[code].status < 500
}

declare module 'fastify' {
  interface FastifyReply {
    /** `made` before it is sent. Not a WeakSet, because each garbage collection has to visit its entries. */
    answer: 'made' | 'sent' | null
  }
}

/** @param isAnswered whether the whole answer was sent */
type AtEnd = (request: FastifyRequest, reply: FastifyReply, isAnswered: boolean) => void

const ofApplication = new WeakMap<FastifyInstance, AtEnd[]>()

/** Runs a function when the answer of a call is sent or cut off, or is ready but its client has left. */
export function atCallEnd(app: FastifyInstance, run: AtEnd): void {
  const before = ofApplication.get(app)
  if (before) before.push(run)
  else ofApplication.set(app, watch(app, [run]))
}

function watch(app: FastifyInstance, runs: AtEnd[]): AtEnd[] {
  app.decorateReply('answer', null)
  app.addHook('onSend', (request, reply, payload, done) => {
    const end = () => {
      for (const run of runs) run(request, reply, reply.answer === 'sent')
    }
    const isFirst = reply.answer === null // an answer that cannot be read is followed by an answer with the error
    reply.answer = 'made'
    if (isFirst && reply.raw.destroyed) end()
    else if (isFirst) reply.raw.once('close', end)
    done(null, payload)
  })
  app.addHook('onResponse', (_, reply, done) => {
    reply.answer = 'sent'
    done()
  })
  return runs
}

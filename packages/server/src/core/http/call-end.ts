/** The end of a call, whether or not its client waited for the answer. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyReply {
    /** `made` before it is sent. Not in a WeakSet, whose entries each garbage collection has to visit. */
    answer: 'made' | 'sent' | null
  }
}

/** @param isAnswered whether the whole answer was sent */
type AtEnd = (request: FastifyRequest, reply: FastifyReply, isAnswered: boolean) => void

const ofApplication = new WeakMap<FastifyInstance, AtEnd[]>()

/**
 * Runs a function at the end of each call: when its answer is sent or cut off, or made for a client that has left. The
 * framework's `onResponse` runs for answers that are sent alone.
 */
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
    const isFirst = reply.answer === null // an answer that cannot be read is followed by its error
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

/**
 * Refuses requests whose head a proxy in front of the server may have read otherwise than the server does.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../runner/refusal.js'

/**
 * Refuses two hosts, of which a proxy may go by the other one, and codings of the body beside `chunked`,
 * which nothing here decodes.
 */
export function refuseAmbiguousHeads(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const fault = findFault(request)
    if (fault === undefined) {
      done()
      return
    }
    reply.header('connection', 'close') // where the request ends may be ambiguous too
    done(new Refusal('E_MALFORMED_REQUEST', fault))
  })
}

function findFault(request: FastifyRequest): string | undefined {
  const coding = request.headers['transfer-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return 'Transfer-Encoding: only chunked is supported'
  return countHeader(request, 'host') > 1 ? 'Host: must be sent once' : undefined
}

/**
 * How often a header was sent, by its name in lower case. Of some repeated headers Node silently keeps only
 * the first.
 */
export function countHeader(request: FastifyRequest, name: string): number {
  const { rawHeaders } = request.raw
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === name.length && rawHeaders[at]?.toLowerCase() === name) count += 1
  }
  return count
}

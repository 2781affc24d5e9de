/** Answers requests that match no route: 404, or 405 if the path has other methods. */
import { DETAILS } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sendProblem } from './errors.js'

/**
 * Answers for paths and methods that no route has. Must be called before preflights and routes are
 * registered, which it observes.
 */
export function answerNotFound(app: FastifyInstance): void {
  const known: { pattern: RegExp; methods: string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    if (url === '*') return // preflights
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`)
    known.push({ pattern, methods: [method].flat() })
  })
  app.setNotFoundHandler((request, reply) => sendNotFound(request, reply))
  // Before preflights are answered: otherwise every path would have them, and an invalid one would be
  // answered in plain text.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'OPTIONS' && !isPreflight(request)) sendNotFound(request, reply)
    else done()
  })
  // Before the body is read: otherwise a QUERY without a Content-Type would give the framework's own error.
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.is404) sendNotFound(request, reply)
    else done(null, payload)
  })

  function isPreflight(request: FastifyRequest): boolean {
    const { origin, 'access-control-request-method': method } = request.headers
    return origin !== undefined && method !== undefined && methodsOf(request).length > 0
  }

  function methodsOf(request: FastifyRequest): string[] {
    const [path = ''] = request.url.split('?')
    return known.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods)
  }

  function sendNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const methods = methodsOf(request)
    if (methods.length === 0) return sendProblem(reply, 'E_ROUTE_NOT_FOUND', DETAILS.E_ROUTE_NOT_FOUND.path)
    reply.header('allow', [...new Set(methods)].join(', '))
    return sendProblem(reply, 'E_METHOD_NOT_ALLOWED', DETAILS.E_METHOD_NOT_ALLOWED.method)
  }
}

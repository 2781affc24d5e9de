/** What is asked for and is not there: 404, or 405 where the path takes other methods. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sendProblem } from './errors.js'

/** Answers for paths and methods that no route has. To be called before the routes are registered: it listens to that. */
export function answerNotFound(app: FastifyInstance): void {
  const known: { pattern: RegExp; methods: string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    if (url === '*') return // preflights
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`)
    known.push({ pattern, methods: [method].flat() })
  })
  app.setNotFoundHandler((request, reply) => sendNotFound(request, reply))
  // Before the body is read: a QUERY without a Content-Type would be the framework's own error.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) sendNotFound(request, reply)
    else done()
  })

  function sendNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const [path = ''] = request.url.split('?')
    const methods = known.filter(({ pattern }) => pattern.test(path)).flatMap((route) => route.methods)
    if (methods.length === 0) return sendProblem(reply, 'E_ROUTE_NOT_FOUND', 'there is nothing at this path')
    reply.header('allow', [...new Set(methods)].join(', '))
    return sendProblem(reply, 'E_METHOD_NOT_ALLOWED', 'this path does not take this method')
  }
}

/** Serves the table of routes: for each row alike, admission, then body and query by their schemas, then its operation. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Credentials } from '../operations/admit.js'
import type { Operation, Services } from '../operations/operation.js'
import { demandAdmission, perform } from '../operations/perform.js'
import { inServerMode } from '../operations/server-mode.js'
import { demandOnBehalfOf, requestCredentials } from './credentials.js'
import { UNEXPECTED } from './errors.js'
import { parse } from './parse.js'
import type { Route } from './route.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** of a call that was admitted */
    credentials: Credentials | null
  }
}

/** Registers the routes. */
export function serveRoutes(app: FastifyInstance, services: Services, routes: readonly Route[]): void {
  app.decorateRequest('credentials', null)
  for (const row of routes) {
    app.route({
      method: row.method,
      url: row.path,
      ...(row.bodyLimit === undefined ? {} : { bodyLimit: row.bodyLimit }),
      ...(row.timeoutMs === undefined ? {} : { handlerTimeout: row.timeoutMs }),
      onRequest: (request) => admitCaller(services, row, request),
      handler: (request, reply) => answer(services, row, request, reply),
    })
  }
}

// Before the body is read: whoever has no right to call is told that, whatever the body is.
async function admitCaller(services: Services, row: Route, request: FastifyRequest): Promise<void> {
  const credentials = requestCredentials(services, request)
  const { permissions } = row
  const { envelope_only } = await demandAdmission(services, { credentials, permissions })
  demandOnBehalfOf(credentials)
  // `envelope_only` may be out of date. Performed, it is judged on the current state: a refusal on record must be a true one.
  if (row.serverMode && envelope_only)
    await perform(services, { credentials, permissions }, inServerMode(nameOf(row), goOn))
  request.credentials = credentials
}

const goOn: Operation<void> = () => ({ entries: [], release: () => undefined })

async function answer(services: Services, row: Route, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { credentials } = request
  if (!credentials) throw new Error('a handler was reached without admission')
  const { id = '' } = request.params as { id?: string }
  const operation = row.operation({
    id,
    body: row.body && parse(row.body, request.body, 'the body must be a JSON object'),
    query: row.query && parse(row.query, request.query, 'the query is not valid'),
    ...(row.timeoutMs === undefined ? {} : { signal: request.signal }), // elsewhere there is none until it is asked for
    onError: (error) => request.log.error({ err: error }, UNEXPECTED),
  })
  const value = await perform(
    services,
    { credentials, permissions: row.permissions },
    row.serverMode ? inServerMode(nameOf(row), operation) : operation,
  )
  reply.code(row.status).header('cache-control', 'no-store')
  if (row.contentType) reply.type(row.contentType)
  return row.status === 204 ? reply.send() : value
}

/** `encrypt` of /v1/encrypt */
function nameOf(row: Route): string {
  return row.path.split('/').at(-1) ?? row.path
}

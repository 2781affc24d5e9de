/** Serves the table of routes: for each row, admission, then body and query by their schemas, then its operation. */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest, RequestPayload } from 'fastify'
import type { Credentials } from '../runner/admit.js'
import type { Operation, Services } from '../runner/operation.js'
import { admitBeforeBody, perform } from '../runner/perform.js'
import { inServerMode } from '../runner/refuse-server-mode.js'
import { peekBody } from './bodies/json-body.js'
import { assertOnBehalfOf, requestCredentials } from './credentials.js'
import { isLong, sendLong } from './long-answer.js'
import { parse } from './parse.js'
import { noteFailure, UNEXPECTED } from './request-log.js'
import type { Route } from './route.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** the credentials of an admitted call */
    credentials: Credentials | null
    /** whether its tenant was envelope-only when it was last read */
    envelopeOnly: boolean
  }
}

/** Registers the routes. */
export function serveRoutes(app: FastifyInstance, services: Services, routes: readonly Route[]): void {
  app.decorateRequest('credentials', null)
  app.decorateRequest('envelopeOnly', false)
  for (const row of routes) {
    app.route({
      method: row.method,
      url: row.path,
      ...(row.bodyLimit === undefined ? {} : { bodyLimit: row.bodyLimit }),
      ...(row.timeoutMs === undefined ? {} : { handlerTimeout: row.timeoutMs }),
      onRequest: (request) => admitCaller(services, row, request),
      ...(row.serverMode ? { preParsing: refuseEnvelopeOnly(services, row) } : {}),
      handler: (request, reply) => answer(services, row, request, reply),
    })
  }
}

// Runs before the body is read, so that a caller without the right to call is refused, whatever the body is.
async function admitCaller(services: Services, row: Route, request: FastifyRequest): Promise<void> {
  if (row.countOperations) services.gate.assertRoom() // reading a large body only to refuse it would cost as much as a part of its work
  const credentials = requestCredentials(services, request)
  const { permissions } = row
  const { envelope_only } = await admitBeforeBody(services, { credentials, permissions })
  assertOnBehalfOf(credentials)
  request.credentials = credentials
  request.envelopeOnly = envelope_only
}

// Refuses whatever the body is, and records the key that it names if it can be read. `envelopeOnly` may be out of date, so `perform` decides
// on the current state, because a refusal on record must be right.
function refuseEnvelopeOnly(services: Services, { operationId, permissions, bodyLimit }: Route) {
  return async (request: FastifyRequest, _: FastifyReply, payload: RequestPayload): Promise<RequestPayload> => {
    const { credentials, envelopeOnly } = request
    if (!credentials || !envelopeOnly) return payload
    const { body, replay } = await peekBody(
      payload as IncomingMessage,
      bodyLimit ?? request.server.initialConfig.bodyLimit ?? 0,
    )
    await perform(services, { credentials, permissions }, inServerMode({ operation: operationId, body }, goOn))
    return replay()
  }
}

const goOn: Operation<void> = () => ({ entries: [], release: () => undefined })

async function answer(services: Services, row: Route, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { credentials } = request
  if (!credentials) throw new Error('a handler was reached without admission')
  const { id = '' } = request.params as { id?: string }
  const body = row.body && parse(row.body, request.body, 'the body must be a JSON object')
  const operation = row.operation({
    id,
    body,
    query: row.query && parse(row.query, request.query, 'the query is not valid'),
    ...(row.timeoutMs === undefined ? {} : { signal: request.signal }), // only then, because accessing `request.signal` creates one
    onError: (error) => noteFailure(request, error, UNEXPECTED),
  })
  const access = { credentials, permissions: row.permissions }
  const work = row.serverMode ? inServerMode({ operation: row.operationId, body: request.body }, operation) : operation
  const value = row.countOperations
    ? await inTurn(services, { credentials, operations: row.countOperations(body) }, () =>
        perform(services, access, work),
      )
    : await perform(services, access, work)
  reply.code(row.status).header('cache-control', 'no-store')
  if (row.contentType) reply.type(row.contentType)
  if (row.status === 204) return reply.send()
  return isLong(value) ? sendLong(reply, value) : value
}

/** Runs `work` once there is room for this many operations. */
async function inTurn<T>(
  { gate }: Services,
  { credentials, operations }: { credentials: Credentials; operations: number },
  work: () => Promise<T>,
): Promise<T> {
  const leave = await gate.enter(credentials.tenant_id, operations)
  try {
    return await work()
  } finally {
    leave()
  }
}

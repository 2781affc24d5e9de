/** Serves the table of routes: for each row, admission, then body and query by their schemas, then the operation. */
import type { IncomingMessage } from 'node:http'
import { DETAILS, foldUuid, type wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest, RequestPayload } from 'fastify'
import { Paged } from '../api/pages.js'
import { type Perform, parse, type ServedRoute } from '../api/route.js'
import { type Admitted, admitCall, type Credentials, performAdmitted } from '../runner/admission.js'
import type { Operation, Services } from '../runner/operation.js'
import { findFailure } from '../runner/refusal.js'
import { peekBody } from './bodies/json-body.js'
import { beginHolding } from './connections.js'
import { isLong, STREAMED_BYTES, sendLong, sendPaged } from './long-answer.js'
import { noteFailure, noteRefusedItems, UNEXPECTED } from './outcome.js'
import { requestCredentials } from './request-head.js'

declare module 'fastify' {
  interface FastifyRequest {
    credentials: Credentials | null // who the caller claims to be
    admitted: Admitted | null // null until the call is admitted
  }
}

export function serveRoutes(app: FastifyInstance, services: Services, routes: readonly ServedRoute[]): void {
  app.decorateRequest('credentials', null)
  app.decorateRequest('admitted', null)
  for (const row of routes) {
    app.route({
      method: row.method,
      url: row.path,
      ...(row.bodyLimit !== undefined && { bodyLimit: row.bodyLimit }),
      ...(row.timeoutMs !== undefined && { handlerTimeout: row.timeoutMs }),
      onRequest: (request) => admitCaller(services, row, request),
      ...(row.serverMode && { preParsing: refuseEnvelopeOnly(services, row) }),
      handler: (request, reply) => answer(services, row, request, reply),
    })
  }
}

// Runs before the body is read, so that a caller without permission is refused whatever the body is.
async function admitCaller(services: Services, row: ServedRoute, request: FastifyRequest): Promise<void> {
  const identify = () => {
    request.credentials = requestCredentials(services, request, row.isOperators ? 'operator' : 'tenant')
    return request.credentials
  }
  const needs = { permissions: row.permissions, isBatch: row.countOperations !== undefined }
  const admitted = await admitCall(services, needs, identify)
  request.admitted = admitted
  beginHolding(request, admitted.holding)
}

// Refuses whatever the body is, and records the key that it names if the body can be read. `envelope_only` may be
// outdated, so this decides on the current state: a recorded refusal must be right.
function refuseEnvelopeOnly(services: Services, { operationId, permissions, bodyLimit }: ServedRoute) {
  return async (request: FastifyRequest, _: FastifyReply, payload: RequestPayload): Promise<RequestPayload> => {
    const { credentials, admitted } = request
    if (!credentials || !admitted?.envelope_only) return payload
    const { body, replay } = await peekBody(payload as IncomingMessage, {
      limit: bodyLimit ?? request.server.initialConfig.bodyLimit ?? 0,
      holding: request.holding,
    })
    await performAdmitted(services, { credentials, permissions, serverMode: { operation: operationId, body } }, goOn)
    return replay()
  }
}

const goOn: Operation<void> = () => ({ entries: [], release: () => undefined })

/**
 * Makes the signal that is aborted when the client disconnects, one for all items of a batch. The framework's own
 * signal follows the request, which Node closes as soon as the body is read.
 */
function createSignal({ raw }: FastifyReply): () => AbortSignal {
  let signal: AbortSignal | undefined
  const make = () => {
    const gone = new AbortController()
    if (raw.closed) gone.abort()
    else raw.once('close', () => gone.abort())
    return gone.signal
  }
  return () => {
    signal ??= make()
    return signal
  }
}

async function answer(
  services: Services,
  row: ServedRoute,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { credentials, admitted, holding } = request
  if (!credentials || !admitted || !holding) throw new Error('a handler was reached without admission')
  const { id = '', version = '' } = request.params as { id?: string; version?: string }
  const body = row.body && parse(row.body, request.body, DETAILS.E_VALIDATION.body)
  const signal = row.timeoutMs === undefined ? createSignal(reply) : () => request.signal
  const input = {
    id: foldUuid(id),
    version,
    body,
    query: row.query && parse(row.query, request.query, DETAILS.E_VALIDATION.query),
    // Not a getter: for each object literal with a getter, V8 makes a hidden class, and keeps that and the whole
    // request until a full garbage collection.
    signal,
    onError: (error: unknown) => noteFailure(request, error, findFailure(error)?.log ?? UNEXPECTED),
  }
  if (row.contentType) holding.take(STREAMED_BYTES)
  const { api_key_id } = admitted
  const perform: Perform = (operation, { operations, hashingCost: cost }) => {
    const hashing = cost === undefined ? undefined : { cost, api_key_id, signal: signal() }
    const serverMode = row.serverMode && { operation: row.operationId, body: request.body }
    const call = { credentials, permissions: row.permissions, operations, hashing, serverMode }
    return performAdmitted(services, call, operation)
  }
  const room = { operations: row.countOperations?.(body), hashingCost: row.hashingCost?.(body) }
  const value = await (row.inParts?.(input, perform) ?? perform<unknown>(row.operation(input), room))
  if (row.countOperations) noteRefusedItems(request, value as wire.BatchResults)
  reply.code(row.status).header('cache-control', 'no-store')
  if (row.contentType) reply.type(row.contentType)
  if (row.status === 204) return reply.send()
  // A call that only reads is refused if there is no room for its answer. Any other call is already carried out, and
  // its body had room.
  const hold = row.method === 'GET' ? holding.take : holding.add
  const plain = value instanceof Paged ? await sendPaged(reply, value, hold) : value
  return plain !== reply && isLong(plain) ? sendLong(reply, plain, hold) : plain
}

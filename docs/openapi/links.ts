/**
 * The links of OpenAPI: which calls take what an answer holds, so that a reader, a generator or a tester can
 * follow one call by the next.
 */
import type { OperationId } from '@eaas/protocol'
import type { Route, ServedRoute } from '../../packages/server/src/core/api/route.js'

/** A link object of OpenAPI 3.1; its values are runtime expressions. */
export interface Link {
  operationId: OperationId
  parameters?: Record<string, string>
  requestBody?: string
}

/**
 * The id in the path that was called, and the whole answer; the other call ignores the fields that it does not take.
 */
const SAME_KEY = { parameters: { id: '$request.path.id' }, requestBody: '$response.body' }

/** Which calls take an answer that names no new resource. */
const LINKS: Partial<Record<OperationId, readonly Link[]>> = {
  wrap: [
    { operationId: 'unwrap', ...SAME_KEY },
    { operationId: 'rewrap', ...SAME_KEY },
  ],
  rewrap: [{ operationId: 'unwrap', ...SAME_KEY }],
  encrypt: [{ operationId: 'decrypt', requestBody: '$response.body' }],
  readAuditCheckpoint: [{ operationId: 'verifyAudit', parameters: { checkpoint: '$response.body#/checkpoint' } }],
}

/** Lists the links of a route's answer, by the operation that they lead to; none for most routes. */
export function linksOf({ operationId, path, status }: ServedRoute, all: readonly Route[]): Record<string, Link> {
  // A new key does not say which version a call is about.
  const isById = (route: Route) => route.path.startsWith(`${path}/:id`) && !route.path.includes(':version')
  const created = status === 201 ? all.filter(isById) : []
  const byId = created.map(
    (route): Link => ({ operationId: route.operationId, parameters: { id: '$response.body#/id' } }),
  )
  return Object.fromEntries(
    [...byId, ...(LINKS[operationId as OperationId] ?? [])].map((link) => [link.operationId, link]),
  )
}

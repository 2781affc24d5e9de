/**
 * The calls of the API, one row each, by `operationId`. Only this table defines a call's method, path and
 * status. The server binds an operation to each row, the SDK calls by these names, `/testing` binds its fakes
 * to them, and the broker and the OpenAPI document read them. The schemas are in wire/ under the same names,
 * not here, because the SDK loads this table in browsers.
 */

/** A row of the table. */
export interface RouteRow {
  /** the status of success, 200 by default; 204 has no body */
  status?: 201 | 204
  /** another status that comes with the usual answer instead of a problem document */
  alsoStatus?: 503
  /** whether the SDK repeats the call by itself when it fails: only if a second call does no harm */
  repeatable?: true
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** `:id` stands for the id of a key, or of an API key */
  path: string
}

/**
 * Every call, by the name that generated clients give it. The names are unique, in camel case, and never
 * change.
 */
export const ROUTES = {
  createKey: { status: 201, method: 'POST', path: '/v1/keys' },
  // Not repeatable: a second call would report the names of the first one as taken.
  createKeys: { method: 'POST', path: '/v1/batch/keys' },
  listKeys: { repeatable: true, method: 'GET', path: '/v1/keys' },
  getKey: { repeatable: true, method: 'GET', path: '/v1/keys/:id' },
  updateKey: { method: 'PATCH', path: '/v1/keys/:id' },
  rotateKey: { method: 'POST', path: '/v1/keys/:id/rotate' },
  setRotation: { method: 'PATCH', path: '/v1/keys/:id/rotation' },
  disableKey: { status: 204, method: 'DELETE', path: '/v1/keys/:id' },
  enableKey: { method: 'POST', path: '/v1/keys/:id/enable' },
  destroyKey: { method: 'POST', path: '/v1/keys/:id/destroy' },
  cancelDestruction: { method: 'POST', path: '/v1/keys/:id/destroy/cancel' },
  exportKey: { method: 'POST', path: '/v1/keys/:id/export' },
  wrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/wrap' },
  unwrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/unwrap' },
  rewrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/rewrap' },
  hash: { repeatable: true, method: 'POST', path: '/v1/hash' },
  encrypt: { repeatable: true, method: 'POST', path: '/v1/encrypt' },
  decrypt: { repeatable: true, method: 'POST', path: '/v1/decrypt' },
  // Repeatable, because each operation that it takes is.
  batch: { repeatable: true, method: 'POST', path: '/v1/batch' },
  listAudit: { repeatable: true, method: 'GET', path: '/v1/audit' },
  verifyAudit: { repeatable: true, method: 'GET', path: '/v1/audit/verify' },
  readAuditCheckpoint: { repeatable: true, method: 'GET', path: '/v1/audit/checkpoint' },
  exportAudit: { repeatable: true, method: 'GET', path: '/v1/audit/export' },
  listApiKeys: { repeatable: true, method: 'GET', path: '/v1/api-keys' },
  createApiKey: { status: 201, method: 'POST', path: '/v1/api-keys' },
  updateApiKey: { method: 'PATCH', path: '/v1/api-keys/:id' },
  revokeApiKey: { status: 204, method: 'DELETE', path: '/v1/api-keys/:id' },
  getTenant: { repeatable: true, method: 'GET', path: '/v1/tenant' },
  getUsage: { repeatable: true, method: 'GET', path: '/v1/usage' },
  /** The only call without an API key. */
  getHealth: { alsoStatus: 503, repeatable: true, method: 'GET', path: '/health' },
} as const satisfies Record<string, RouteRow>

/** The name of a call. */
export type OperationId = keyof typeof ROUTES
/** The calls whose path contains an id. */
export type OperationWithId = {
  [Id in OperationId]: (typeof ROUTES)[Id]['path'] extends `${string}:id${string}` ? Id : never
}[OperationId]

/**
 * Returns the id in a requested path, as it was sent; '' if the row's path has none, undefined if the path
 * does not match.
 */
export function matchPath(path: string, requested: string): string | undefined {
  const match = new RegExp(`^${path.replace(':id', '([^/]+)')}$`).exec(requested)
  return match ? (match[1] ?? '') : undefined
}

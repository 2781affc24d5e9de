/**
 * The calls of the API, one row each, by `operationId`. Only this table defines a call's method, path and status. The server
 * binds an operation to each row, the SDK calls by these names, `/testing` binds its fakes to them, and the broker and the
 * OpenAPI document read them. The schemas are in wire/ under the same names, not here, because the SDK loads this table in browsers.
 */
import type { Permission } from './permissions.js'

/** A row of the table. */
export interface RouteRow {
  /** all permissions that the API key needs, each itself or by one that implies it; empty for a batch, whose operations each need their own */
  permissions: readonly Permission[]
  /** the server sees the plaintext: closed to envelope-only tenants */
  serverMode?: true
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

/** Every call, by the name that generated clients give it. The names are unique, in camel case, and never change. */
export const ROUTES = {
  createKey: { permissions: ['keys:create'], status: 201, method: 'POST', path: '/v1/keys' },
  // Not repeatable: a second call would report the names of the first one as taken.
  createKeys: { permissions: ['keys:create'], method: 'POST', path: '/v1/batch/keys' },
  listKeys: { permissions: ['keys:read'], repeatable: true, method: 'GET', path: '/v1/keys' },
  getKey: { permissions: ['keys:read'], repeatable: true, method: 'GET', path: '/v1/keys/:id' },
  rotateKey: { permissions: ['keys:rotate'], method: 'POST', path: '/v1/keys/:id/rotate' },
  setRotation: { permissions: ['keys:rotate'], method: 'PATCH', path: '/v1/keys/:id/rotation' },
  disableKey: { permissions: ['keys:disable'], status: 204, method: 'DELETE', path: '/v1/keys/:id' },
  enableKey: { permissions: ['keys:disable'], method: 'POST', path: '/v1/keys/:id/enable' },
  destroyKey: { permissions: ['keys:destroy'], method: 'POST', path: '/v1/keys/:id/destroy' },
  cancelDestruction: { permissions: ['keys:destroy'], method: 'POST', path: '/v1/keys/:id/destroy/cancel' },
  exportKey: { permissions: ['keys:export'], method: 'POST', path: '/v1/keys/:id/export' },
  wrap: { permissions: ['encrypt'], repeatable: true, method: 'POST', path: '/v1/keys/:id/wrap' },
  unwrap: { permissions: ['decrypt'], repeatable: true, method: 'POST', path: '/v1/keys/:id/unwrap' },
  rewrap: { permissions: ['encrypt', 'decrypt'], repeatable: true, method: 'POST', path: '/v1/keys/:id/rewrap' },
  hash: { permissions: ['hash'], repeatable: true, method: 'POST', path: '/v1/hash' },
  encrypt: { permissions: ['encrypt'], serverMode: true, repeatable: true, method: 'POST', path: '/v1/encrypt' },
  decrypt: { permissions: ['decrypt'], serverMode: true, repeatable: true, method: 'POST', path: '/v1/decrypt' },
  // Repeatable, because each operation that it takes is.
  batch: { permissions: [], repeatable: true, method: 'POST', path: '/v1/batch' },
  listAudit: { permissions: ['audit:read'], repeatable: true, method: 'GET', path: '/v1/audit' },
  verifyAudit: { permissions: ['audit:read'], repeatable: true, method: 'GET', path: '/v1/audit/verify' },
  readAuditCheckpoint: { permissions: ['audit:read'], repeatable: true, method: 'GET', path: '/v1/audit/checkpoint' },
  exportAudit: { permissions: ['audit:read'], repeatable: true, method: 'GET', path: '/v1/audit/export' },
  listApiKeys: { permissions: ['api_keys:read'], repeatable: true, method: 'GET', path: '/v1/api-keys' },
  createApiKey: { permissions: ['api_keys:manage'], status: 201, method: 'POST', path: '/v1/api-keys' },
  updateApiKey: { permissions: ['api_keys:manage'], method: 'PATCH', path: '/v1/api-keys/:id' },
  revokeApiKey: { permissions: ['api_keys:manage'], status: 204, method: 'DELETE', path: '/v1/api-keys/:id' },
  getTenant: { permissions: ['keys:read'], repeatable: true, method: 'GET', path: '/v1/tenant' },
  getUsage: { permissions: ['audit:read'], repeatable: true, method: 'GET', path: '/v1/usage' },
  /** The only call without an API key. */
  getHealth: { permissions: [], alsoStatus: 503, repeatable: true, method: 'GET', path: '/health' },
} as const satisfies Record<string, RouteRow>

/** The name of a call. */
export type OperationId = keyof typeof ROUTES
/** The calls whose path contains an id. */
export type OperationWithId = {
  [Id in OperationId]: (typeof ROUTES)[Id]['path'] extends `${string}:id${string}` ? Id : never
}[OperationId]

/** Returns the id in a requested path, as it was sent; '' if the row's path has none, undefined if the path does not match. */
export function matchPath(path: string, requested: string): string | undefined {
  const match = new RegExp(`^${path.replace(':id', '([^/]+)')}$`).exec(requested)
  return match ? (match[1] ?? '') : undefined
}

/** The calls of the API: `ROUTES` says how to make each, and `RULES`, which pages do not download, what it requires. */
import type { Permission } from './names.js'

export interface RouteRow {
  /** the status of success, by default 200; 204 has no body */
  status?: 201 | 204
  /** another status with the usual answer instead of a problem document */
  alsoStatus?: 503
  /** the size of the answer grows with the tenant's data, or with the request */
  isLong?: true
  /** whether the SDK itself repeats the call after a failure: only if a second call is harmless */
  repeatable?: true
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** `:id` is the id of a key or of an API key, `:version` a version of the key */
  path: string
  /** the SDK's resource and method, or `client`; true if other functions include it; absent if the SDK does not call it */
  sdk?: string | true
}

/** Every call, by the name that generated clients give it. The names never change. */
export const ROUTES = {
  createKey: { status: 201, method: 'POST', path: '/v1/keys', sdk: 'keys.create' },
  // Not repeatable: a second call would report the names of the first one as taken.
  createKeys: { isLong: true, method: 'POST', path: '/v1/batch/keys', sdk: 'keys.createMany' },
  listKeys: { isLong: true, repeatable: true, method: 'GET', path: '/v1/keys', sdk: 'keys.list' },
  getKey: { repeatable: true, method: 'GET', path: '/v1/keys/:id', sdk: 'keys.get' },
  updateKey: { method: 'PATCH', path: '/v1/keys/:id', sdk: 'keys.update' },
  rotateKey: { method: 'POST', path: '/v1/keys/:id/rotate', sdk: 'keys.rotate' },
  setRotation: { method: 'PATCH', path: '/v1/keys/:id/rotation', sdk: 'keys.setRotation' },
  disableKey: { status: 204, method: 'DELETE', path: '/v1/keys/:id', sdk: 'keys.disable' },
  enableKey: { method: 'POST', path: '/v1/keys/:id/enable', sdk: 'keys.enable' },
  destroyKey: { method: 'POST', path: '/v1/keys/:id/destroy', sdk: 'keys.destroy' },
  cancelDestruction: { method: 'POST', path: '/v1/keys/:id/destroy/cancel', sdk: 'keys.cancelDestruction' },
  destroyVersion: { method: 'POST', path: '/v1/keys/:id/versions/:version/destroy', sdk: 'keys.destroyVersion' },
  exportKey: { method: 'POST', path: '/v1/keys/:id/export', sdk: 'keys.export' },
  wrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/wrap', sdk: true },
  unwrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/unwrap', sdk: true },
  rewrap: { repeatable: true, method: 'POST', path: '/v1/keys/:id/rewrap', sdk: true },
  indexSecret: { repeatable: true, method: 'POST', path: '/v1/keys/:id/index-secret', sdk: true },
  hash: { repeatable: true, method: 'POST', path: '/v1/hash', sdk: true },
  blindHash: { repeatable: true, method: 'POST', path: '/v1/hash/blind', sdk: true },
  encrypt: { repeatable: true, method: 'POST', path: '/v1/encrypt', sdk: 'server.encrypt' },
  decrypt: { repeatable: true, method: 'POST', path: '/v1/decrypt', sdk: 'server.decrypt' },
  // Repeatable, because each of its operations is.
  batch: { isLong: true, repeatable: true, method: 'POST', path: '/v1/batch', sdk: true },
  listAudit: { isLong: true, repeatable: true, method: 'GET', path: '/v1/audit', sdk: 'audit.list' },
  verifyAudit: { repeatable: true, method: 'GET', path: '/v1/audit/verify', sdk: 'audit.verify' },
  readAuditCheckpoint: { repeatable: true, method: 'GET', path: '/v1/audit/checkpoint' },
  exportAudit: { repeatable: true, method: 'GET', path: '/v1/audit/export' },
  listApiKeys: { isLong: true, repeatable: true, method: 'GET', path: '/v1/api-keys', sdk: 'apiKeys.list' },
  createApiKey: { status: 201, method: 'POST', path: '/v1/api-keys', sdk: 'apiKeys.create' },
  updateApiKey: { method: 'PATCH', path: '/v1/api-keys/:id', sdk: 'apiKeys.update' },
  revokeApiKey: { status: 204, method: 'DELETE', path: '/v1/api-keys/:id', sdk: 'apiKeys.revoke' },
  revokeSelf: { status: 204, method: 'DELETE', path: '/v1/api-keys/self' },
  getTenant: { repeatable: true, method: 'GET', path: '/v1/tenant', sdk: 'client.tenant' },
  getUsage: { repeatable: true, method: 'GET', path: '/v1/usage', sdk: 'client.usage' },
  getHealth: { alsoStatus: 503, repeatable: true, method: 'GET', path: '/health', sdk: 'client.health' },
} as const satisfies Record<string, RouteRow>

export type OperationId = keyof typeof ROUTES
export type SdkOperation = {
  [Id in OperationId]: (typeof ROUTES)[Id] extends { sdk: string | true } ? Id : never
}[OperationId]
export type OperationWithId = {
  [Id in OperationId]: (typeof ROUTES)[Id]['path'] extends `${string}:id${string}` ? Id : never
}[OperationId]

export const KEY_STATUSES = ['active', 'disabled', 'pending_destruction', 'destroyed'] as const
export type KeyStatus = (typeof KEY_STATUSES)[number]

export interface KeyRule {
  /** what the call does, for the sentence that refuses it */
  to: string
  /** the states in which the call succeeds, in the order of `KEY_STATUSES` */
  states: readonly KeyStatus[]
  /** those of them in which it changes nothing and writes no entry */
  unchanged?: readonly KeyStatus[]
}

export interface CallRule {
  /** held, or implied by a held one; none for a batch, whose operations need their own */
  permissions: readonly Permission[]
  /** the server sees the plaintext, so envelope-only tenants may not call it */
  serverMode?: true
  key?: KeyRule
}

const ACTIVE = ['active'] as const
/** A disabled key still opens; it only refuses new use. */
const OPENING = ['active', 'disabled'] as const

/** Calls on a key are in the order in which the rights report lists their permissions. */
export const RULES = {
  wrap: { permissions: ['wrap'], key: { to: 'wrap', states: ACTIVE } },
  encrypt: { permissions: ['encrypt'], serverMode: true, key: { to: 'encrypt', states: ACTIVE } },
  hash: { permissions: ['hash'], key: { to: 'hash', states: ACTIVE } },
  blindHash: { permissions: ['hash'], key: { to: 'hash', states: ACTIVE } },
  unwrap: { permissions: ['unwrap'], key: { to: 'unwrap', states: OPENING } },
  indexSecret: { permissions: ['unwrap'], key: { to: 'derive an index secret', states: OPENING } },
  decrypt: { permissions: ['decrypt'], serverMode: true, key: { to: 'decrypt', states: OPENING } },
  rewrap: { permissions: ['wrap', 'unwrap'], key: { to: 'rewrap', states: ACTIVE } },
  batch: { permissions: [] },
  getKey: { permissions: ['keys:read'], key: { to: 'read', states: KEY_STATUSES } },
  listKeys: { permissions: ['keys:read'] },
  createKey: { permissions: ['keys:create'] },
  createKeys: { permissions: ['keys:create'] },
  rotateKey: { permissions: ['keys:rotate'], key: { to: 'rotate', states: ACTIVE } },
  setRotation: { permissions: ['keys:rotate'], key: { to: 'set its rotation', states: OPENING } },
  disableKey: {
    permissions: ['keys:disable'],
    key: {
      to: 'disable',
      states: ['active', 'disabled', 'pending_destruction'],
      unchanged: ['disabled', 'pending_destruction'],
    },
  },
  enableKey: { permissions: ['keys:disable'], key: { to: 'enable', states: OPENING, unchanged: ['active'] } },
  // Like a scheduled destruction, it can stop every read of old data.
  updateKey: { permissions: ['keys:destroy'], key: { to: 'change what it opens', states: OPENING } },
  destroyKey: {
    permissions: ['keys:destroy'],
    key: {
      to: 'destroy',
      states: ['disabled', 'pending_destruction', 'destroyed'],
      unchanged: ['pending_destruction', 'destroyed'],
    },
  },
  cancelDestruction: {
    permissions: ['keys:destroy'],
    key: { to: 'cancel its destruction', states: ['pending_destruction'] },
  },
  destroyVersion: { permissions: ['keys:destroy'], key: { to: 'destroy a version of it', states: OPENING } },
  exportKey: { permissions: ['keys:export'], key: { to: 'export', states: OPENING } },
  listAudit: { permissions: ['audit:read'] },
  verifyAudit: { permissions: ['audit:read'] },
  readAuditCheckpoint: { permissions: ['audit:read'] },
  exportAudit: { permissions: ['audit:read'] },
  listApiKeys: { permissions: ['api_keys:read'] },
  createApiKey: { permissions: ['api_keys:manage'] },
  updateApiKey: { permissions: ['api_keys:manage'] },
  // Every API key may end its own use.
  revokeSelf: { permissions: [] },
  revokeApiKey: { permissions: ['api_keys:manage'] },
  getTenant: { permissions: ['keys:read'] },
  getUsage: { permissions: ['audit:read'] },
  getHealth: { permissions: [] },
} as const satisfies Record<OperationId, CallRule>

export type KeyCall = { [Id in OperationId]: (typeof RULES)[Id] extends { key: KeyRule } ? Id : never }[OperationId]

/** The parameters of a path; '' for a missing one. */
export interface Named {
  id: string
  version: string
}

/** Returns the parameters of a requested path, as they were sent; undefined if the path is not the row's. */
export function matchPath(path: string, requested: string): Named | undefined {
  const match = new RegExp(`^${path.replace(':id', '([^/]+)').replace(':version', '([^/]+)')}$`).exec(requested)
  return match ? { id: match[1] ?? '', version: match[2] ?? '' } : undefined
}

export function fillPath(path: string, { id = '', version }: { id?: string; version?: number | undefined }): string {
  return path.replace(':id', id).replace(':version', String(version))
}

/** Reads the number of a version in a path; undefined for a number that no version can have. */
export function readVersion(text: string): number | undefined {
  return /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : undefined
}

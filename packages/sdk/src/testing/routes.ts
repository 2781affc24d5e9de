/** The calls of the API that the SDK makes, as a table: what each needs, and what answers it. */
import { type Permission, wire } from '@eaas/protocol'
import type { ZodMiniType } from 'zod/mini'
import { createApiKey, listApiKeys, revokeApiKey, updateApiKey } from './api-keys.js'
import { listAudit, readUsage, verifyAudit } from './audit.js'
import {
  cancelDestruction,
  createKey,
  destroyKey,
  disableKey,
  enableKey,
  exportKey,
  listKeys,
  readKey,
  rotateKey,
  setRotation,
} from './keys.js'
import { apiKeysQuery, auditQuery, keysQuery, usageQuery } from './query.js'
import { decrypt, encrypt, hash, rewrap, unwrap, wrap } from './secrets.js'
import type { Call } from './state.js'

export interface Route {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  permissions: readonly Permission[]
  /** 200 where it is not given */
  status?: 201 | 204
  body?: ZodMiniType<unknown>
  query?: ZodMiniType<unknown>
  /** closed to envelope-only tenants */
  serverMode?: true
  answer: (call: Call, input: never) => unknown
}

const keys = '/v1/keys'
const apiKeys = '/v1/api-keys'

/** By the names that the calls have in the API's own description; `batch` and `getHealth` are elsewhere. */
export const ROUTES = {
  createKey: {
    method: 'POST',
    path: keys,
    permissions: ['keys:create'],
    status: 201,
    body: wire.createKey,
    answer: createKey,
  },
  listKeys: { method: 'GET', path: keys, permissions: ['keys:read'], query: keysQuery, answer: listKeys },
  getKey: { method: 'GET', path: `${keys}/:id`, permissions: ['keys:read'], answer: readKey },
  rotateKey: { method: 'POST', path: `${keys}/:id/rotate`, permissions: ['keys:rotate'], answer: rotateKey },
  setRotation: {
    method: 'PATCH',
    path: `${keys}/:id/rotation`,
    permissions: ['keys:rotate'],
    body: wire.setRotation,
    answer: setRotation,
  },
  disableKey: { method: 'DELETE', path: `${keys}/:id`, permissions: ['keys:disable'], status: 204, answer: disableKey },
  enableKey: { method: 'POST', path: `${keys}/:id/enable`, permissions: ['keys:disable'], answer: enableKey },
  destroyKey: {
    method: 'POST',
    path: `${keys}/:id/destroy`,
    permissions: ['keys:destroy'],
    body: wire.destroyKey,
    answer: destroyKey,
  },
  cancelDestruction: {
    method: 'POST',
    path: `${keys}/:id/destroy/cancel`,
    permissions: ['keys:destroy'],
    answer: cancelDestruction,
  },
  exportKey: { method: 'POST', path: `${keys}/:id/export`, permissions: ['keys:export'], answer: exportKey },
  wrap: { method: 'POST', path: `${keys}/:id/wrap`, permissions: ['encrypt'], body: wire.wrap, answer: wrap },
  unwrap: { method: 'POST', path: `${keys}/:id/unwrap`, permissions: ['decrypt'], body: wire.unwrap, answer: unwrap },
  rewrap: {
    method: 'POST',
    path: `${keys}/:id/rewrap`,
    permissions: ['encrypt', 'decrypt'],
    body: wire.unwrap,
    answer: rewrap,
  },
  hash: { method: 'POST', path: '/v1/hash', permissions: ['encrypt'], body: wire.hash, answer: hash },
  encrypt: {
    method: 'POST',
    path: '/v1/encrypt',
    permissions: ['encrypt'],
    body: wire.encrypt,
    serverMode: true,
    answer: encrypt,
  },
  decrypt: {
    method: 'POST',
    path: '/v1/decrypt',
    permissions: ['decrypt'],
    body: wire.decrypt,
    serverMode: true,
    answer: decrypt,
  },
  listAudit: { method: 'GET', path: '/v1/audit', permissions: ['audit:read'], query: auditQuery, answer: listAudit },
  verifyAudit: { method: 'GET', path: '/v1/audit/verify', permissions: ['audit:read'], answer: verifyAudit },
  listApiKeys: {
    method: 'GET',
    path: apiKeys,
    permissions: ['api_keys:read'],
    query: apiKeysQuery,
    answer: listApiKeys,
  },
  createApiKey: {
    method: 'POST',
    path: apiKeys,
    permissions: ['api_keys:manage'],
    status: 201,
    body: wire.createApiKey,
    answer: createApiKey,
  },
  updateApiKey: {
    method: 'PATCH',
    path: `${apiKeys}/:id`,
    permissions: ['api_keys:manage'],
    body: wire.updateApiKey,
    answer: updateApiKey,
  },
  revokeApiKey: {
    method: 'DELETE',
    path: `${apiKeys}/:id`,
    permissions: ['api_keys:manage'],
    status: 204,
    answer: revokeApiKey,
  },
  getTenant: {
    method: 'GET',
    path: '/v1/tenant',
    permissions: ['keys:read'],
    answer: ({ state }: Call) => state.tenant,
  },
  getUsage: { method: 'GET', path: '/v1/usage', permissions: ['audit:read'], query: usageQuery, answer: readUsage },
} as const satisfies Record<string, Route>

/** A call of the API by its name: what `failNext` takes. */
export type TestOperation = keyof typeof ROUTES | 'batch' | 'getHealth'

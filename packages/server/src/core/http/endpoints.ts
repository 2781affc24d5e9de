/**
 * Binds an operation to each row of the contract (protocol/routes.ts). The server has no other routes in /v1.
 */
import { MAX_BATCH_BODY_BYTES, type OperationId, type wire } from '@eaas/protocol'
import { createApiKey } from '../operations/create-api-key.js'
import { createKey } from '../operations/create-key.js'
import { createKeys } from '../operations/create-keys.js'
import { cancelDestruction, destroyKey } from '../operations/destroy-key.js'
import { destroyVersion } from '../operations/destroy-version.js'
import { disableKey, enableKey } from '../operations/disable-key.js'
import { hash, rewrap, unwrap, wrap } from '../operations/envelope-mode.js'
import { exportAudit } from '../operations/export-audit.js'
import { exportKey } from '../operations/export-key.js'
import { listApiKeysInPages } from '../operations/list-api-keys.js'
import { listKeysInPages } from '../operations/list-keys.js'
import { listAudit, readAuditCheckpoint } from '../operations/read-audit.js'
import { readKey } from '../operations/read-key.js'
import { readTenant, readUsage } from '../operations/read-tenant.js'
import { rotateKey } from '../operations/rotate-key.js'
import { decrypt, encrypt } from '../operations/server-mode.js'
import { setRotation } from '../operations/set-rotation.js'
import { revokeApiKey, revokeSelf, updateApiKey } from '../operations/update-api-key.js'
import { updateKey } from '../operations/update-key.js'
import { verifyAudit } from '../operations/verify-audit.js'
import { batch } from './batch.js'
import { bindRoutes, type Route } from './route.js'

/** Calls that read a whole log: some ten million entries. */
const WHOLE_LOG_TIMEOUT_MS = 10 * 60_000

const keyRoutes = bindRoutes({
  createKey: {
    summary: 'Create a key',
    problems: ['E_NAME_TAKEN', 'E_LIMIT'],
    action: 'key.create',
    operation: ({ body }) => createKey(body),
  },
  createKeys: {
    summary: 'Create many keys in one request',
    bodyLimit: MAX_BATCH_BODY_BYTES,
    countOperations: ({ keys }) => keys.length,
    operation: ({ body }) => createKeys(body),
  },
  listKeys: {
    summary: 'List the keys',
    operation: ({ query }) => listKeysInPages(query),
  },
  getKey: {
    summary: 'Read a key and its versions',
    operation: ({ id }) => readKey({ key_id: id }),
  },
  updateKey: {
    summary: 'Set the oldest version of a key that still opens',
    action: 'key.update',
    operation: ({ id, body }) => updateKey({ key_id: id, min_unwrap_version: body.min_unwrap_version }),
  },
  rotateKey: {
    summary: 'Rotate a key: a new version encrypts, older ones only decrypt',
    problems: ['E_LIMIT'],
    action: 'key.rotate',
    operation: ({ id }) => rotateKey({ key_id: id }),
  },
  setRotation: {
    summary: 'Set how often a key is rotated, or stop rotating it',
    action: 'key.rotation_policy',
    operation: ({ id, body }) => setRotation({ key_id: id, interval_days: body.interval_days }),
  },
  disableKey: {
    summary: 'Disable a key: it still decrypts, but encrypts nothing new',
    action: 'key.disable',
    operation: ({ id }) => disableKey({ key_id: id }),
  },
  enableKey: {
    summary: 'Enable a disabled key',
    action: 'key.enable',
    operation: ({ id }) => enableKey({ key_id: id }),
  },
  destroyKey: {
    summary: 'Destroy a disabled key for good, after a waiting period',
    action: 'key.destroy',
    operation: ({ id, body }) => destroyKey({ key_id: id, confirm: body.confirm }),
  },
  cancelDestruction: {
    summary: 'Cancel a pending destruction',
    action: 'key.destroy',
    operation: ({ id }) => cancelDestruction({ key_id: id }),
  },
  destroyVersion: {
    summary: 'Destroy a closed version of a key for good',
    action: 'key.destroy',
    operation: ({ id, version, body }) => destroyVersion({ key_id: id, version, confirm: body.confirm }),
  },
  exportKey: {
    summary: 'Export the secrets of a key',
    action: 'key.export',
    operation: ({ id }) => exportKey({ key_id: id }),
  },
})

const envelopeModeRoutes = bindRoutes({
  wrap: {
    summary: 'Wrap a DEK',
    problems: ['E_LIMIT'],
    action: 'key.wrap',
    operation: ({ id, body }) => wrap(id, body),
  },
  unwrap: {
    summary: 'Unwrap a DEK',
    problems: ['E_WRAPPED_KEY', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_BUDGET'],
    action: 'key.unwrap',
    operation: ({ id, body }) => unwrap(id, body),
  },
  rewrap: {
    summary: 'Rewrap a DEK under the current version, without revealing it',
    problems: ['E_WRAPPED_KEY', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_LIMIT'],
    action: 'key.wrap',
    operation: ({ id, body }) => rewrap(id, body),
  },
  hash: {
    summary: 'Compute the blind index of a value',
    problems: ['E_BUDGET'],
    operation: ({ body }) => hash(body),
  },
})

const serverModeRoutes = bindRoutes({
  encrypt: {
    summary: 'Encrypt on the server',
    problems: ['E_PLAINTEXT_TOO_LARGE', 'E_LIMIT', 'E_QUOTA_EXCEEDED'],
    action: 'encrypt',
    operation: ({ body }) => encrypt(body),
  },
  decrypt: {
    summary: 'Decrypt on the server',
    problems: ['E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_BUDGET', 'E_DECRYPTION_FAILED'],
    action: 'decrypt',
    operation: ({ body }) => decrypt(body),
  },
})

/** The calls that a batch takes. */
const BATCHABLE: Record<wire.BatchOperation, Route> = { ...envelopeModeRoutes, ...serverModeRoutes }

const batchRoutes = bindRoutes({
  batch: {
    summary: 'Make many calls in one request',
    bodyLimit: MAX_BATCH_BODY_BYTES,
    countOperations: ({ operations }) => operations.length,
    operation: ({ body, onError }) => batch(body.operations, { routes: BATCHABLE, onError }),
  },
})

const auditRoutes = bindRoutes({
  listAudit: {
    summary: 'List audit entries',
    problems: ['E_NOT_FOUND', 'E_BUDGET'],
    operation: ({ query: { limit, offset, order, ...filter }, signal }) =>
      listAudit(filter, { limit, offset, order }, signal?.()),
  },
  verifyAudit: {
    summary: 'Verify the audit log',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query, signal }) => verifyAudit({ ...query, signal: signal?.() }),
  },
  readAuditCheckpoint: {
    summary: 'Get a signed statement of where the audit log ends',
    operation: () => readAuditCheckpoint(),
  },
  exportAudit: {
    summary: 'Export the audit log as NDJSON that can be verified offline',
    contentType: 'application/x-ndjson',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query }) => exportAudit(query),
  },
})

const apiKeyRoutes = bindRoutes({
  listApiKeys: {
    summary: 'List the API keys',
    operation: ({ query }) => listApiKeysInPages(query),
  },
  createApiKey: {
    summary: 'Create an API key; its secret is shown once',
    problems: ['E_NOT_FOUND', 'E_LIMIT'],
    action: 'api_key.create',
    operation: ({ body }) => createApiKey(body),
  },
  updateApiKey: {
    summary: 'Change an API key',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_LIMIT'],
    action: 'api_key.update',
    operation: ({ id, body }) => updateApiKey({ api_key_id: id, changes: body }),
  },
  revokeSelf: {
    summary: 'Revoke the calling API key for good',
    action: 'api_key.revoke',
    operation: () => revokeSelf,
  },
  revokeApiKey: {
    summary: 'Revoke an API key for good',
    problems: ['E_NOT_FOUND'],
    action: 'api_key.revoke',
    operation: ({ id }) => revokeApiKey({ api_key_id: id }),
  },
})

const tenantRoutes = bindRoutes({
  getTenant: {
    summary: 'Read the tenant that the API key belongs to',
    operation: () => readTenant(),
  },
  getUsage: {
    summary: 'Count what the tenant did in a month',
    operation: ({ query, signal }) => readUsage({ ...query, signal: signal?.() }),
  },
})

/** The routes by resource: each is a chapter of the documentation. */
export const RESOURCES: readonly { name: string; description: string; routes: readonly Route[] }[] = [
  { name: 'Keys', description: 'Keys, their versions and their states.', routes: Object.values(keyRoutes) },
  {
    name: 'Envelope mode',
    description: 'The client encrypts; the server only wraps its data keys (DEKs), and computes blind indexes.',
    routes: Object.values(envelopeModeRoutes),
  },
  {
    name: 'Server mode',
    description: 'The server sees the plaintext. Refused for envelope-only tenants.',
    routes: Object.values(serverModeRoutes),
  },
  { name: 'Batch', description: 'Many calls in one request.', routes: Object.values(batchRoutes) },
  {
    name: 'Audit',
    description: 'The log of wraps, unwraps and changes, and its verification.',
    routes: Object.values(auditRoutes),
  },
  {
    name: 'API keys',
    description: 'API keys: who may call, and with which permissions.',
    routes: Object.values(apiKeyRoutes),
  },
  { name: 'Tenant', description: 'The calling tenant, and its usage.', routes: Object.values(tenantRoutes) },
]

// app.ts serves `getHealth`. A row of the contract without an operation does not compile here.
const BY_OPERATION_ID: Record<Exclude<OperationId, 'getHealth'>, Route> = {
  ...keyRoutes,
  ...envelopeModeRoutes,
  ...serverModeRoutes,
  ...batchRoutes,
  ...auditRoutes,
  ...apiKeyRoutes,
  ...tenantRoutes,
}

/** Every route of /v1. */
export const ROUTES: readonly Route[] = Object.values(BY_OPERATION_ID)

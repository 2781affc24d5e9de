/**
 * What each call of the API demands of its caller: beside the table of routes, since the SDK loads that one in browsers, where nobody
 * reads this.
 */
import type { Permission } from './permissions.js'
import type { OperationId } from './routes.js'

export interface Access {
  /** all permissions that the API key needs, each itself or by one that implies it; empty for a batch, whose operations each need their own */
  permissions: readonly Permission[]
  /** the server sees the plaintext: closed to envelope-only tenants */
  serverMode?: true
}

/** Every call, by its name in `ROUTES`. */
export const ACCESS: Readonly<Record<OperationId, Access>> = {
  createKey: { permissions: ['keys:create'] },
  createKeys: { permissions: ['keys:create'] },
  listKeys: { permissions: ['keys:read'] },
  getKey: { permissions: ['keys:read'] },
  rotateKey: { permissions: ['keys:rotate'] },
  setRotation: { permissions: ['keys:rotate'] },
  disableKey: { permissions: ['keys:disable'] },
  enableKey: { permissions: ['keys:disable'] },
  destroyKey: { permissions: ['keys:destroy'] },
  cancelDestruction: { permissions: ['keys:destroy'] },
  exportKey: { permissions: ['keys:export'] },
  wrap: { permissions: ['encrypt'] },
  unwrap: { permissions: ['decrypt'] },
  rewrap: { permissions: ['encrypt', 'decrypt'] },
  hash: { permissions: ['hash'] },
  encrypt: { permissions: ['encrypt'], serverMode: true },
  decrypt: { permissions: ['decrypt'], serverMode: true },
  batch: { permissions: [] },
  listAudit: { permissions: ['audit:read'] },
  verifyAudit: { permissions: ['audit:read'] },
  readAuditCheckpoint: { permissions: ['audit:read'] },
  exportAudit: { permissions: ['audit:read'] },
  listApiKeys: { permissions: ['api_keys:read'] },
  createApiKey: { permissions: ['api_keys:manage'] },
  updateApiKey: { permissions: ['api_keys:manage'] },
  revokeApiKey: { permissions: ['api_keys:manage'] },
  getTenant: { permissions: ['keys:read'] },
  getUsage: { permissions: ['audit:read'] },
  getHealth: { permissions: [] },
}

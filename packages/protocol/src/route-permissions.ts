/**
 * Which permissions each call of the API needs, and which calls are closed to envelope-only tenants. Not in
 * the table of routes, since web pages download that one with the SDK, and never this one.
 */
import type { Permission } from './permissions.js'
import type { OperationId } from './routes.js'

export interface RoutePermissions {
  /**
   * the permissions that the API key needs, each itself or by one that implies it; empty for a batch, whose
   * operations each need their own. A caller that acts for an end user (on-behalf-of.ts) needs
   * `audit:on_behalf_of` besides, in any call: the server adds it.
   */
  permissions: readonly Permission[]
  /** the server sees the plaintext: closed to envelope-only tenants */
  serverMode?: true
}

/** Every call, by its name in `ROUTES`. */
export const ROUTE_PERMISSIONS: Readonly<Record<OperationId, RoutePermissions>> = {
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

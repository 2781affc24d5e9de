/** All routes of /v1, by resource: binds an operation to each row of the contract (protocol/routes.ts). */
import type { OperationId } from '@eaas/protocol'
import { apiKeyRoutes } from '../api/api-keys.js'
import { auditRoutes } from '../api/audit.js'
import { batchRoutes } from '../api/batch.js'
import { envelopeModeRoutes } from '../api/envelope.js'
import { destructionRoutes } from '../api/key-destruction.js'
import { rotationRoutes } from '../api/key-rotation.js'
import { keyRoutes } from '../api/keys.js'
import type { Route } from '../api/route.js'
import { serverModeRoutes } from '../api/server-mode.js'
import { tenantRoutes } from '../api/tenant.js'

const allKeyRoutes = { ...keyRoutes, ...rotationRoutes, ...destructionRoutes }

/** Each resource is a chapter of the documentation. */
export const RESOURCES: readonly { name: string; description: string; routes: readonly Route[] }[] = [
  { name: 'Keys', description: 'Keys, their versions and their states.', routes: Object.values(allKeyRoutes) },
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

// open-paths.ts serves `getHealth`. Any other row of the contract without an operation fails to compile here.
const BY_OPERATION_ID: Record<Exclude<OperationId, 'getHealth'>, Route> = {
  ...allKeyRoutes,
  ...envelopeModeRoutes,
  ...serverModeRoutes,
  ...batchRoutes,
  ...auditRoutes,
  ...apiKeyRoutes,
  ...tenantRoutes,
}

export const ROUTES: readonly Route[] = Object.values(BY_OPERATION_ID)

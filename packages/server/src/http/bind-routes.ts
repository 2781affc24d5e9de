/** Collects every row of the contract with its operation. The server has no other routes in /v1. */
import type { OperationId } from '@eaas/protocol'
import { apiKeyRoutes } from './endpoints/api-keys.js'
import { auditRoutes } from './endpoints/audit.js'
import { batchRoutes } from './endpoints/batch.js'
import { envelopeModeRoutes } from './endpoints/envelope-mode.js'
import { keyRoutes } from './endpoints/keys.js'
import { serverModeRoutes } from './endpoints/server-mode.js'
import { tenantRoutes } from './endpoints/tenant.js'
import type { Route } from './route.js'

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
    description: 'The log of every use of a key, and its verification.',
    routes: Object.values(auditRoutes),
  },
  {
    name: 'API keys',
    description: 'API keys: who may call, and with which permissions.',
    routes: Object.values(apiKeyRoutes),
  },
  { name: 'Tenant', description: 'The calling tenant, and its usage.', routes: Object.values(tenantRoutes) },
]

// health.ts serves `getHealth`. A row of the contract without an operation does not compile here.
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

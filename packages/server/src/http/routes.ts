/** The table of routes: the single source of what the API is. A route that is not here does not exist. */
import { apiKeyRoutes } from './api-keys.js'
import { auditRoutes } from './audit.js'
import { batchRoutes } from './batch.js'
import { envelopeModeRoutes } from './envelope-mode.js'
import { keyRoutes } from './keys.js'
import type { Route } from './route.js'
import { serverModeRoutes } from './server-mode.js'
import { tenantRoutes } from './tenant.js'

/** The routes by what they are about: a chapter of the documentation each. */
export const RESOURCES: readonly { name: string; description: string; routes: readonly Route[] }[] = [
  { name: 'Keys', description: 'Keys and their lives.', routes: keyRoutes },
  {
    name: 'Envelope mode',
    description: 'The client encrypts; the server only wraps its data keys (DEKs), and computes blind indexes.',
    routes: envelopeModeRoutes,
  },
  {
    name: 'Server mode',
    description: 'The server sees the plaintext. Closed to envelope-only tenants.',
    routes: serverModeRoutes,
  },
  { name: 'Batch', description: 'Many calls in one request.', routes: batchRoutes },
  { name: 'Audit', description: 'The log of every use of a key, and its verification.', routes: auditRoutes },
  { name: 'API keys', description: 'Who may call, and for what.', routes: apiKeyRoutes },
  { name: 'Tenant', description: 'The tenant as it sees itself.', routes: tenantRoutes },
]

/** Every route of /v1. */
export const ROUTES: readonly Route[] = RESOURCES.flatMap(({ routes }) => routes)

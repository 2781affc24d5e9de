/** /v1/tenant and /v1/usage: the tenant as it sees itself. Tenants are managed on the command line, never here. */
import { wire } from '@eaas/protocol'
import { readTenant } from '../operations/read-tenant.js'
import { readUsage } from '../operations/read-usage.js'
import { usageQuery } from './query.js'
import { type Route, route } from './route.js'

export const tenantRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/tenant',
    operationId: 'getTenant',
    summary: 'Read the tenant that the API key belongs to',
    permissions: ['keys:read'],
    status: 200,
    answer: wire.tenant,
    operation: () => readTenant(),
  }),
  route({
    method: 'GET',
    path: '/v1/usage',
    operationId: 'getUsage',
    summary: 'Count what the tenant did in a month',
    permissions: ['audit:read'],
    status: 200,
    query: usageQuery,
    answer: wire.usage,
    operation: ({ query }) => readUsage(query),
  }),
]

/**
 * /v1/tenant and /v1/usage: the tenant as it sees itself. Tenants are managed on the command line, never
 * here.
 */
import { readTenant } from '../../operations/read-tenant.js'
import { readUsage } from '../../operations/read-usage.js'
import { bindRoutes } from '../route.js'

export const tenantRoutes = bindRoutes({
  getTenant: {
    summary: 'Read the tenant that the API key belongs to',
    operation: () => readTenant(),
  },
  getUsage: {
    summary: 'Count what the tenant did in a month',
    operation: ({ query }) => readUsage(query),
  },
})

/** The calls on the client itself: the tenant, its usage, and the health of the service. */
import { InvalidInputError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import { readSignal } from '../input.js'
import type { CallOptions } from './keys.js'
import type { Health, Tenant, Usage } from './wire-types.js'

export interface Service {
  /** Reads the tenant that the API key belongs to. One request. Needs `keys:read`. */
  tenant(options?: CallOptions): Promise<Tenant>
  /**
   * Returns how often the tenant used each operation in a month: `{ month, operations, unrecorded }`.
   * `unrecorded` counts by day and API key, reason and address what writes no audit entry: hashes, and calls
   * that were refused. One request. Needs `audit:read`.
   *
   * @param month `YYYY-MM`, UTC; the current month by default
   */
  usage(month?: string, options?: CallOptions): Promise<Usage>
  /** Reads the health of the service. `degraded` is returned, not thrown. One request. */
  health(options?: CallOptions): Promise<Health>
}

/** Makes the calls over one client's HTTP. */
export function createService(http: Http): Service {
  return {
    tenant: async (options) => http(toCall('getTenant', { signal: readSignal('tenant()', options) })),
    async usage(month, options) {
      const signal = readSignal('usage()', options)
      if (month !== undefined && !/^\d{4}-(?:0[1-9]|1[0-2])$/.test(month))
        throw new InvalidInputError('month must be YYYY-MM')
      return http(toCall('getUsage', { query: { month }, signal }))
    },
    health: async (options) => http(toCall('getHealth', { signal: readSignal('health()', options) })),
  }
}

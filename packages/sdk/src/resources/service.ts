/** The calls on the client itself: the tenant, its usage, and the health of the service. */
import type { wire } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import { readSignal } from '../input.js'
import type { CallOptions } from './keys.js'

export type Tenant = wire.Tenant
export type Usage = wire.Usage
export type Health = wire.Health

export interface Service {
  /** Reads the tenant that the API key belongs to. One request. Needs `keys:read`. */
  tenant(options?: CallOptions): Promise<Tenant>
  /**
   * Returns how often the tenant used each operation in a month: `{ month, operations, unrecorded, by_api_key }`.
   * `unrecorded` counts calls that write no audit entry, which are hashes and refused calls, by day, API key, reason
   * and address. `by_api_key` says what each API key opened and hashed today, and the median of the days before. One
   * request. Needs `audit:read`.
   * @param month `YYYY-MM`, UTC; the current month by default
   */
  usage(month?: string, options?: CallOptions): Promise<Usage>
  /** Reads the health of the service. `degraded` is returned, not thrown. One request. */
  health(options?: CallOptions): Promise<Health>
}

export default function createService(http: Http): Service {
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

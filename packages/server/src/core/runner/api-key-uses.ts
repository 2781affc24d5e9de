/**
 * When API keys were last used: recorded in memory by each call, and written periodically, apart from any
 * call.
 */
import { type ApiKeyRow, noteUses } from '../store/api-keys.js'
import type { Sql } from '../store/db.js'

export interface ApiKeyUses {
  /** Records that a call was admitted. `now` is in milliseconds since 1970. */
  note(apiKey: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>, now: number): void
  /**
   * Writes what was recorded since the last time, one statement per tenant. What could not be written is kept
   * for the next time.
   */
  flush(): Promise<void>
}

/** A recorded use that is further in the future than this was written by a wrong clock. */
const IMPLAUSIBLE_MS = 86_400_000

/** Creates the record; one per process. `now` tells the time in milliseconds since 1970. */
export function createApiKeyUses(sql: Sql, now: () => number): ApiKeyUses {
  /** by tenant: when each API key was last used */
  let noted = new Map<string, Map<string, number>>()

  function note({ tenant_id, api_key_id }: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>, usedAt: number): void {
    const uses = noted.get(tenant_id) ?? new Map<string, number>()
    noted.set(tenant_id, uses)
    if ((uses.get(api_key_id) ?? 0) < usedAt) uses.set(api_key_id, usedAt)
  }

  return {
    note,
    async flush() {
      const taken = noted
      noted = new Map()
      try {
        for (const [tenant_id, uses] of taken) {
          await noteUses(sql, tenant_id, uses, now() + IMPLAUSIBLE_MS)
          taken.delete(tenant_id)
        }
      } finally {
        for (const [tenant_id, uses] of taken) {
          for (const [api_key_id, usedAt] of uses) note({ tenant_id, api_key_id }, usedAt)
        }
      }
    },
  }
}

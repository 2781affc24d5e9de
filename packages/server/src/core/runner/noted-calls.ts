/**
 * What calls leave behind apart from entries: when API keys were used, and how many calls have no entry, by API key,
 * address and day. Each call notes it in memory; it is written periodically, apart from any call.
 */
import type { UnrecordedKind } from '@eaas/protocol'
import { type ApiKeyRow, noteUses } from '../store/api-keys.js'
import type { Sql } from '../store/db.js'
import { addUnrecordedCalls, type UnrecordedCount } from '../store/unrecorded-calls.js'

export interface ApiKeyUses {
  /** Records that a call was admitted. `now` is in milliseconds since 1970. */
  note(apiKey: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>, now: number): void
  /**
   * Writes what was recorded since the last time, one statement per tenant. What could not be written is kept for the
   * next time.
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

/** Counts of one statement. */
const MAX_WRITTEN = 1_000
/**
 * Addresses of an API key that are counted separately on one day. Calls from any more are counted together, so that a
 * caller with many addresses cannot fill the table.
 */
const MOST_ADDRESSES = 32

/** Whose calls are counted. */
type CountedCaller = Pick<UnrecordedCount, 'tenant_id' | 'api_key_id' | 'ip_address'>

export interface UnrecordedCalls {
  /** Counts a call of an API key, or several at once. `now` is in milliseconds since 1970. */
  count(kind: UnrecordedKind, caller: CountedCaller, now: number, calls?: number): void
  /**
   * Writes what was counted since the last time. What could not be written is kept for the next time; if only the
   * database's answer was lost, it is then counted twice.
   */
  flush(): Promise<void>
}

/** Creates the counts; one per process. `observe` is called with what is counted. */
export function createUnrecordedCalls(
  sql: Sql,
  observe?: (kind: UnrecordedKind, calls: number) => void,
): UnrecordedCalls {
  let counts = new Map<string, UnrecordedCount>()
  const countedAddress = createAddressLimit()

  function add(more: UnrecordedCount): void {
    const name = `${more.api_key_id} ${more.kind} ${more.day} ${more.ip_address}`
    const count = counts.get(name)
    if (count) count.calls += more.calls
    else counts.set(name, more)
  }

  return {
    count(kind, { tenant_id, api_key_id, ip_address }, now, calls = 1) {
      observe?.(kind, calls)
      const day = new Date(now).toISOString().slice(0, 10)
      add({ tenant_id, api_key_id, day, kind, ip_address: countedAddress(day, api_key_id, ip_address), calls })
    },
    async flush() {
      const taken = [...counts.values()]
      counts = new Map()
      try {
        while (taken.length > 0) {
          await addUnrecordedCalls(sql, taken.slice(0, MAX_WRITTEN))
          taken.splice(0, MAX_WRITTEN)
        }
      } finally {
        taken.forEach(add)
      }
    },
  }
}

/** Returns an address as it is counted: itself, or '' beyond an API key's first `MOST_ADDRESSES` on a day. */
function createAddressLimit(): (day: string, api_key_id: string, ip_address: string) => string {
  let today = ''
  let seen = new Map<string, Set<string>>()
  return (day, api_key_id, ip_address) => {
    if (day !== today) {
      today = day
      seen = new Map()
    }
    const addresses = seen.get(api_key_id) ?? new Set()
    seen.set(api_key_id, addresses)
    if (addresses.size < MOST_ADDRESSES) addresses.add(ip_address)
    return addresses.has(ip_address) ? ip_address : ''
  }
}

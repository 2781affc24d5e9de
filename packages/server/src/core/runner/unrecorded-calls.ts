/**
 * Calls that write no entry: counted in memory by API key, address and day, and written periodically, apart
 * from any call.
 */
import type { UnrecordedKind } from '@eaas/protocol'
import type { Sql } from '../store/db.js'
import { addUnrecordedCalls, type UnrecordedCount } from '../store/unrecorded-calls.js'

/** Counts of one statement. */
const MAX_WRITTEN = 1_000
/**
 * Addresses of an API key that are counted separately on one day. Calls from any more are counted together, so that a
 * caller with many addresses cannot fill the table.
 */
const MOST_ADDRESSES = 32

/** Whose calls are counted. */
export type CountedCaller = Pick<UnrecordedCount, 'tenant_id' | 'api_key_id' | 'ip_address'>

export interface UnrecordedCalls {
  /** Counts a call of an API key, or several at once. `now` is in milliseconds since 1970. */
  count(kind: UnrecordedKind, caller: CountedCaller, now: number, calls?: number): void
  /**
   * Writes what was counted since the last time. What could not be written is kept for the next time; if only
   * the database's answer was lost, it is then counted twice.
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

/** Calls that write no entry: counted in memory by API key and day, and written periodically, apart from any call. */
import type { UnrecordedKind } from '@eaas/protocol'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Sql } from '../store/db.js'
import { addUnrecordedCalls, type UnrecordedCount } from '../store/unrecorded-calls.js'

/** Counts of one statement. */
const MAX_WRITTEN = 1_000

export interface UnrecordedCalls {
  /** Counts a call of an API key. `now` is in milliseconds since 1970. */
  count(kind: UnrecordedKind, apiKey: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>, now: number): void
  /**
   * Writes what was counted since the last time. What could not be written is kept for the next time; if only the database's answer was
   * lost, it is then counted twice.
   */
  flush(): Promise<void>
}

/** Creates the counts; one per process. `observe` is called with each call. */
export function createUnrecordedCalls(sql: Sql, observe?: (kind: UnrecordedKind) => void): UnrecordedCalls {
  let counts = new Map<string, UnrecordedCount>()

  function add(more: UnrecordedCount): void {
    const name = `${more.api_key_id} ${more.kind} ${more.day}`
    const count = counts.get(name)
    if (count) count.calls += more.calls
    else counts.set(name, more)
  }

  return {
    count(kind, { tenant_id, api_key_id }, now) {
      observe?.(kind)
      add({ tenant_id, api_key_id, day: new Date(now).toISOString().slice(0, 10), kind, calls: 1 })
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

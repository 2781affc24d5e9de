/**
 * Records of calls apart from entries: when API keys were used, and how many calls have no entry. They are noted in
 * memory and written periodically; if that fails, they are kept for the next time.
 */
import type { UnrecordedKind } from '@eaas/protocol'
import { type ApiKeyRow, noteUses } from '../store/api-keys.js'
import type { Sql } from '../store/db.js'
import { addUnrecordedCalls, type UnrecordedCount } from '../store/unrecorded-calls.js'

export type ApiKeyUses = ReturnType<typeof createApiKeyUses>

/** A recorded use that is further in the future comes from a wrong clock. */
const IMPLAUSIBLE_MS = 86_400_000

/** All times are in milliseconds since 1970. */
export function createApiKeyUses(sql: Sql, now: () => number) {
  let noted = new Map<string, Map<string, number>>()

  function note({ tenant_id, api_key_id }: Pick<ApiKeyRow, 'tenant_id' | 'api_key_id'>, usedAt: number): void {
    const uses = noted.get(tenant_id) ?? new Map<string, number>()
    noted.set(tenant_id, uses)
    if ((uses.get(api_key_id) ?? 0) < usedAt) uses.set(api_key_id, usedAt)
  }

  return {
    note,
    async flush(): Promise<void> {
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

const MAX_WRITTEN = 1_000
/** How many addresses of an API key are counted separately on a day. The rest share one count, so they cannot fill the table. */
const MOST_ADDRESSES = 32

type CountedCaller = Pick<UnrecordedCount, 'tenant_id' | 'api_key_id' | 'ip_address'>

export type UnrecordedCalls = ReturnType<typeof createUnrecordedCalls>

export function createUnrecordedCalls(sql: Sql, observe?: (kind: UnrecordedKind, calls: number) => void) {
  let counts = new Map<string, UnrecordedCount>()
  const countedAddress = createAddressLimit()

  function add(more: UnrecordedCount): void {
    const name = `${more.api_key_id} ${more.kind} ${more.day} ${more.ip_address}`
    const count = counts.get(name)
    if (count) count.calls += more.calls
    else counts.set(name, more)
  }

  return {
    /** `now` is in milliseconds since 1970. */
    count(kind: UnrecordedKind, { tenant_id, api_key_id, ip_address }: CountedCaller, now: number, calls = 1): void {
      observe?.(kind, calls)
      const day = new Date(now).toISOString().slice(0, 10)
      add({ tenant_id, api_key_id, day, kind, ip_address: countedAddress(day, api_key_id, ip_address), calls })
    },
    /** If only the database's answer is lost, the written counts are added again. */
    async flush(): Promise<void> {
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

/** Returns '' for an address beyond an API key's first `MOST_ADDRESSES` on a day. */
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

// Records which API keys open or hash more than twice their usual number, today, or on the day before in calls after
// that day's last run. Every process compares; under the lock of the head, one records it, once a day.
import type { Operation, Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { isMovedAway } from '../../core/runner/tenant-state.js'
import { hasEntrySince } from '../../core/store/audit.js'
import { listTenantIds } from '../../core/store/tenants.js'
import { type ApiKeyUsage, listApiKeyUsage } from '../../core/store/unrecorded-calls.js'

export const DOUBLED =
  'an API key opened or hashed more than twice as many values today as is usual for it: find out whether its owner knows why, and revoke it if not'

const LEAST_NOTED = 100 // smaller numbers in a day are not recorded: three opened values after a day with one are no news
const DAY_MS = 86_400_000

type UsageOf = Pick<ApiKeyUsage, 'tenant_id'> & Partial<Pick<ApiKeyUsage, 'api_key_id'>>

interface DoubledUsageOptions {
  onDoubled?: (usage: ApiKeyUsage) => void
  /** called for usage that could not be read or written, before the others continue; by default the error is thrown */
  onError?: (error: unknown, of: UsageOf) => void
  signal?: AbortSignal // ends the work after the current API key
}

/** One per process; it remembers today's records. */
export function createDoubledUsageJob(services: Services): (options?: DoubledUsageOptions) => Promise<void> {
  let noted = new Map<string, Set<string>>()
  return async (options = {}) => {
    const now = services.now()
    const days = [now - DAY_MS, now].map((at) => new Date(at).toISOString().slice(0, 10))
    noted = new Map(days.map((day) => [day, noted.get(day) ?? new Set()]))
    for (const tenant_id of await listTenantIds(services.sql)) {
      for (const [day, names] of noted) await noteDay(services, { tenant_id, day, names }, options)
    }
  }
}

type Day = { tenant_id: string; day: string; names: Set<string> }

// One statement for each tenant, so that a tenant whose counts take too long does not stop the others.
async function noteDay(
  services: Services,
  { tenant_id, day, names }: Day,
  { onDoubled, onError, signal }: DoubledUsageOptions,
): Promise<void> {
  const attempt = async <Result>(of: UsageOf, work: () => Promise<Result>): Promise<Result | undefined> => {
    if (signal?.aborted) return undefined
    try {
      return await work()
    } catch (error) {
      if (!onError) throw error
      onError(error, of)
      return undefined
    }
  }
  const all = await attempt({ tenant_id }, () => listApiKeyUsage(services.sql, { tenant_id, day }))
  for (const usage of all?.filter(isDoubled) ?? []) {
    const { api_key_id, kind } = usage
    const name = `${api_key_id} ${kind}`
    if (names.has(name)) continue
    await attempt({ tenant_id, api_key_id }, async () => {
      const isNew = await performAsSystem(services, tenant_id, noteDoubledUsage(usage, day), { underLock: true })
      names.add(name)
      if (isNew) onDoubled?.(usage)
    })
  }
}

function isDoubled({ today, median }: ApiKeyUsage): boolean {
  return median !== null && today > 2 * median && today >= LEAST_NOTED
}

// Returns whether it wrote the entry. Decides under the lock of the head, so that no other process also writes it.
function noteDoubledUsage({ api_key_id, kind, today, median }: ApiKeyUsage, day: string): Operation<boolean> {
  return async ({ state, sql }) => {
    const texts = [`"api_key_id":"${api_key_id}"`, `"day":"${day}"`, `"operation":"${kind}"`]
    const entry = { tenant_id: state.tenant.tenant_id, action: 'usage.doubled' as const, day, texts }
    if (isMovedAway(state.tenant) || (await hasEntrySince(sql, entry))) return { entries: [], release: () => false }
    const metadata = { api_key_id, count: today, day, median, operation: kind }
    return { entries: [{ action: 'usage.doubled', metadata }], release: () => true }
  }
}

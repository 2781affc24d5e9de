/**
 * Records which API keys open or hash more than twice what is usual for them, today and on the day before, whose last
 * calls came after its last run. Every process looks, since each knows the counts of all; the lock of the head ensures
 * that one of them records it, once for each day.
 */
import { noteDoubledUsage } from '../operations/note-doubled-usage.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { type ApiKeyUsage, listApiKeyUsage } from '../store/api-key-usage.js'
import { listTenantsWithHeads, NIL_UUID } from '../store/audit.js'

/** Tenants of one statement. */
const PAGE_TENANTS = 100
/** Fewer in a day are not recorded: three opened values after a day with one are no news. */
const LEAST_NOTED = 100
const DAY_MS = 86_400_000

export interface DoubledUsageOptions {
  /** called for each entry that was written */
  onDoubled?: (usage: ApiKeyUsage) => void
  /** called for an API key whose entry could not be written; the others continue. Without it, the error is thrown */
  onError?: (error: unknown, usage: ApiKeyUsage) => void
  /** ends the work after the current API key */
  signal?: AbortSignal
}

/** Creates the job; one per process, which remembers what is on record today. */
export function createDoubledUsageJob(services: Services): (options?: DoubledUsageOptions) => Promise<void> {
  let noted = new Map<string, Set<string>>()
  return async ({ onDoubled, onError, signal } = {}) => {
    const now = services.now()
    const days = [now - DAY_MS, now].map((at) => new Date(at).toISOString().slice(0, 10))
    noted = new Map(days.map((day) => [day, noted.get(day) ?? new Set()]))
    for (const [day, names] of noted) {
      for await (const usage of doubledUsage(services, day)) {
        if (signal?.aborted) return
        const name = `${usage.api_key_id} ${usage.kind}`
        if (names.has(name)) continue
        try {
          const isNew = await performAsSystem(services, usage.tenant_id, noteDoubledUsage(usage, day), { inTurn: true })
          names.add(name)
          if (isNew) onDoubled?.(usage)
        } catch (error) {
          if (!onError) throw error
          onError(error, usage)
        }
      }
    }
  }
}

async function* doubledUsage({ sql }: Services, day: string): AsyncGenerator<ApiKeyUsage> {
  for (let after: string | undefined = NIL_UUID; after !== undefined; ) {
    const tenant_ids: string[] = await listTenantsWithHeads(sql, after, PAGE_TENANTS)
    const usage = await listApiKeyUsage(sql, { tenant_ids, day })
    yield* usage.filter(isDoubled)
    after = tenant_ids.at(-1)
  }
}

function isDoubled({ today, median }: ApiKeyUsage): boolean {
  return median !== null && today > 2 * median && today >= LEAST_NOTED
}

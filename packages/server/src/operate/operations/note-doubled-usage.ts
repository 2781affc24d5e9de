/** Records once for a day that an API key opened or hashed more than twice what is usual for it. */
import type { Operation } from '../../core/runner/operation.js'
import type { ApiKeyUsage } from '../../core/store/api-key-usage.js'
import { hasEntrySince } from '../../core/store/audit.js'

/**
 * Writes the entry, unless that day has one; returns whether it did. Decide it under the lock of the head, so that no
 * other process writes it too.
 */
export function noteDoubledUsage({ api_key_id, kind, today, median }: ApiKeyUsage, day: string): Operation<boolean> {
  return async ({ state, sql }) => {
    const texts = [`"api_key_id":"${api_key_id}"`, `"day":"${day}"`, `"operation":"${kind}"`]
    const entry = { tenant_id: state.tenant.tenant_id, action: 'usage.doubled' as const, day, texts }
    if (await hasEntrySince(sql, entry)) return { entries: [], release: () => false }
    const metadata = { api_key_id, count: today, day, median, operation: kind }
    return { entries: [{ action: 'usage.doubled', metadata }], release: () => true }
  }
}

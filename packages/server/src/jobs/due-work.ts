/**
 * Carries out rotations that are due by a key's policy, and destructions whose waiting period is over. Every
 * process tries; the policy version ensures that one of them does it, once.
 */
import { destroyKeyIfDue } from '../operations/destroy-key.js'
import { rotateKeyIfDue } from '../operations/rotate-key.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { type DueKey, listDueKeys } from '../store/keys.js'

/** Keys listed at a time. */
const PAGE_KEYS = 500

export interface DueWorkOptions {
  /**
   * called for a key that failed, which is tried again next time; the others continue. Without it, the error
   * is thrown
   */
  onError?: (error: unknown, key_id: string) => void
  /** ends the work after the current key */
  signal?: AbortSignal
}

/** Changes every key that is due by this clock and by the database's, once; returns how many it changed. */
export async function doDueWork(services: Services, { onError, signal }: DueWorkOptions = {}): Promise<number> {
  const now = new Date(Math.min(services.now(), await services.databaseNow())).toISOString()
  let changed = 0
  for await (const { tenant_id, key_id, status } of dueKeys(services, now)) {
    if (signal?.aborted) break
    const operation = status === 'active' ? rotateKeyIfDue({ key_id }) : destroyKeyIfDue({ key_id })
    try {
      if (await performAsSystem(services, tenant_id, operation)) changed += 1
    } catch (error) {
      if (!onError) throw error
      onError(error, key_id)
    }
  }
  return changed
}

// Keyset pagination: processed keys drop out and failed ones remain, so an offset would skip keys.
async function* dueKeys({ sql }: Services, now: string): AsyncGenerator<DueKey> {
  for (let after: DueKey | undefined; ; ) {
    const page = await listDueKeys(sql, now, { after, limit: PAGE_KEYS })
    yield* page
    after = page.at(-1)
    if (!after || page.length < PAGE_KEYS) return
  }
}

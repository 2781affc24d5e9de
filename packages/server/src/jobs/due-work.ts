/**
 * What the server does by itself: rotations that are due by a key's policy, destructions whose waiting period is over. Every
 * process looks; the policy version lets one of them do it, once.
 */
import { destroyKeyIfDue } from '../operations/destroy-key.js'
import { rotateKeyIfDue } from '../operations/rotate-key.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { type DueKey, listDueKeys } from '../store/keys.js'

/** Keys listed at a time. */
const PAGE_KEYS = 500

export interface DueWorkOptions {
  /** told of a key that failed; it does not stop the others, and is tried again next time. Without it, the error is thrown */
  onError?: (error: unknown, key_id: string) => void
  /** ends the work after the key that it has come to */
  signal?: AbortSignal
}

/** Does all that is due by this clock and by the database's, once; returns how many keys it changed. */
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

// What is changed is due no longer, what failed is due still: each page goes on after the last key of the one before.
async function* dueKeys({ sql }: Services, now: string): AsyncGenerator<DueKey> {
  for (let after: DueKey | undefined; ; ) {
    const page = await listDueKeys(sql, now, { after, limit: PAGE_KEYS })
    yield* page
    after = page.at(-1)
    if (!after || page.length < PAGE_KEYS) return
  }
}

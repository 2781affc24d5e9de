/**
 * What the server does by itself: rotations that are due by a key's policy, destructions whose waiting period is over. Every
 * process looks; the policy version lets one of them do it, once.
 */
import { destroyKeyIfDue } from './operations/destroy-key.js'
import type { Services } from './operations/operation.js'
import { performAsSystem } from './operations/perform.js'
import { rotateKeyIfDue } from './operations/rotate-key.js'
import { listDueKeys } from './store/keys.js'

/** Keys taken at a time. */
const BATCH_KEYS = 500

/** Does what is due, once; returns how many keys it changed. A key that fails is told of, and does not stop the others. */
export async function doDueWork(
  services: Services,
  onError: (error: unknown, key_id: string) => void = (error) => {
    throw error
  },
): Promise<number> {
  const now = new Date(services.now()).toISOString()
  let changed = 0
  for (const { tenant_id, key_id, status } of await listDueKeys(services.sql, now, BATCH_KEYS)) {
    const operation = status === 'active' ? rotateKeyIfDue({ key_id }) : destroyKeyIfDue({ key_id })
    try {
      if (await performAsSystem(services, tenant_id, operation)) changed += 1
    } catch (error) {
      onError(error, key_id)
    }
  }
  return changed
}

/** key.rotation_policy: how often the server rotates a key by itself. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { changeKey, nextRotation, viewKey } from './shared/key-rows.js'
import { getKeyInState } from './shared/key-use.js'

/** Sets the interval, counted from now; null ends the policy. @throws Refusal E_NOT_FOUND, E_STATE */
export function setRotation({
  key_id,
  interval_days,
}: {
  key_id: string
  interval_days: number | null
}): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, 'setRotation')
    const { row } = key
    if (interval_days === null && row.rotation_interval_days === null) {
      return { entries: [], release: () => viewKey(row) }
    }
    return changeKey(state, key, {
      entry: {
        action: 'key.rotation_policy',
        key_id,
        key_version: row.current_version,
        metadata: { interval_days, interval_days_before: row.rotation_interval_days, status: row.status },
      },
      changes: ({ created_at }) => ({
        rotation_interval_days: interval_days,
        next_rotation_at: nextRotation(interval_days, created_at),
      }),
    })
  }
}

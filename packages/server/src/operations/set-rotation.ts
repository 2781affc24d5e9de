/** key.rotation_policy: how often the server rotates a key by itself. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import type { KeyRow } from '../store/keys.js'
import { writeKey } from './change-key.js'
import { getKeyIn } from './key.js'
import { viewKey } from './key-view.js'
import { MS_PER_DAY } from './ms-per-day.js'

/** Sets the interval, counted from now; null ends the policy. @throws Refusal E_NOT_FOUND, E_STATE */
export function setRotation({
  key_id,
  interval_days,
}: {
  key_id: string
  interval_days: number | null
}): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyIn(state, key_id, { states: ['active', 'disabled'], to: 'set its rotation' })
    let { row } = key
    if (interval_days === null && row.rotation_interval_days === null) {
      return { entries: [], release: () => viewKey(row) }
    }
    return {
      entries: [
        { action: 'key.rotation_policy', key_id, key_version: row.current_version, metadata: { interval_days } },
      ],
      async change(sql, at) {
        const changes: Partial<KeyRow> = {
          rotation_interval_days: interval_days,
          next_rotation_at: nextRotation(interval_days, at.created_at),
        }
        row = await writeKey(sql, { row: key.row, changes, at, rowKey: state.rowKey })
        return { key: row }
      },
      release: () => viewKey(row),
    }
  }
}

/** When the next rotation is due after a moment; null without a policy. */
export function nextRotation(interval_days: number | null, after: string): string | null {
  return interval_days === null ? null : new Date(Date.parse(after) + interval_days * MS_PER_DAY).toISOString()
}

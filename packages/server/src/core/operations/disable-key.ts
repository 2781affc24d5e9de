/** key.disable and key.enable: a disabled key still opens what it protected, and protects nothing new. */
import { type Action, changesNothing, type KeyCall, type wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { changeKey, viewKey } from './shared/key-rows.js'
import { getKeyInState } from './shared/key-use.js'

/** Disables a key; one that is disabled or waits for its destruction stays so. @throws Refusal E_NOT_FOUND, E_STATE */
export function disableKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return setStatus(key_id, { status: 'disabled', action: 'key.disable', call: 'disableKey' })
}

/** Enables a key; one that is active stays so. @throws Refusal E_NOT_FOUND, E_STATE */
export function enableKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return setStatus(key_id, { status: 'active', action: 'key.enable', call: 'enableKey' })
}

function setStatus(
  key_id: string,
  { status, action, call }: { status: 'active' | 'disabled'; action: Action; call: KeyCall },
): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, call)
    if (changesNothing(call, key.row.status)) return { entries: [], release: () => viewKey(key.row) }
    const entry = { action, key_id, key_version: key.row.current_version }
    return changeKey(state, key, { entry, changes: () => ({ status }) })
  }
}

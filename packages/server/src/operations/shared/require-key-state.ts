/**
 * Gets a key for an operation, and refuses it in a state that does not allow the call
 * (protocol/key-states.ts).
 */
import { DETAILS, findStateRefusal, type KeyCall } from '@eaas/protocol'
import type { OpenKey } from '../../runner/load-key.js'
import type { Decision } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'

/**
 * Gets a key whatever its state. @throws Refusal E_NOT_FOUND, identical for another tenant's key and for a
 * malformed id, so existence never leaks
 */
export async function getKey(state: TenantState, key_id: string): Promise<OpenKey> {
  return existing(await state.findKey(key_id))
}

function existing(key: OpenKey | undefined): OpenKey {
  if (!key) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.key)
  return key
}

/** Gets a key whose state allows the call. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED */
export async function getKeyInState(state: TenantState, key_id: string, call: KeyCall): Promise<OpenKey> {
  return inState(await state.findKey(key_id), call)
}

/**
 * Decides with a key whose state allows the call: at once if the key is loaded, because a promise for each of
 * them is a tenth of what an item of a batch costs. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED
 */
export function decideWithKey<Answer>(
  { state, key_id, call }: { state: TenantState; key_id: string; call: KeyCall },
  decide: (key: OpenKey) => Decision<Answer>,
): Decision<Answer> | Promise<Decision<Answer>> {
  const found = state.findKey(key_id)
  return found instanceof Promise ? found.then((key) => decide(inState(key, call))) : decide(inState(found, call))
}

function inState(found: OpenKey | undefined, call: KeyCall): OpenKey {
  const key = existing(found)
  const refusal = findStateRefusal(call, key.row.status)
  if (refusal) throw new Refusal(refusal.code, refusal.detail)
  return key
}

/** Gets a key for an operation, and refuses it in a state that does not allow the operation. */
import type { wire } from '@eaas/protocol'
import type { OpenKey } from '../../runner/open-key.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'

/** The states in which a key opens what it once protected: disabling stops new use, not reading. */
export const OPENING_STATES = ['active', 'disabled'] as const

const KEY_DESTROYED = 'the key was destroyed: what it protected can never be opened again'

/** Gets a key whatever its state. @throws Refusal E_NOT_FOUND, identical for another tenant's key and for a malformed id, so existence never leaks */
export async function getKey(state: TenantState, key_id: string): Promise<OpenKey> {
  const key = await state.findKey(key_id)
  if (!key) throw new Refusal('E_NOT_FOUND', 'key not found')
  return key
}

/** Gets a key that is in one of these states (the table of states in the API's contract). @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED */
export async function getKeyInState(
  state: TenantState,
  key_id: string,
  { states, to }: { states: readonly wire.KeyStatus[]; to: string },
): Promise<OpenKey> {
  const key = await getKey(state, key_id)
  // A code of its own, so that an application can tell erased data, which no retry and no restored envelope brings back.
  if (key.row.status === 'destroyed' && !states.includes('destroyed'))
    throw new Refusal('E_KEY_DESTROYED', KEY_DESTROYED)
  if (!states.includes(key.row.status)) {
    throw new Refusal('E_STATE', `the key is ${key.row.status}: to ${to} it must be ${states.join(' or ')}`)
  }
  return key
}

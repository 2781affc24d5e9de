/** Gets a key for an operation, and refuses it in a state that does not allow the operation. */
import type { wire } from '@eaas/protocol'
import type { OpenKey } from '../../runner/load-key.js'
import type { Decision } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'

/** The states in which a key opens what it once protected: disabling stops new use, not reading. */
export const OPENING_STATES = ['active', 'disabled'] as const

const KEY_DESTROYED = 'the key was destroyed: what it protected can never be opened again'

/** Gets a key whatever its state. @throws Refusal E_NOT_FOUND, identical for another tenant's key and for a malformed id, so existence never leaks */
export async function getKey(state: TenantState, key_id: string): Promise<OpenKey> {
  return existing(await state.findKey(key_id))
}

function existing(key: OpenKey | undefined): OpenKey {
  if (!key) throw new Refusal('E_NOT_FOUND', 'key not found')
  return key
}

/** The states of a key that allow an operation (the table of states in the API's contract), and what it does. */
interface Allowed {
  states: readonly wire.KeyStatus[]
  to: string
}

/** Gets a key that is in one of these states. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED */
export async function getKeyInState(state: TenantState, key_id: string, allowed: Allowed): Promise<OpenKey> {
  return inState(await state.findKey(key_id), allowed)
}

/**
 * Decides with a key that is in one of these states: at once if the key is loaded, because a promise for each of them is a tenth of what an
 * item of a batch costs. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED
 */
export function decideWithKey<Answer>(
  { state, key_id, ...allowed }: Allowed & { state: TenantState; key_id: string },
  decide: (key: OpenKey) => Decision<Answer>,
): Decision<Answer> | Promise<Decision<Answer>> {
  const found = state.findKey(key_id)
  return found instanceof Promise ? found.then((key) => decide(inState(key, allowed))) : decide(inState(found, allowed))
}

function inState(found: OpenKey | undefined, { states, to }: Allowed): OpenKey {
  const key = existing(found)
  // A code of its own, so that an application can tell erased data, which no retry and no restored envelope brings back.
  if (key.row.status === 'destroyed' && !states.includes('destroyed'))
    throw new Refusal('E_KEY_DESTROYED', KEY_DESTROYED)
  if (!states.includes(key.row.status)) {
    throw new Refusal('E_STATE', `the key is ${key.row.status}: to ${to} it must be ${states.join(' or ')}`)
  }
  return key
}

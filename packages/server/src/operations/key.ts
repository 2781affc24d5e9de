/** What a key's state allows (the table of states in the API's contract), and its parts once it is allowed. */
import type { wire } from '@eaas/protocol'
import type { OpenKey, OpenKeyVersion } from '../runner/load-key.js'
import { keyNotFound, Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'

/** Gets a key whatever its state. @throws Refusal E_NOT_FOUND */
export async function getKey(state: TenantState, key_id: string): Promise<OpenKey> {
  const key = await state.findKey(key_id)
  if (!key) throw keyNotFound()
  return key
}

/** Gets a key that is in one of these states. @throws Refusal E_NOT_FOUND, E_STATE */
export async function getKeyIn(
  state: TenantState,
  key_id: string,
  { states, to }: { states: readonly wire.KeyStatus[]; to: string },
): Promise<OpenKey> {
  const key = await getKey(state, key_id)
  if (!states.includes(key.row.status)) {
    throw new Refusal('E_STATE', `the key is ${key.row.status}: to ${to} it must be ${states.join(' or ')}`)
  }
  return key
}

/** The states in which a key opens what it once protected: disabling stops new use, never reading. */
export const OPENING_STATES = ['active', 'disabled'] as const

/** The current version of a key, with its KEK. */
export function currentVersion(key: OpenKey): OpenKeyVersion & { kek: NonNullable<OpenKeyVersion['kek']> } {
  const version = key.versions.get(key.row.current_version)
  if (!version?.kek) throw new Error(`key ${key.row.key_id} has no KEK for its current version`)
  return { ...version, kek: version.kek }
}

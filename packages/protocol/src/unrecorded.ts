/** The calls that write no audit entry although they reveal something: they are counted instead. */
import type { ProblemCode } from './problem.js'

export const UNRECORDED_KINDS = [
  'hash',
  'wrapped_key_refused',
  'decryption_refused',
  'permission_refused',
  'address_refused',
  'api_key_refused',
  'unknown_id_refused',
  'state_refused',
  'destroyed_key_refused',
  'quota_refused',
  'budget_refused',
  'invalid_refused',
] as const

export type UnrecordedKind = (typeof UNRECORDED_KINDS)[number]

// Not E_ENVELOPE_ONLY, whose refusal has an entry.
const REFUSED: Partial<Record<ProblemCode, UnrecordedKind>> = {
  E_WRAPPED_KEY: 'wrapped_key_refused',
  E_DECRYPTION_FAILED: 'decryption_refused',
  E_MISSING_PERMISSION: 'permission_refused',
  E_IP_NOT_ALLOWED: 'address_refused',
  E_UNAUTHORIZED: 'api_key_refused',
  E_NOT_FOUND: 'unknown_id_refused',
  E_STATE: 'state_refused',
  E_VERSION_TOO_OLD: 'state_refused',
  E_KEY_DESTROYED: 'destroyed_key_refused',
  E_VERSION_DESTROYED: 'destroyed_key_refused',
  E_QUOTA_EXCEEDED: 'quota_refused',
  E_BUDGET: 'budget_refused',
  E_VALIDATION: 'invalid_refused',
  E_PLAINTEXT_TOO_LARGE: 'invalid_refused',
}

/** Undefined for refusals that are not counted. */
export function findRefusedKind(code: ProblemCode): UnrecordedKind | undefined {
  return REFUSED[code]
}

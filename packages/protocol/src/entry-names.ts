/** The names in audit entries, for action, actor and end user, and the calls that are counted instead. They never change. */
import { encodeUtf8 } from './bytes.js'
import type { ProblemCode } from './problem.js'

export const ACTIONS = [
  'key.wrap',
  'key.unwrap',
  'key.index_secret',
  'key.create',
  'key.rotate',
  'key.update',
  'key.enable',
  'key.disable',
  'key.destroy',
  'key.export',
  'key.rotation_policy',
  'key.restate',
  'encrypt',
  'decrypt',
  'envelope_only.refused',
  'budget.refused',
  'usage.doubled',
  'api_key.create',
  'api_key.update',
  'api_key.revoke',
  'api_key.restate',
  'tenant.update',
  'tenant.restate',
  'audit.purge',
  'audit.rollback_accepted',
  'audit.clock_accepted',
  'audit.key_renew',
] as const

export type Action = (typeof ACTIONS)[number]
/** Every other actor is an API key's id. */
export const SYSTEM_ACTOR = 'system'
/** The id of the installation's own log; no tenant ever has it. */
export const INSTALLATION_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const INSTALLATION_ACTIONS = [
  'installation.create',
  'installation.migrate',
  'installation.start',
  'installation.stop',
  'installation.anchor',
  'installation.tenant_create',
  'installation.tenant_update',
  'installation.tenant_suspend',
  'installation.tenant_resume',
  'installation.tenant_delete',
  'installation.tenant_move',
  'installation.tenant_arrive',
  'installation.tenant_gone',
  'installation.rollback_accepted',
  'installation.schema_accepted',
  'installation.purge',
  'installation.verify',
  'installation.export',
  'installation.doctor',
  'installation.root_key_rotate',
  'installation.store_key_rotate',
  'installation.secrets_rotate',
  'installation.operator_call',
] as const

export type InstallationAction = (typeof INSTALLATION_ACTIONS)[number]
export type LogAction = Action | InstallationAction

/** Calls without an entry although they reveal something; they are counted by kind instead. */
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

// Without E_ENVELOPE_ONLY, whose refusal has an entry.
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

/** Names the end user for whom a caller acts, also in each entry of the call. Requires `audit:on_behalf_of`. */
export const ON_BEHALF_OF_HEADER = 'eaas-on-behalf-of'
/** The valid values of the header. A comma is not allowed, because servers join repeated headers with commas. */
export const ON_BEHALF_OF = /^[\x21-\x2b\x2d-\x7e]{1,255}$/

export function isOnBehalfOf(text: string): boolean {
  return ON_BEHALF_OF.test(text)
}

/** An unescaped character. The percent sign is escaped, so that two ids never have the same form. */
const PLAIN = /^[\x21-\x24\x26-\x2b\x2d-\x7e]$/

/** The form in which brokers name an end user: everything but visible ASCII, and comma and percent sign, is escaped like `%2C`. */
export function escapeUser(id: string): string {
  return Array.from(id, (character) => (PLAIN.test(character) ? character : percentEncode(character))).join('')
}

/** The forms in which the log may name an end user: as the caller stated it, and as a broker escapes it. */
export function formsOfUser(id: string): string[] {
  return [...new Set([id, escapeUser(id)])]
}

function percentEncode(character: string): string {
  return Array.from(encodeUtf8(character), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

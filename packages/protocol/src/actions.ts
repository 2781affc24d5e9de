/** The actions that an audit entry can name. They never change, because exporters and auditors filter by them. */

/** Every audit action, in the order in which the documentation lists them. */
export const ACTIONS = [
  'key.wrap',
  'key.unwrap',
  'key.create',
  'key.rotate',
  'key.enable',
  'key.disable',
  'key.destroy',
  'key.export',
  'key.rotation_policy',
  'encrypt',
  'decrypt',
  'envelope_only.refused',
  'api_key.create',
  'api_key.update',
  'api_key.revoke',
  'tenant.update',
  'audit.purge',
  'audit.rollback_accepted',
] as const

export type Action = (typeof ACTIONS)[number]

/** The actor of changes by the server itself or by its operator; every other actor is an API key's id. */
export const SYSTEM_ACTOR = 'system'

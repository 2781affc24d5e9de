/** The actions that an audit entry can name. They never change, because exporters and auditors filter by them. */

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
